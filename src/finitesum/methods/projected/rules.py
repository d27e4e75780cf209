"""The table of rules: what kind of step each projected method takes.

With a subgradient g_t at w_t, an unbiased estimate of one, or one of a mini-batch, t = 1, 2, ..., w_0 = w_1, products and
quotients by coordinates, 0/0 = 0, and the step lengths a_t of a schedule (alpha/sqrt(t) if not said otherwise)::

    psg, sgd      w_{t+1} = P(w_t - a_t g_t)
    hb            w_{t+1} = P(w_t - a_t/(t+2) g_t + t/(t+2) (w_t - w_{t-1}))                             [1, Theorem 3]
      averaging   z_{t+1} = P(z_t - a_t g_t),   w_{t+1} = w_t + (z_{t+1} - w_t)/(t+2)
    hb, beta      w_{t+1} = P(w_t - a_t g_t + beta (w_t - w_{t-1})),   output: the mean of w_1..w_T      [1, Theorem 4]
      averaging   z_{t+1} = P(z_t - a_t/(1-beta) g_t),   w_{t+1} = beta w_t + (1-beta) z_{t+1}
    nag           y_t = w_t + (t-2)/(t+1) (w_t - w_{t-1}),   w_{t+1} = P(y_t - a_{t+1}/(t+1) g(y_t))                 [2]
    sgd-momentum  "keras": hb, beta with the last iterate as its output
                  "torch": b_t = beta b_{t-1} + g_t,   w_{t+1} = P(w_t - a_t b_t)
    adahb         hb with P_t, g_t/s_t,   V_t = (1 - gamma/t) V_{t-1} + (gamma/t) g_t^2,
                  s_t = sqrt(V_t) + delta/sqrt(t)                                        [1, Algorithm 1, Theorems 5 and 6]
    adagrad       G_t = G_{t-1} + g_t^2,   s_t = sqrt(G_t) + delta,   w_{t+1} = P_t(w_t - alpha g_t/s_t)             [3]
    rmsprop       "torch": V_t = rho V_{t-1} + (1-rho) g_t^2,   s_t = sqrt(V_t) + delta,   w_{t+1} = P_t(w_t - a_t g_t/s_t)
                  "mukkamala-hein": V_t, s_t as in adahb                                                             [4]
    adam          m_t = beta1 m_{t-1} + (1-beta1) g_t,   V_t = beta2 V_{t-1} + (1-beta2) g_t^2,
                  s_t = sqrt(V_t/(1-beta2^t)) + delta,   w_{t+1} = P_t(w_t - a_t m_t/(1-beta1^t)/s_t)                [5]
    amsgrad       m_t, V_t as in adam,   s_t = sqrt(max_{k<=t} V_k) + delta,   w_{t+1} = P_t(w_t - a_t m_t/s_t)      [6]

P is the Euclidean projection, P_t that in the metric s_t, argmin_{y in Q} sum_i s_{t,i} (y_i - x_i)^2. A quadratic penalty
is a part of the subgradient; an intercept is not projected.

**Where we deviate from [1].** Algorithm 1 prints P for P_t, while its proof needs P_t, and a fixed point of the printed
method is no minimum (the page on adahb has an example). For sets that bound coordinates one by one, and without constraint,
both are the same. ``projection="euclidean"`` is there for comparison with the literature, in all adaptive methods.

**Two forms of the heavy ball.** The displacement form is the published one. Both have the same iterates while P does
nothing, since z_{t+1} = w_{t+1} + (t+1)(w_{t+1} - w_t). Where the constraint acts, the published proofs hold of the
averaging form alone, which rounds better and is cheap on sparse rows; the displacement form often ends nearer to the
minimum. The pages on hb and adahb have the bounds.

gamma > 1 would break sqrt(t) s_t >= sqrt(t-1) s_{t-1}, on which the bound rests. With gamma = 1, sqrt(t) s_t is AdaGrad's
metric; gamma < 1 does not favour recent subgradients: V_t weighs g_k^2 like k^(gamma-1).

[1] to [6] are the references of HB and AdaHB, NAG, AdaGrad, RMSProp, Adam and AMSGrad in
`finitesum.methods.projected.methods`.
"""

