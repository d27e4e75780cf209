"""The problem: F(w) = (1/S) sum_i s_i loss(y_i, x_i'w + b + o_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2).

S is the sum of the sample weights s_i; the intercept b, the last coordinate of an iterate where there is one, is neither
penalised nor constrained; o_i are known offsets. All input is checked here, once: what lies below trusts it.

With K outputs (K classes, or K targets) the loss takes K predictions x_i'w_k + b_k + o_ik of a row, and an iterate is the
table (w_1, b_1; ...; w_K, b_K) of shape (K, dim), row by row in one vector. What is compiled sees one output only: kernels
run as Python on blocks of rows (`finitesum.problems.outputs`).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from finitesum.constraints import Constraint, Unconstrained
from finitesum.core.arrays import Vector
from finitesum.losses import Loss, LossName, Squared, as_loss, is_convex
from finitesum.problems.digests import digest_of
from finitesum.problems.given_term import convex_term
from finitesum.problems.input import as_rows, checked_numbers, checked_targets, checked_weights
from finitesum.problems.outputs import block_parts
from finitesum.problems.partitioned import PartedRows, RowNumbers, is_parted
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.survey import bind, partitioned_term, read_parts
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import TermPenalty, described
from finitesum.problems.view import View

#: Cached properties, and what is derived from the rows, that do not depend on the size of components.
_KEPT = "term", "has_offsets", "is_smooth", "equal_weight"
_KEPT_DERIVED = "costs_of", "traits_of", "hessian_sample", "stops_of_parts"


@dataclass(frozen=True, eq=False)
class Problem:
    """A regularised linear model as a finite sum; made by `Problem.linear`.

    F(w) = (1/S) sum_i s_i loss(y_i, x_i'w + b + o_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    Attributes
    ----------
    rows : DenseRows or CSRRows
    targets, offsets, weights : ndarray of float64, shape (n,)
        Targets are -1 and +1 for classification losses; weights sum to 1. With K outputs offsets have shape (n, K), and
        targets are the codes 0 to K - 1 of the classes (int64), or numbers of shape (n, K).
    loss : Loss
    penalty : ElasticNet, Separable or Groups
    constraint : Constraint
        The set that the coefficients lie in; the intercept is free.
    classes : ndarray or None
        The two labels behind -1 and +1, in this order, or the K labels behind the codes.
    batch_size : int or None
        Rows in a component; None leaves it to the method.
    n_outputs : int >= 1
        K, the number of predictions that the loss takes of a row.
    """

    rows: Any  # DenseRows, CSRRows or PartedRows
    targets: Vector
    offsets: Vector
    weights: Vector
    loss: Loss
    penalty: TermPenalty
    constraint: Constraint
    classes: Any = None
    batch_size: int | None = None
    n_outputs: int = 1

    @classmethod
    def linear(
        cls,
        X: Any,
        y: Any,
        *,
        loss: LossName | Loss = "logistic",
        alpha: float = 0.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = False,
        sample_weight: Any = None,
        offset: Any = None,
        constraint: Constraint | None = None,
        penalty: Any = None,
        penalty_weights: Any = None,
        groups: Any = None,
        batch_size: int | None = None,
    ) -> "Problem":
        """Return the problem of a generalised linear model.

        X is not copied where it is a C-ordered array of floats, or CSR: the problem shares its memory, so that X may be
        memory-mapped. Do not write to it while the problem is in use; give ``X.copy()`` where you must.

        Parameters
        ----------
        X : array_like or scipy sparse, shape (n, d)
            float32 is kept; CSR indices may be int32 or int64.
        y : array_like, shape (n,) or (n, K)
            Two labels of any kind for classification losses (the larger becomes +1), two or more for "multinomial",
            numbers otherwise. The squared loss takes K targets a row.
        loss : str or Loss
            A name of `finitesum.losses.LOSSES`, "multinomial", or an instance.
        alpha : float >= 0
            Strength of the penalty, against the weighted mean of the losses.
        l1_ratio : float in [0, 1]
            0 is the l2 penalty, 1 the l1 penalty.
        fit_intercept : bool
            Whether the last coordinate of an iterate is an intercept, which is never penalised.
        sample_weight : array_like, shape (n,), optional
            Weights >= 0; weight 2 means the same as the row written twice.
        offset : array_like, shape (n,) or (n, K), optional
            Added to each prediction.
        constraint : Constraint, optional
            A set from `finitesum.constraints` that the coefficients must lie in, not the intercept; with several outputs
            those of each output by themselves. An elastic net, with weights or without, may stand beside bounds (`Box`,
            `NonNegative`), and an l2 penalty beside any set.
        penalty : MCP, SCAD or another from `finitesum.problems.penalties`, optional
            In the place of alpha and l1_ratio. With one that is not convex, methods find a stationary point.
        penalty_weights : array_like, shape (d,), optional
            Numbers v_j >= 0 that the penalty of each coefficient is multiplied with, as in the adaptive lasso:
            alpha (l1_ratio sum_j v_j |w_j| + (1 - l1_ratio)/2 sum_j v_j w_j^2). 0 leaves a coefficient free.
        groups : array_like, shape (d,), optional
            A label for each column: the penalty is then the (sparse) group lasso
            alpha ((1 - l1_ratio) sum_g sqrt(K d_g) ||W_g|| + l1_ratio ||W||_1), d_g the number of columns in group g,
            K that of outputs, 1 but for several classes or targets, and W_g all K d_g coefficients of the group's columns:
            they are 0 together, for all outputs.
        batch_size : int >= 1, optional
            Rows in a component; left out, the method chooses, and with several outputs it is about n / 1024.

        Raises
        ------
        ValueError
            Empty or mismatched input, NaN or infinity, negative or all-zero weights, labels that are not two, and more.

        Examples
        --------
        >>> problem = Problem.linear([[0.0], [1.0], [3.0]], ["no", "no", "yes"], alpha=0.1)
        >>> problem.dim, problem.n_rows, problem.targets
        (1, 3, array([-1., -1.,  1.]))

        Three classes have a row of coefficients each:

        >>> problem = Problem.linear([[0.0], [1.0], [3.0]], ["a", "b", "c"], loss="multinomial", fit_intercept=True)
        >>> problem.n_outputs, problem.dim, problem.targets
        (3, 6, array([0, 1, 2]))
        """
        rows = as_rows(X, intercept=fit_intercept)
        weights = checked_weights(sample_weight, rows.n_rows)
        known, targets, classes, n_outputs = checked_targets(y, rows.n_rows, as_loss(loss), weights)
        shape = (rows.n_rows,) if n_outputs == 1 else (rows.n_rows, n_outputs)
        if offset is not None:
            offsets = checked_numbers(offset, shape, "offset")
        else:  # of several outputs it is a view of one number
            offsets = np.zeros(shape) if n_outputs == 1 else np.broadcast_to(0.0, shape)
        of_term = alpha, l1_ratio, constraint, penalty, penalty_weights, groups
        term = convex_term(rows.n_columns, int(rows.intercept), n_outputs, *of_term)
        data = rows, targets, offsets, weights, known, term.penalty, term.constraint, classes
        problem = cls(*data, n_outputs=n_outputs)
        return problem if batch_size is None else problem.batched(batch_size)

    @classmethod
    def partitioned(
        cls, parts: Any, *, loss: LossName | Loss = "logistic", fit_intercept: bool = False, engine: Any = None, **term: Any
    ) -> "Problem":
        """Return the problem of a generalised linear model whose rows lie in parts, which need not fit into memory at once.

        Parts are read and checked once at first. Sums over rows are then taken part by part, and added in a fixed order:
        results do not depend on how many workers there are, to the bit. Methods that visit components see each part as
        one, or as the blocks of rows that `batched` asks for.

        Parameters
        ----------
        parts : iterable
            Each a tuple ``(X, y)``, ``(X, y, weight)`` or ``(X, y, weight, offset)``; a function of no arguments or a
            ``dask.delayed`` that returns one, the same each time; a data file, a folder of them, a pattern such as
            ``data/*.parquet``, or a fragment of a ``pyarrow`` data set. `finitesum.datasets.load` reads files with options.
            Parts without rows count as absent.
        engine : Engine, optional
            Where parts are worked on: `finitesum.core.engine.Threads`, with a thread for each processor, when left out.
        loss, fit_intercept, **term
            As those of `Problem.linear`: alpha, l1_ratio, constraint, penalty, penalty_weights and groups.

        Raises
        ------
        PartError
            A part cannot be read, holds what `Problem.linear` would refuse, or differs from the others in its columns,
            layout or dtype. The message names the part. It is a ValueError.
        ValueError
            A parameter is out of range, or the labels of all parts are not two.

        Examples
        --------
        >>> parts = [([[0.0], [1.0]], ["no", "no"]), ([[3.0]], ["yes"])]
        >>> problem = Problem.partitioned(parts, alpha=0.1)
        >>> problem.n_rows, problem.dim
        (3, 1)
        """
        found = read_parts(parts, as_loss(loss), intercept=fit_intercept, engine=engine)
        both = convex_term(found.rows.n_columns, int(fit_intercept), found.n_outputs, *partitioned_term(**term))
        data = found.rows, found.targets, found.offsets, found.weights, found.loss, both.penalty, both.constraint
        return bind(cls(*data, classes=found.classes, n_outputs=found.n_outputs))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.rows.n_rows)

    @property
    def dim(self) -> int:
        """The length of an iterate, the intercepts included."""
        return int(self.n_outputs * self.rows.dim())

    @cached_property
    def n_components(self) -> int:
        """The number of components (rows, while no batch size is set)."""
        return -(-self.n_rows // (self.batch_size or 1))

    @property
    def has_intercept(self) -> bool:
        """Whether the last coordinate (of each output) is an intercept."""
        return bool(self.rows.intercept)

    @cached_property
    def has_offsets(self) -> bool:
        """Whether an offset is not 0."""
        return bool(self.offsets.any())

    @property
    def is_constrained(self) -> bool:
        """Whether the coefficients are confined to a set."""
        return self.term.is_constrained

    @cached_property
    def term(self) -> ConvexTerm:
        """Penalty and constraint, on the coefficients."""
        return ConvexTerm(self.penalty, self.constraint, self.rows.n_columns, int(self.rows.intercept), self.n_outputs)

    @cached_property
    def is_smooth(self) -> bool:
        """Whether F is differentiable and nothing confines it."""
        return self.term.is_smooth and self.loss.is_smooth()

    @property
    def has_quadratic_loss(self) -> bool:
        """Whether losses are quadratics of the predictions, whose curvature is the same everywhere."""
        return self.loss.d2_lipschitz() == 0.0

    @property
    def convex(self) -> bool:
        """Whether the loss is convex; of another one's sum, a result is a stationary point."""
        return is_convex(self.loss)

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What was derived from the problem, by what it is (costs, copies): kept as long as the problem is, never saved."""
        return {}

    @cached_property
    def of_rows(self) -> dict[str, Any]:
        """The same of rows, weights and loss alone: shared with problems that differ in penalty, batch size or targets."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("derived", "of_rows")}

    def with_penalty(self, penalty: TermPenalty) -> "Problem":
        """Return the problem with another penalty, as `as_penalty` makes it: what is known of the rows is known of it."""
        found = replace(self, penalty=penalty)
        vars(found)["of_rows"] = self.of_rows
        return found

    def batched(self, batch_size: int) -> "Problem":
        """Return the same problem with components of batch_size consecutive rows (the last may be shorter).

        Raises
        ------
        ValueError
            batch_size is no whole number >= 1.
        """
        if not isinstance(batch_size, Real) or not 1 <= batch_size < math.inf or int(batch_size) != batch_size:
            raise ValueError(f"batch_size must be a whole number >= 1, got {batch_size!r}.")
        batched = replace(self, batch_size=min(int(batch_size), self.n_rows))
        own = _KEPT[1:] if self.constraint.has_memory else _KEPT  # a term has its set's memory
        for known, names, kept in (vars(self), own, vars(batched)), (self.derived, _KEPT_DERIVED, batched.derived):
            kept.update({name: known[name] for name in names if name in known})
        vars(batched)["of_rows"] = self.of_rows
        return batched

    @property
    def n_sharing(self) -> int:
        """How many problems share what is derived from the rows: see `share_rows`."""
        return int(self.of_rows.get("n_sharing", 1))

    @property
    def slopes_shape(self) -> tuple[int, ...]:
        """The shape of a table with the loss's slope at every row: (n,), or (m, b, K) with K outputs."""
        return (self.n_rows,) if self.n_outputs == 1 else (self.n_components, self.batch_size or 1, self.n_outputs)

    @cached_property
    def component_weights(self) -> Vector:
        """The sum of the weights of each component's rows."""
        return self.by_component(self.weights)

    def by_component(self, numbers: Vector) -> Vector:
        """Return what the numbers of its rows add up to for each component."""
        if (self.batch_size or 1) == 1:
            return numbers
        return np.add.reduceat(numbers, np.arange(0, self.n_rows, self.batch_size))

    @property
    def by_rows(self) -> "Problem":
        """The same problem with a row in each component."""
        return self if self.batch_size in (None, 1) else self._by_rows

    @cached_property
    def _by_rows(self) -> "Problem":  # another one: what keeps itself stays until garbage is collected
        return replace(self, batch_size=1)

    @property
    def one_output(self) -> "Problem":
        """The squared loss of one output on the same rows, weights and penalty: what knows the rows' size and spread."""
        return self if self.n_outputs == 1 else self._one_output

    @cached_property
    def _one_output(self) -> "Problem":
        zeros: Any = np.zeros(self.n_rows) if not is_parted(self) else np.broadcast_to(0.0, self.n_rows)
        found = replace(self, targets=zeros, offsets=zeros, loss=Squared(), classes=None, n_outputs=1)
        vars(found)["of_rows"] = self.of_rows.setdefault("one_output", {})
        return found

    @cached_property
    def equal_weight(self) -> float:
        """The weight of each row where all weights are equal, else 0."""
        is_equal = not isinstance(self.weights, RowNumbers) and (self.weights == self.weights[0]).all()
        return float(self.weights[0]) if is_equal else 0.0

    @cached_property
    def view(self) -> View:
        """The problem as kernels see it; those that see blocks of rows of several outputs run as Python."""
        if self.n_outputs > 1 and not is_parted(self):
            parts: Any = (*block_parts(self), *self.term.compiled, 1, self.n_components)
            return View(*parts)
        data = self.rows, self.targets, self.offsets, self.weights, self.equal_weight, self.has_offsets, self.loss
        return View(*data, *self.term.compiled, self.batch_size or 1, self.n_components)

    @cached_property
    def view_of_rows(self) -> View:
        """The view of sums over rows, which no penalty and no set concerns: no kernel is compiled for another of them."""
        if self.n_outputs > 1:
            return self.view
        return self.view._replace(**ConvexTerm(ElasticNet(), Unconstrained(), self.rows.n_columns).compiled._asdict())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of data, loss, penalty, constraint and batch size: other digests, other problems.

        Of arrays beyond 256 MB it sees blocks spread over them, of a loss its module, name and parameters.
        """
        if isinstance(self.rows, PartedRows):
            arrays: Any = ()
            sizes: Any = self.rows.digests, self.rows.n_columns, self.rows.intercept
        else:  # the arrays before the sizes
            arrays, sizes = (*self.rows[:-3], self.targets, self.offsets, self.weights), self.rows[-3:]
        loss = type(self.loss).__module__, repr(self.loss)  # the number of outputs follows from it and the targets' shape
        return digest_of(arrays, (*loss, described(self.penalty), repr(self.constraint.to_dict()), sizes, self.batch_size))


def share_rows(problems: list[Problem]) -> None:
    """Let problems that differ in targets, offsets, penalty or set alone share what is derived from their rows."""
    memory = problems[0].of_rows
    memory["n_sharing"] = len(problems)
    for one in problems[1:]:
        vars(one)["of_rows"] = memory
