"""Problems of multinomial models by a name of their own."""

from typing import Any

from finitesum.problems.linear import Problem


class MultinomialProblem:
    """The problem of a multinomial model: what ``Problem.linear(X, y, loss="multinomial")`` returns.

    F(W, b) = (1/S) sum_i s_i (logsumexp_k u_ik - u_{i, y_i}) + alpha/2 ||W||^2,    u_ik = x_i'w_k + b_k

    An iterate is the table (W, b), shape (K, dim) with dim = d + 1 where there is an intercept, row by row in one vector.
    One number added to all K intercepts changes nothing; from a start at 0 the solution has intercepts of mean 0.
    """

    @staticmethod
    def linear(X: Any, y: Any, **parameters: Any) -> Problem:
        """Return the problem; the parameters are those of `Problem.linear`.

        Examples
        --------
        >>> problem = MultinomialProblem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], alpha=0.1, fit_intercept=True)
        >>> problem.n_outputs, problem.dim
        (3, 6)
        """
        return Problem.linear(X, y, loss="multinomial", **parameters)
