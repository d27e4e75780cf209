"""The table of methods: name, class and card of each. A method is loaded when it is first asked for: a fit needs one."""

from typing import NamedTuple


class Card(NamedTuple):
    """A method's line in the table of methods."""

    title: str
    storage: str  # order of the numbers remembered, for a linear model with one row to a component
    work: str  # order of the flops of a visit, its Hessian included
    passes: str  # order of the visits to accuracy eps, as theory has it; a pass is m visits
    needs: str  # what that theory asks of F
    reference: str


#: name | module and class | the fields of a `Card`; a row may go on in the next line.
_ROWS = """
fg | first_order.full_gradient.FG | full gradient
    | d | d | m kappa log 1/eps, worst case | smooth, strongly convex | Nesterov 2004
afg | first_order.full_gradient.AFG | accelerated full gradient
    | d | d | m sqrt(kappa) log 1/eps, worst case | smooth, strongly convex | Nesterov 2004
ig | first_order.incremental_gradient.IG | incremental gradient
    | d | d | 1/eps (sublinear) | smooth, strongly convex | Nedic, Bertsekas 2001
iag | first_order.aggregated.IAG | incremental aggregated gradient
    | m | d | m kappa log 1/eps, worst case | smooth, strongly convex | Blatt et al. 2007; rate: Vanli et al. 2018
sag | first_order.aggregated.SAG | stochastic average gradient
    | m | d | (m + kappa_max) log 1/eps, expected | smooth, strongly convex | Schmidt et al. 2017
saga | first_order.aggregated.SAGA | SAGA
    | m | d | (m + kappa_max) log 1/eps, expected | smooth, strongly convex | Defazio et al. 2014
svrg | first_order.svrg.SVRG | stochastic variance-reduced gradient
    | d; m + d as built | d | (m + kappa_max) log 1/eps, expected | smooth, strongly convex | Johnson, Zhang 2013
acc-svrg | first_order.svrg.AccSVRG | accelerated mini-batch SVRG | d; m + d as built | d
    | (m + m kappa_max / (m + sqrt(kappa_max))) log 1/eps at the best batch, expected | smooth, strongly convex
    | Nitanda 2014
sarah | first_order.sarah.SARAH | stochastic recursive gradient
    | d | d | (m + kappa_max) log 1/eps, expected | smooth, strongly convex | Nguyen et al. 2017; prox: Pham et al. 2020
svrg2 | curvature.svrg2.SVRG2 | SVRG with second derivatives | d^2; m + d^2 as built
    | d^2, and d^2 for each snapshot; d or d k with diagonals and sketches | kappa log 1/eps at best, expected
    | smooth, strongly convex, Hessian | Gower, Le Roux, Bach 2018
ciag | curvature.ciag.CIAG | curvature-aided incremental aggregated gradient | m + d^2 | d^2
    | kappa log 1/eps for small eps, worst case | smooth, strongly convex, Lipschitz Hessian | Wai et al. 2020
a-ciag | curvature.ciag.ACIAG | accelerated CIAG | m + d^2 | d^2 | sqrt(kappa) log 1/eps for small eps, worst case
    | smooth, strongly convex, Lipschitz Hessian | Wai et al. 2020
iqn | curvature.iqn.IQN | incremental quasi-Newton method | m d^2 | d^2
    | o(log 1/eps) near the optimum (superlinear), worst case
    | smooth, strongly convex, Lipschitz Hessian (read at the start only) | Mokhtari, Eisen, Ribeiro 2018
nim | curvature.nim.NIM | Newton-type incremental method | m + d^2 | d^3; d^2 with one row to a component
    | o(log 1/eps) near the optimum (superlinear), worst case | smooth, strongly convex, Lipschitz Hessian
    | Rodomanov, Kropotov 2016
newton | newton.newton.Newton | Newton's method | d^2; m + d^2 as built | d^2, and d^3 a pass
    | m log log 1/eps near the optimum (quadratic), worst case | smooth, strongly convex, Lipschitz Hessian
    | classical
multinomial-newton | newton.multinomial_newton.MultinomialNewton | Newton's method for several outputs
    | m K + (K d)^2 or K d^2 | (K d)^2 / 2, and (K d)^3 / 3 a step; K d a product
    | m log log 1/eps near the optimum (quadratic), worst case | several outputs, smooth, strongly convex | classical
lazy-newton | newton.lazy_newton.LazyNewton | Newton with a stale Hessian
    | m + 2 d^2 | d; d^2 where the curvature moved | superlinear near the optimum | two derivatives | this library
newton-cg | newton.newton_cg.NewtonCG | Newton by conjugate gradients | m + d
    | d a product, sqrt(kappa) products a step | superlinear near the optimum | two derivatives | Byrd et al. 2011
working-set-newton | newton.working_set_newton.WorkingSetNewton | Newton on working sets | 2 m + |W|^2
    | d a pass; |W|^2 a Hessian's row | superlinear on the last working set | two derivatives; sparse solutions
    | this library
interior-point | newton.interior_point.InteriorPoint | primal-dual interior points
    | 4m; 4m and d^2 while a step is made | d^2, and d^3 a pass | about 6 to 30 m, as measured
    | the hinge loss, an elastic net or a set | Mehrotra 1992
linear-program | newton.linear_program.LinearProgram | linear program | m; n d while it is solved | that of HiGHS
    | m: one pass, whatever its work | the hinge loss on an l1 ball or a box, no penalty | Huangfu, Hall 2018
psg | projected.methods.PSG | projected subgradient
    | d | d; nnz log d sparse | log^2(1/eps)/eps^2 last, 1/eps^2 mean | convex | Shor 1985
hb | projected.methods.HB | heavy ball, individual convergence
    | 2 d | d; nnz log d sparse | 1/eps^2 | convex | Tao et al. 2021
nag | projected.methods.NAG | Nesterov extrapolation, individual convergence
    | 2 d | d | 1/eps^2 | convex | Tao et al. 2020
adahb | projected.methods.AdaHB | adaptive heavy ball, individual convergence
    | 3 d | d; nnz log d sparse | d/eps^2 | convex | Tao et al. 2021
adagrad | projected.methods.AdaGrad | AdaGrad, projected
    | 2 d | d; nnz log d sparse | d/eps^2 mean | convex | Duchi et al. 2011
rmsprop | projected.methods.RMSProp | RMSProp, projected
    | 2 d | d | none known (torch), d/eps^2 mean (M. and H.) | convex | Mukkamala, Hein 2017
adam | projected.methods.Adam | Adam, projected | 3 d | d | none in general | convex | Kingma, Ba 2015
amsgrad | projected.methods.AMSGrad | AMSGrad, projected | 4 d | d | d/eps^2 mean | convex | Reddi et al. 2018
sgd | projected.methods.SGD | stochastic gradient, projected
    | d | d; nnz log d sparse | 1/eps^2 mean | convex | Robbins, Monro 1951
sgd-momentum | projected.methods.SGDMomentum | stochastic gradient with momentum, projected
    | 2 d | d | 1/eps^2 mean | convex | Polyak 1964
"""

_CELLS = [row.split(" | ") for row in _ROWS.replace("\n    |", " |").strip().splitlines()]

#: The module and class of each method, below `finitesum.methods`.
HOMES = {name: place for name, place, *_ in _CELLS}

CARDS = {name: Card(*texts) for name, _, *texts in _CELLS}
