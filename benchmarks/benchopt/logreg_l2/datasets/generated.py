"""Correlated columns, of which a tenth matters."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "generated"
    parameters = {"n_samples, n_features": [(2000, 100), (200, 1000)]}  # noqa: RUF012 - as benchopt has it

    def get_data(self):
        rng = np.random.default_rng(0)
        factors = rng.standard_normal((self.n_samples, 10)) @ rng.standard_normal((10, self.n_features))
        X = 0.5 * factors + rng.standard_normal((self.n_samples, self.n_features))
        truth = rng.standard_normal(self.n_features) * (rng.random(self.n_features) < 0.1)
        signal = X @ truth
        return {"X": X, "y": np.sign(signal / signal.std() + rng.standard_normal(self.n_samples))}
