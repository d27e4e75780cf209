"""The residual network of the paper: ResNet-20 v1, as the authors ran it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

#: Keras' l2(1e-4) adds 1e-4 |W|^2: without the half, so that its gradient is 2e-4 W.
L2 = 1e-4

#: Standard deviation of a normal variable that is cut at two of its own.
_CUT_DEVIATION = 0.87962566103423978


class _SameConv2d(nn.Conv2d):
    """A convolution with Keras' "same" padding, which for stride 2 puts the odd row and column at the end."""

    def forward(self, input: Tensor) -> Tensor:
        height, width = (self._padding(size, axis) for axis, size in enumerate(input.shape[-2:]))
        padded = F.pad(input, (width // 2, width - width // 2, height // 2, height - height // 2))
        return super().forward(padded)

    def _padding(self, size: int, axis: int) -> int:
        kernel, stride = self.kernel_size[axis], self.stride[axis]
        return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


def _he_normal_(weight: Tensor) -> None:
    """Fill a kernel as Keras' he_normal: variance 2 / fan_in, cut at two standard deviations."""
    fan_in = weight[0].numel()
    deviation = math.sqrt(2.0 / fan_in) / _CUT_DEVIATION
    nn.init.trunc_normal_(weight, std=deviation, a=-2.0 * deviation, b=2.0 * deviation)


class _Unit(nn.Module):
    """Two convolutions beside a shortcut; the shortcut's projection has no batch normalisation."""

    def __init__(self, n_in: int, n_out: int, stride: int, momentum: float, epsilon: float) -> None:
        super().__init__()
        self.conv1 = _SameConv2d(n_in, n_out, 3, stride=stride)
        self.norm1 = nn.BatchNorm2d(n_out, eps=epsilon, momentum=momentum)
        self.conv2 = _SameConv2d(n_out, n_out, 3)
        self.norm2 = nn.BatchNorm2d(n_out, eps=epsilon, momentum=momentum)
        self.project = _SameConv2d(n_in, n_out, 1, stride=stride) if stride != 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        shortcut = x if self.project is None else self.project(x)
        return torch.relu(y + shortcut)


class ResNet20(nn.Module):
    """ResNet-20 v1 of the Keras examples, 6 * 3 + 2 layers with 16, 32 and 64 channels: 0.27 million parameters.

    The paper's "ResNet-18". Convolutions have biases, kernels are He-normal and penalised by `L2`.

    Parameters
    ----------
    channels
        Of the images, whose height and width are halved twice.
    n_classes
        The number of logits.
    bn_momentum, bn_epsilon
        Of the batch normalisation, as torch counts them.

    Examples
    --------
    >>> sum(parameter.numel() for parameter in ResNet20(3, 10).parameters())
    273066
    """

    def __init__(self, channels: int, n_classes: int, *, bn_momentum: float = 0.01, bn_epsilon: float = 1e-3) -> None:
        super().__init__()
        self.conv = _SameConv2d(channels, 16, 3)
        self.norm = nn.BatchNorm2d(16, eps=bn_epsilon, momentum=bn_momentum)
        plan = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
        self.units = nn.Sequential(*(_Unit(*sizes, bn_momentum, bn_epsilon) for sizes in plan))
        self.dense = nn.Linear(64, n_classes)
        for layer in self.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                _he_normal_(layer.weight)
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        x = self.units(torch.relu(self.norm(self.conv(x))))
        return self.dense(x.mean(dim=(-2, -1)))  # type: ignore[no-any-return]

    def kernel_penalty(self) -> Tensor:
        """Return the penalty of the convolution kernels; the dense layer has none."""
        kernels = [layer.weight for layer in self.modules() if isinstance(layer, nn.Conv2d)]
        return L2 * torch.stack([kernel.square().sum() for kernel in kernels]).sum()
