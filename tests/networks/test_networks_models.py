import math

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from finitesum.papers.networks.models import ResNet20, cnn, kernel_penalty


def n_parameters(network):
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


@pytest.mark.parametrize(
    ("shape", "n_classes", "n"), [((3, 32, 32), 10, 1_060_586), ((3, 32, 32), 100, 1_072_196), ((1, 28, 28), 10, 814_250)]
)
def test_cnn_has_the_published_number_of_parameters(shape, n_classes, n):
    assert n_parameters(cnn(shape, n_classes)) == n


def test_cnn_has_the_layers_of_the_authors_in_their_order():
    kinds = [type(layer) for layer in cnn((3, 32, 32), 10)]
    convolution = [nn.Conv2d, nn.ReLU, nn.BatchNorm2d]
    pooling = [nn.MaxPool2d, nn.BatchNorm2d, nn.Dropout]
    dense = [nn.Flatten, nn.Linear, nn.ReLU, nn.BatchNorm1d, nn.Dropout, nn.Linear]
    assert kinds == convolution * 2 + pooling + dense
    layers = cnn((3, 32, 32), 10)
    assert [layer.p for layer in layers if isinstance(layer, nn.Dropout)] == [0.25, 0.5]
    assert [layer.out_features for layer in layers if isinstance(layer, nn.Linear)] == [128, 10]


def test_cnn_starts_like_keras():
    torch.manual_seed(0)
    for layer in cnn((3, 32, 32), 10):
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            fan_out, fan_in = layer.weight.shape[0] * layer.weight[0, 0].numel(), layer.weight[0].numel()
            bound = math.sqrt(6.0 / (fan_in + fan_out))
            assert float(layer.weight.detach().abs().max()) <= bound
            assert float(layer.weight.detach().abs().max()) > 0.95 * bound
            assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3.0), rel=0.1)
            assert not layer.bias.detach().any()
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert (layer.momentum, layer.eps) == (0.01, 1e-3)


def test_cnn_takes_odd_images():
    assert cnn((2, 7, 9), 4)(torch.zeros(3, 2, 7, 9)).shape == (3, 4)


def test_resnet20_is_the_one_of_the_keras_examples():
    torch.manual_seed(0)
    network = ResNet20((3, 32, 32), 10)
    assert n_parameters(network) == 273_066
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert len(convolutions) == 19 + 2  # two projections
    assert sorted({layer.out_channels for layer in convolutions}) == [16, 32, 64]
    assert all(layer.bias is not None and not layer.bias.detach().any() for layer in convolutions)
    weight = convolutions[-1].weight.detach()
    deviation = math.sqrt(2.0 / weight[0].numel())
    assert float(weight.std()) == pytest.approx(deviation, rel=0.05)
    assert float(weight.abs().max()) <= 2.0 * deviation / 0.879
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_strides_pad_at_the_end_like_keras():
    unit = ResNet20((3, 32, 32), 10).units[3].conv1
    image = torch.zeros(1, 16, 32, 32)
    image[..., 0, 0] = 1.0
    with torch.no_grad():
        unit.bias.zero_()
        first = unit(image)[0, :, 0, 0]
    torch.testing.assert_close(first, unit.weight.detach()[:, :, 0, 0].sum(1))  # the kernel's corner lies on the image's


def test_the_penalty_has_the_gradient_of_keras_l2():
    network = ResNet20((3, 32, 32), 10)
    kernel_penalty(network).backward()
    torch.testing.assert_close(network.conv.weight.grad, 2e-4 * network.conv.weight.detach())
    assert network.dense.weight.grad is None
    assert network.conv.bias.grad is None
    assert kernel_penalty(cnn((1, 6, 6), 3)) is None
