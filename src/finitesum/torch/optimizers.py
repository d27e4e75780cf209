"""`AdaHB` and `HB`: the heavy-ball methods whose last iterate is optimal, as optimizers of torch."""

from typing import Any, Literal

from torch import Tensor

from finitesum.torch.heavy_ball import HeavyBall


class AdaHB(HeavyBall):
    r"""Adaptive heavy ball with time-varying momentum: the last iterate is the output.

    .. math::

        v_t = (1 - \tfrac{\gamma}{t}) v_{t-1} + \tfrac{\gamma}{t} g_t^2, \quad s_t = \sqrt{v_t} + \delta / \sqrt t, \quad
        w_{t+1} = P_Q^{s_t}\bigl(w_t - \tfrac{\alpha}{(t+2) \sqrt t} g_t / s_t + \tfrac{t}{t+2} (w_t - w_{t-1})\bigr)

    [1, eq. 12 and algorithm 1], with :math:`\alpha` = ``lr`` and the projection in the metric s, which the proofs use.

    **What t counts** must be chosen, because it makes two different optimizers:

    * ``steps_per_epoch=len(loader)``: t counts epochs, as in the published networks. An ordinary heavy ball whose momentum
      grows from 1/3 towards 1 (0.98 after 100 epochs) and whose step falls as :math:`1/\sqrt{epoch}`. **For networks.**
    * ``steps_per_epoch=1``: t counts steps, as in the theorems. Gradients are taken close to the uniform mean of all points
      so far; networks train 5 to 20 times worse. **For convex problems**, with ``gamma=0.9``.
    * ``steps_per_epoch=None``: t is ``group["t"]``, and `EpochT` moves it.

    With gradients accumulated over k batches, an epoch has ``ceil(len(loader) / k)`` steps. `epoch` shows t, and
    `epoch_end` checks the length against a real epoch.

    **Learning-rate schedulers** multiply the built-in :math:`1/\sqrt t`: use them for a warm-up, or give ``decay="none"``
    with a cosine or linear schedule. OneCycleLR and CyclicLR need ``cycle_momentum=False``.

    Parameters
    ----------
    params : iterable of tensors, of (name, tensor) pairs, or of dicts
        What is optimized; a dict makes a group with options of its own.
    lr : float or Tensor, default 1e-2
        :math:`\alpha \ge 0`. The first move is about :math:`\alpha / (3 \sqrt\gamma)`, whatever the gradient's size.
    steps_per_epoch : int >= 1 or None
        Updates in an epoch, as above. There is no default.
    gamma : float in (0, 1], default 0.1
        Weight of a new squared gradient, times t.
    delta : float >= 0, default 1e-8
        Keeps s away from zero. For a simplex or a half-space take a thousandth of the gradient's size or more: coordinates
        that never had a gradient take the whole correction otherwise.
    interpolate : bool, default False
        Let t grow at every step, from 1 by 1 / steps_per_epoch, instead of by 1 at the end of an epoch.
    decay : {"sqrt", "none"}, default "sqrt"
        "none" leaves out the factor :math:`1/\sqrt t` of the step size.
    weight_decay : float >= 0, default 0.0
        Added to the gradient times w, or decoupled.
    decoupled_weight_decay : bool, default False
        Multiply w by :math:`1 - \alpha\,weight\_decay / (2 \sqrt t)` instead; :math:`\alpha / (2 \sqrt t)` is the true
        length of a step, :math:`\alpha_t / (1 - \beta_t)`.
    constraint : set of `finitesum`, `EachRow`, object with ``project_(tensor, metric)``, or None
        Holds every parameter of the group (flattened) in a set. Not saved: give it again before loading a state.
    foreach : bool or None, default None
        List operations (None: for plain tensors), or the readable reference.
    maximize : bool, default False
        Maximize instead.
    capturable : bool, default False
        Keep t on the device, for CUDA graphs.
    differentiable : bool, default False
        Let derivatives be taken through the update; parameters are no leaves then.
    fused : bool or None, default None
        One pass over memory: Triton kernels on CUDA, with one launch for all parameters of up to four million entries;
        compiled loops on the CPU (some seconds to compile once, kept on disk). Not with a constraint.

    Attributes
    ----------
    epoch : float
        t of the last update.

    Raises
    ------
    TypeError
        ``steps_per_epoch`` is missing or no whole number; the constraint is no set.
    ValueError
        An option is out of its range, or excludes another.
    RuntimeError
        ``fused=True`` where it cannot work.

    Notes
    -----
    State of a parameter: ``step``, ``momentum_buffer`` (the displacement :math:`w_{t-1} - w_t`) and ``square_avg``, in
    float32 for half precision. t follows each parameter's own ``step``, so that late-added parameters start at 1; where a
    scheduler sets t, their first squared gradient starts ``square_avg``. A start outside of the constraint is moved onto it
    in the first update. On an l1 ball or a simplex the iterates are chaotic: a difference of 1e-12 grows to 1e-3 in 1,000
    steps, which is not visible in the objective.

    References
    ----------
    .. [1] Tao, Long, Wu, Tao, "The Role of Momentum Parameters in the Optimal Convergence of Adaptive Polyak's Heavy-ball
       Methods", ICLR 2021, arXiv 2102.07314.

    Examples
    --------
    >>> import torch
    >>> from finitesum.torch import AdaHB
    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(64, 3), torch.randn(64, 1)
    >>> loader = list(zip(x.split(16), y.split(16)))
    >>> model = torch.nn.Linear(3, 1)
    >>> optimizer = AdaHB(model.parameters(), lr=1e-2, steps_per_epoch=len(loader))
    >>> for epoch in range(20):
    ...     for inputs, targets in loader:
    ...         optimizer.zero_grad()
    ...         torch.nn.functional.mse_loss(model(inputs), targets).backward()
    ...         optimizer.step()
    ...     n = optimizer.epoch_end()
    >>> optimizer.epoch, n
    (20.0, 4)
    """

    _adaptive = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        *,
        steps_per_epoch: int | None,
        gamma: float = 0.1,
        delta: float = 1e-8,
        interpolate: bool = False,
        decay: Literal["sqrt", "none"] = "sqrt",
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        constraint: Any = None,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, locals())


