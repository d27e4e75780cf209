"""Train a small network with AdaHB: on MNIST, or on scikit-learn's digits where MNIST is absent.

    pip install 'finitesum[torch]'
    finitesum data fetch mnist                # optional
    python examples/torch_mnist.py --epochs 5

What is particular to AdaHB: it takes the number of steps in an epoch, and needs no schedule for its learning rate.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from finitesum.datasets import DataError
from finitesum.papers.networks.data import load_images
from finitesum.torch import AdaHB


def load(batch_size):
    try:
        images = load_images("mnist")
    except DataError as error:
        print(f"{error} Taking the digits of scikit-learn instead.")
        images = load_images("digits")
    train = TensorDataset(torch.from_numpy(images.train_images), torch.from_numpy(images.train_labels))
    test = TensorDataset(torch.from_numpy(images.test_images), torch.from_numpy(images.test_labels))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(test, 1000), images.shape


def make_network(channels, height, width):
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(64 * (height // 4) * (width // 4), 10),
    )  # fmt: skip


def accuracy(network, loader):
    network.eval()  # for batch normalisation and dropout; AdaHB has nothing to switch
    with torch.no_grad():
        hits = sum((network(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-2)
    options = parser.parse_args()

    torch.manual_seed(0)
    train, test, shape = load(options.batch_size)
    network = make_network(*shape)
    optimizer = AdaHB(network.parameters(), lr=options.lr, steps_per_epoch=len(train))
    for epoch in range(1, options.epochs + 1):
        network.train()
        total = 0.0
        for images, labels in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        optimizer.epoch_end()  # warns if the epoch was longer or shorter than steps_per_epoch
        print(f"epoch {epoch}: training loss {total / len(train):.4f}, test accuracy {accuracy(network, test):.2%}")


if __name__ == "__main__":
    main()
