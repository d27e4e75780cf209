"""Losses of several predictions at once: K scores of a row for K classes, or K numbers for K targets.

They offer what `finitesum.losses` asks of a loss, over arrays: predictions have shape (..., K), one vector of K numbers a
row, so that whole blocks of rows are one call; kernels do not compile them. The second derivative of a row is a matrix,
shape (..., K, K). It is made of fewer numbers, the `curvatures` of shape (..., K), by which sums over many rows go:

=====================  ===================================================================
``curvatures``         what the second derivative is made of, shape (..., K)
``curvature_entry``    its entry (k, l), shape (...)
``pair_factors``       what its entries (k, l) with k != l are minus the products of, shape (..., K)
``curvature_product``  its product with changes of the predictions, shape (..., K)
``value_d1``           losses and gradients at once
``ignores_shifts``     whether one number added to all K predictions of a row changes nothing
=====================  ===================================================================
"""

import math
from functools import reduce
from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.losses.base import Curved, Scaled

#: Classes up to which the largest score of each row is found class by class.
FEW_CLASSES = 16


def probabilities(scores: Matrix) -> Matrix:
    """Return exp(u_k) / sum_l exp(u_l), shape (..., K)."""
    # NumPy is slow along short rows
    few = scores.shape[-1] <= FEW_CLASSES
    largest = reduce(np.maximum, np.moveaxis(scores, -1, 0))[..., None] if few else scores.max(axis=-1, keepdims=True)
    exponentials: Matrix = np.exp(scores - largest)
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