from typing import Any

from finitesum.methods.projected import steps
from finitesum.methods.projected.steps import Rule
from finitesum.problems.rows import CSRRows

#: The rule of each method, and of each variant of one; the options set its numbers.
RULES = {
    "psg": Rule(),
    "sgd": Rule(),
    "hb": Rule(momentum=steps.VARYING),
    "nag": Rule(form=steps.EXTRAPOLATED),
    "sgd-momentum/keras": Rule(),
    "sgd-momentum/torch": Rule(direction=steps.GRADIENT_SUM),
    "adahb": Rule(momentum=steps.VARYING, metric=steps.MEAN_SQUARE),
    "adagrad": Rule(metric=steps.SQUARE_SUM, schedule=steps.CONSTANT),
    "rmsprop/torch": Rule(metric=steps.FORGETTING),
    "rmsprop/mukkamala-hein": Rule(metric=steps.MEAN_SQUARE),
    "adam": Rule(metric=steps.CORRECTED, direction=steps.CORRECTED_MEAN),
    "amsgrad": Rule(metric=steps.LARGEST, direction=steps.GRADIENT_MEAN),
}

#: The numbers of a rule that an option sets as it is.
NUMBERS = {"gamma": "metric_memory", "memory": "metric_memory", "beta2": "metric_memory", "beta1": "direction_memory"}

#: CSR rows with more columns are treated in the averaging form, which alone allows deferred projections.
N_WIDE_COLUMNS = 5000

#: The small number in the metric, where nothing else is asked for; that of Adam's authors.
DEFAULT_DELTA = 1e-8


def rule_of(method: Any, problem: Any) -> Rule:
    """Return the rule of a method on a problem: that of the table, with the numbers of the method's options."""
    options = vars(method)
    rule = RULES[f"{method.name}/{options['variant']}" if "variant" in options else method.name]
    changes: dict[str, Any] = {NUMBERS[name]: float(options[name]) for name in options if name in NUMBERS}
    if "momentum" in options and not isinstance(options["momentum"], str):
        name = "direction_memory" if rule.direction == steps.GRADIENT_SUM else "momentum"
        changes[name] = float(options["momentum"])
    if "form" in options:
        changes["form"] = chosen_form(options["form"], options["momentum"], problem)
    if "delta" in options:
        changes["delta"] = chosen_delta(options["delta"], problem)
        changes["is_weighted"] = options["projection"] == "weighted"
    if "schedule" in options:
        changes["schedule"] = steps.SCHEDULES[options["schedule"]]
    if "output" in options:
        changes["output"] = steps.OUTPUTS[options["output"]]
    return rule._replace(**changes)


def chosen_form(form: str, momentum: float | str, problem: Any) -> int:
    """Return the form of a heavy ball on a problem: "auto" averages on wide sparse rows."""
    if form == "auto":
        rows = getattr(problem, "rows", None)
        is_wide = isinstance(rows, CSRRows) and rows.n_columns > N_WIDE_COLUMNS
        return steps.AVERAGED if is_wide and isinstance(momentum, str) else steps.DISPLACED
    return steps.AVERAGED if form == "averaging" else steps.DISPLACED


def chosen_delta(delta: float | str, problem: Any) -> float:
    """Return delta, or 1e-8 for "auto".

    It must be given on a simplex or a half-space: coordinates without subgradients would take the whole correction.
    """
    if not isinstance(delta, str):
        return float(delta)
    if problem.constraint.needs_floor:
        raise ValueError(
            f"delta must be given on a {type(problem.constraint).__name__}: the projection moves a coordinate by the "
            "inverse of its metric. Take about a thousandth of a typical entry of a subgradient."
        )
    return DEFAULT_DELTA
