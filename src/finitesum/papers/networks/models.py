r"""The networks of the heavy-ball paper, layer by layer as the authors' Keras code builds them.

What Keras' defaults mean in torch:

- dense and convolution kernels uniform in :math:`\pm\sqrt{6 / (fan_{in} + fan_{out})}` (Glorot), biases zero;
- batch normalisation with momentum 0.99 and epsilon 1e-3: torch's momentum is the weight of the new batch, 0.01;
- ReLU stands *before* batch normalisation in the four-layer network, and the loss takes the place of the softmax.

What differs: torch flattens channels first, which permutes the inputs of the dense layer and nothing else.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: (channels, height, width) of an image.
Shape = tuple[int, int, int]

#: Weight of a new batch in the running statistics, and what keeps the deviation from zero: Keras' defaults.
BN_MOMENTUM, BN_EPSILON = 0.01, 1e-3

#: Keras' l2(1e-4) adds 1e-4 |W|^2: without the half, so that its gradient is 2e-4 W.
L2 = 1e-4

#: Standard deviation of a normal variable that is cut at two of its own.
_CUT_DEVIATION = 0.87962566103423978


def cnn(image_shape: Shape, n_classes: int, bn_momentum: float = BN_MOMENTUM) -> nn.Sequential:
    """Return the four-layer network of section 5.2: two convolutions, two dense layers, which give logits.

    With fewer than some hundred steps the published weight 0.01 of a new batch leaves the running statistics near their
    start, and test accuracy means nothing; the training itself does not depend on it.
    """
    channels, height, width = image_shape
    network = nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding="same"),
        nn.ReLU(),
        nn.BatchNorm2d(32, BN_EPSILON, bn_momentum),
        nn.Conv2d(32, 32, 3, padding="same"),
        nn.ReLU(),
        nn.BatchNorm2d(32, BN_EPSILON, bn_momentum),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(32, BN_EPSILON, bn_momentum),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(32 * (height // 2) * (width // 2), 128),
        nn.ReLU(),
        nn.BatchNorm1d(128, BN_EPSILON, bn_momentum),
        nn.Dropout(0.5),
        nn.Linear(128, n_classes),
    )
    _initialize(network, nn.init.xavier_uniform_)
    return network


def _initialize(network: nn.Module, fill: Callable[[Tensor], object]) -> None:
    """Fill the kernels, and set the biases to zero."""
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            fill(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]


def _he_normal_(weight: Tensor) -> None:
    """Fill a kernel as Keras' he_normal: variance 2 / fan_in, cut at two standard deviations."""
    deviation = math.sqrt(2.0 / weight[0].numel()) / _CUT_DEVIATION
    nn.init.trunc_normal_(weight, std=deviation, a=-2.0 * deviation, b=2.0 * deviation)


class _SameConv2d(nn.Conv2d):
    """A convolution with Keras' "same" padding, which for stride 2 puts the odd row and column at the end."""

    def forward(self, input: Tensor) -> Tensor:
        height, width = (self._padding(size, axis) for axis, size in enumerate(input.shape[-2:]))
        padded = F.pad(input, (width // 2, width - width // 2, height // 2, height - height // 2))
        return super().forward(padded)

    def _padding(self, size: int, axis: int) -> int:
        kernel, stride = self.kernel_size[axis], self.stride[axis]
        return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


class _Unit(nn.Module):
    """Two convolutions beside a shortcut; the shortcut's projection has no batch normalisation."""

    def __init__(self, n_in: int, n_out: int, stride: int, bn_momentum: float) -> None:
        super().__init__()
        self.conv1 = _SameConv2d(n_in, n_out, 3, stride=stride)
        self.norm1 = nn.BatchNorm2d(n_out, BN_EPSILON, bn_momentum)
        self.conv2 = _SameConv2d(n_out, n_out, 3)
        self.norm2 = nn.BatchNorm2d(n_out, BN_EPSILON, bn_momentum)
        self.project = _SameConv2d(n_in, n_out, 1, stride=stride) if stride != 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        shortcut = x if self.project is None else self.project(x)
        return torch.relu(y + shortcut)


class ResNet20(nn.Module):
    """What the paper calls ResNet-18: ResNet-20 v1 of the Keras examples, 6 * 3 + 2 layers with 16, 32 and 64 channels.

    Convolutions have biases, kernels are He-normal and penalised by `L2`. Height and width of an image are halved twice.
    """

    def __init__(self, image_shape: Shape, n_classes: int, bn_momentum: float = BN_MOMENTUM) -> None:
        super().__init__()
        self.conv = _SameConv2d(image_shape[0], 16, 3)
        self.norm = nn.BatchNorm2d(16, BN_EPSILON, bn_momentum)
        plan = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
        self.units = nn.Sequential(*(_Unit(*sizes, bn_momentum) for sizes in plan))
        self.dense = nn.Linear(64, n_classes)
        _initialize(self, _he_normal_)

    def forward(self, x: Tensor) -> Tensor:
        x = self.units(torch.relu(self.norm(self.conv(x))))
        return self.dense(x.mean(dim=(-2, -1)))  # type: ignore[no-any-return]


#: By name: makes a network from the images' shape, the number of classes and the batch normalisation's momentum.
MODELS: dict[str, Callable[[Shape, int, float], nn.Module]] = {"cnn": cnn, "resnet20": ResNet20}


def kernel_penalty(network: nn.Module) -> Tensor | None:
    """Return what a network adds to its loss, for the residual one's convolutions; None where it adds nothing.

    Keras counts it in the training loss that it reports, and so do we.
    """
    if not isinstance(network, ResNet20):
        return None
    kernels = [layer.weight for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    return L2 * torch.stack([kernel.square().sum() for kernel in kernels]).sum()