class Multinomial(Scaled, Curved):
    """logsumexp_k(u_k) - u_y for targets y in 0, ..., K - 1, shape (...) and of an integer type.

    With P the probabilities, the gradient is P - e_y and the second derivative diag(P) - P P'.

    Examples
    --------
    >>> loss, scores, target = Multinomial(), np.zeros((1, 2)), np.array([1])
    >>> loss.value(scores, target).round(6), loss.d1(scores, target), loss.d2(scores, target)[0]
    (array([0.693147]), array([[ 0.5, -0.5]]), array([[ 0.25, -0.25],
           [-0.25,  0.25]]))
    """

    def value(self, prediction: Any, target: Any) -> Any:
        """Return the losses, shape (...)."""
        top = prediction.argmax(axis=-1)[..., None]
        largest = np.take_along_axis(prediction, top, axis=-1)
        others = np.exp(prediction - largest)
        np.put_along_axis(others, top, 0.0, axis=-1)  # log(1 + s) keeps the digits of a small s
        lost = largest - np.take_along_axis(prediction, target[..., None], axis=-1)
        return self.scale * (lost[..., 0] + np.log1p(others.sum(axis=-1)))

    def d1(self, prediction: Any, target: Any) -> Any:
        """Return the gradients, shape (..., K)."""
        gradients, chosen = probabilities(prediction), target[..., None]
        np.put_along_axis(gradients, chosen, 0.0, axis=-1)
        np.put_along_axis(
            gradients, chosen, -gradients.sum(axis=-1, keepdims=True), axis=-1
        )  # P_y - 1 without cancellation
        gradients *= self.scale
        return gradients

    def value_d1(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        """Return the losses and the gradients, in the precision of the predictions and the order of their memory."""
        scores, targets = prediction.reshape(-1, prediction.shape[-1]), np.ravel(target)
        rows, largest = np.arange(targets.size), scores.max(axis=1)
        chances = scores - largest[:, None]
        lost = -chances[rows, targets]
        np.exp(chances, out=chances)
        own = chances[rows, targets]
        chances[rows, targets] = 0.0
        others = chances.sum(axis=1)
        values = lost + np.log1p(others + (own - 1.0))  # which keeps the digits of small losses
        shares = self.scale / (others + own)
        chances *= shares[:, None]
        chances[rows, targets] = -others * shares
        return (self.scale * values).reshape(prediction.shape[:-1]), chances.reshape(prediction.shape)

    def most_change(self, slopes: Any, reach: Any) -> Any:
        """Return by how much the gradients may change where scores do by at most `reach`, shape (..., K).

        Odds P_k / (1 - P_k) change by factors of at most exp(2 max reach); the gradient's entry is P_k, or -(1 - P_y).
        """
        sizes, most = np.abs(slopes) / self.scale, 2.0 * reach.max(axis=-1, keepdims=True)
        return self.scale * np.where(most < 1.0, sizes * (1.0 - sizes) * np.expm1(np.minimum(most, 1.0)), 1.0)

    def d2(self, prediction: Any, target: Any) -> Any:
        """Return the second derivatives, shape (..., K, K)."""
        chances = probabilities(prediction)
        matrices = -chances[..., :, None] * chances[..., None, :]
        diagonal = np.arange(chances.shape[-1])
        matrices[..., diagonal, diagonal] += chances
        return self.scale * matrices

    def curvature_bound(self) -> float:
        """Return 1/2, the largest eigenvalue of diag(P) - P P' over all P: at two classes of probability 1/2."""
        return 0.5 * self.scale

    def d2_lipschitz(self) -> float:
        """Return sqrt(2) / (3 sqrt(3)), in the spectral norm.

        Along a unit vector v the third derivative is the third central moment of v under P. The range of v is at most
        sqrt(2), and a variable of range r has a third central moment of at most r^3 / (6 sqrt(3)).
        """
        return self.scale * math.sqrt(2.0) / (3.0 * math.sqrt(3.0))

    def target_kind(self) -> str:
        return "class"

    def curvatures(self, prediction: Any) -> Any:
        """Return the probabilities P."""
        return probabilities(prediction)

    def curvature_entry(self, curvatures: Any, k: int, other: int) -> Any:
        """Return P_k ([k = l] - P_l)."""
        return self.scale * curvatures[..., k] * (float(k == other) - curvatures[..., other])

    def pair_factors(self, curvatures: Any) -> Any:
        """Return P, times the root of the scale."""
        return math.sqrt(self.scale) * curvatures

    def curvature_product(self, curvatures: Any, changes: Any) -> Any:
        """Return P_k (a_k - sum_l P_l a_l)."""
        product = changes - (curvatures * changes).sum(axis=-1, keepdims=True)
        product *= curvatures
        product *= self.scale
        return product

    def ignores_shifts(self) -> bool:
        return True


class SquaredTargets(Scaled, Curved):
    """sum_k (u_k - y_k)^2 / 2 for targets of shape (..., K).

    Examples
    --------
    >>> loss, predictions = SquaredTargets(), np.array([[1.0, 2.0]])
    >>> loss.value(predictions, np.zeros((1, 2))), loss.d1(predictions, np.zeros((1, 2)))
    (array([2.5]), array([[1., 2.]]))
    """

    def value(self, prediction: Any, target: Any) -> Any:
        """Return the losses, shape (...)."""
        residuals = prediction - target
        return 0.5 * self.scale * np.einsum("...k,...k->...", residuals, residuals)

    def d1(self, prediction: Any, target: Any) -> Any:
        """Return the gradients, shape (..., K)."""
        return self.scale * (prediction - target)

    def value_d1(self, prediction: Any, target: Any) -> tuple[Any, Any]:
        """Return the losses and the gradients."""
        residuals = prediction - target
        return 0.5 * self.scale * np.einsum("...k,...k->...", residuals, residuals), self.scale * residuals

    def d2(self, prediction: Any, target: Any) -> Any:
        """Return the second derivatives, shape (..., K, K)."""
        n_outputs = prediction.shape[-1]
        return np.broadcast_to(self.scale * np.eye(n_outputs), (*prediction.shape, n_outputs)).copy()

    def curvature_bound(self) -> float:
        """Return 1."""
        return self.scale

    def d2_lipschitz(self) -> float:
        """Return 0."""
        return 0.0

    def target_kind(self) -> str:
        return "reals"

    def curvatures(self, prediction: Any) -> Any:
        return np.ones_like(prediction)

    def curvature_entry(self, curvatures: Any, k: int, other: int) -> Any:
        """Return [k = l]."""
        return self.scale * float(k == other) * curvatures[..., k]

    def pair_factors(self, curvatures: Any) -> Any:
        """Return 0."""
        return np.zeros_like(curvatures)

    def curvature_product(self, curvatures: Any, changes: Any) -> Any:
        return self.scale * changes

    def ignores_shifts(self) -> bool:
        return False


#: The losses of several predictions.
ClassLoss = Multinomial | SquaredTargets


def weighted(values: Any, weights: Vector) -> Any:
    """Multiply the values of rows with their weights, in place, and return them; weight 0 leaves no NaN or infinity."""
    values[weights == 0.0] = 0.0
    values *= weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim))
    return values
