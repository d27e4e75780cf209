r"""The networks of the heavy-ball paper, layer by layer as the authors' Keras code builds them.

What Keras' defaults mean in torch:

- dense and convolution kernels uniform in :math:`\pm\sqrt{6 / (fan_{in} + fan_{out})}` (Glorot), biases zero;
- batch normalisation with momentum 0.99 and epsilon 1e-3: torch's momentum is the weight of the new batch, 0.01;
- ReLU stands *before* batch normalisation in the four-layer network, and the loss takes the place of the softmax.

What differs: torch flattens channels first, which permutes the inputs of the dense layer and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from finitesum.papers.networks.resnet import ResNet20

#: (channels, height, width) of an image.
Shape = tuple[int, int, int]

#: Weight of a new batch in the running statistics, and what keeps the deviation from zero: Keras' defaults.
BN_MOMENTUM, BN_EPSILON = 0.01, 1e-3


def cnn(image_shape: Shape, n_classes: int, bn_momentum: float = BN_MOMENTUM) -> nn.Sequential:
    """Return the four-layer network [1, section 5.2]: two convolutions, two dense layers.

    Parameters
    ----------
    image_shape
        (channels, height, width); height and width are halved once.
    n_classes
        The number of outputs: logits.
    bn_momentum
        Weight of a new batch in the running statistics. With fewer than some hundred steps the published 0.01 leaves them
        near their start, and test accuracy means nothing; the training itself does not depend on it.

    Examples
    --------
    >>> n_parameters(cnn((3, 32, 32), 10)), n_parameters(cnn((3, 32, 32), 100)), n_parameters(cnn((1, 28, 28), 10))
    (1060586, 1072196, 814250)

    References
    ----------
    .. [1] Tao, Long, Wu, Tao, "The Role of Momentum Parameters in the Optimal Convergence of Adaptive Polyak's Heavy-ball
       Methods", ICLR 2021, arXiv 2102.07314.
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
    network.apply(_as_keras)
    return network


def _as_keras(layer: nn.Module) -> None:
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def resnet20(image_shape: Shape, n_classes: int, bn_momentum: float = BN_MOMENTUM) -> nn.Module:
    """Return the network that the paper calls ResNet-18: ResNet-20, version 1, of the Keras examples."""
    return ResNet20(image_shape[0], n_classes, bn_momentum=bn_momentum, bn_epsilon=BN_EPSILON)


#: By name: makes a network from the images' shape, the number of classes and the batch normalisation's momentum.
MODELS: dict[str, Callable[[Shape, int, float], nn.Module]] = {"cnn": cnn, "resnet20": resnet20}


def n_parameters(network: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def kernel_penalty(network: nn.Module) -> Tensor | None:
    """Return what a network adds to its loss, or None where it adds nothing.

    Keras counts it in the training loss that it reports, and so do we.
    """
    return network.kernel_penalty() if isinstance(network, ResNet20) else None
