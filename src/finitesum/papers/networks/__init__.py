"""The networks of the heavy-ball paper: AdaHB against Adam, SGD, SGD-momentum, AdaGrad and RMSProp.

``python -m finitesum.papers.networks --size quick --out DIR`` runs the comparison and writes rows (CSV), figures (PNG) and
a verdict (Markdown). It needs torch: ``pip install 'finitesum[torch]'``.

References
----------
.. [1] Tao, Long, Wu, Tao, "The Role of Momentum Parameters in the Optimal Convergence of Adaptive Polyak's Heavy-ball
   Methods", ICLR 2021, arXiv 2102.07314, section 5.2 and figures 2 to 5.
"""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError("the networks need torch: pip install 'finitesum[torch]'.", name="torch")