class HB(HeavyBall):
    r"""Heavy ball with time-varying momentum: the last iterate is the output.

    .. math:: w_{t+1} = P_Q\bigl(w_t - \tfrac{\alpha}{(t+2) \sqrt t} g_t + \tfrac{t}{t+2} (w_t - w_{t-1})\bigr)

    [1, theorem 3]: `AdaHB` without the metric. In the long run a step is :math:`\alpha / (2 \sqrt t)` gradients long. For
    convex functions with gradients of at most M on a set of diameter D, :math:`\alpha = D / (\sqrt 2 M)` minimises the
    bound of the theorem.

    Parameters
    ----------
    params : iterable of tensors, of (name, tensor) pairs, or of dicts
        What is optimized; a dict makes a group with options of its own.
    lr : float or Tensor, default 1e-1
        :math:`\alpha \ge 0`.
    steps_per_epoch, interpolate, decay, weight_decay, decoupled_weight_decay
        As in `AdaHB`.
    constraint, foreach, maximize, capturable, differentiable, fused
        As in `AdaHB`; a constraint gets None for the metric, which means the Euclidean projection.

    Attributes
    ----------
    epoch : float
        t of the last update.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As in `AdaHB`.

    References
    ----------
    .. [1] Tao, Long, Wu, Tao, "The Role of Momentum Parameters in the Optimal Convergence of Adaptive Polyak's Heavy-ball
       Methods", ICLR 2021, arXiv 2102.07314.

    Examples
    --------
    Minimise :math:`|w_1 - 2| + |w_2|` on the unit ball:

    >>> import torch
    >>> from finitesum.constraints import L2Ball
    >>> from finitesum.torch import HB
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = HB([w], lr=1.0, steps_per_epoch=1, constraint=L2Ball(1.0))
    >>> for _ in range(100):
    ...     optimizer.zero_grad()
    ...     (w - torch.tensor([2.0, 0.0])).abs().sum().backward()
    ...     optimizer.step()
    >>> w.detach()
    tensor([1., 0.])
    """

    _adaptive = False

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-1,
        *,
        steps_per_epoch: int | None,
        interpolate: bool = False,
        decay: Literal["sqrt", "none"] = "sqrt",
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        constraint: Any = None,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, locals())
