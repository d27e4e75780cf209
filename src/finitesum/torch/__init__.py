r"""Heavy-ball methods as PyTorch optimizers: `AdaHB`, `HB`, and `EpochT` to set their t by hand.

The last iterate is the model: there is nothing to switch for evaluation. What has to be chosen is what t counts, see
`AdaHB`.
"""

from finitesum.torch.epochs import EpochLengthWarning, EpochT
from finitesum.torch.optimizers import HB, AdaHB
from finitesum.torch.projections import EachRow

__all__ = ["HB", "AdaHB", "EachRow", "EpochLengthWarning", "EpochT"]
