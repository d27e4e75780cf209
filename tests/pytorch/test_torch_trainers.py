"""Epochs that nobody counts by hand: those of a DataLoader, of Lightning, of Hugging Face's Trainer."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from finitesum.torch import AdaHB, EpochLengthWarning  # noqa: E402
from finitesum.torch.epochs import after_epoch  # noqa: E402

N_BATCHES = 12


def data():
    X = torch.arange(float(4 * N_BATCHES)).reshape(-1, 1) / (4 * N_BATCHES)
    return TensorDataset(X, 2.0 * X)


def said(length, *, accumulate=1, stop=N_BATCHES, validate=False, workers=0):
    """What is said of three epochs that were given a length."""
    own = {"num_workers": workers, "persistent_workers": True, "multiprocessing_context": "spawn"} if workers else {}
    loader = DataLoader(data(), batch_size=4, **own)
    others = DataLoader(data(), batch_size=8)
    model = torch.nn.Linear(1, 1)
    optimizer = AdaHB(model.parameters(), lr=1e-2, steps_per_epoch=length)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EpochLengthWarning)
        for _ in range(3):
            for i, (x, y) in enumerate(loader):
                if i == stop:
                    break
                (model(x) - y).square().mean().backward()
                if (i + 1) % accumulate == 0 or i + 1 == N_BATCHES:
                    optimizer.step()
                    optimizer.zero_grad()
            if validate:
                for x, _ in others:
                    model(x)
    return [str(one.message) for one in caught if one.category is EpochLengthWarning]


@pytest.mark.parametrize("settings", [{}, {"validate": True}, {"stop": 5}], ids=str)
def test_a_right_length_is_no_news(settings):
    assert said(N_BATCHES, **settings) == []
    assert said(4, accumulate=3, **settings) == []
    assert said(None, **settings) == []
    assert said(1, **settings) == []


@pytest.mark.parametrize("settings", [{}, {"validate": True}], ids=str)
@pytest.mark.parametrize(("length", "accumulate", "found"), [(11, 1, 12), (24, 1, 12), (12, 3, 4), (12, 5, 3)])
def test_a_wrong_length_is_noticed_once_without_any_call(length, accumulate, found, settings):
    (words,) = said(length, accumulate=accumulate, **settings)
    assert words.startswith(f"this epoch of the DataLoader had {found} updates, but steps_per_epoch={length}")


@pytest.mark.slow
def test_workers_that_stay_are_noticed_too():
    assert said(N_BATCHES, workers=1) == []
    assert len(said(N_BATCHES + 1, workers=1)) == 1


def test_after_epoch_finds_wrapped_optimizers_and_leaves_others_alone():
    class Wrapped:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    model = torch.nn.Linear(1, 1)
    optimizer = AdaHB(model.parameters(), lr=1e-2, steps_per_epoch=None)
    after_epoch(Wrapped(optimizer))
    assert optimizer.param_groups[0]["t"] == 2.0
    after_epoch(torch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:GPU available but not used")
def test_lightning_counts_epochs(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")
    from finitesum.torch.lightning import EpochCallback

    class Model(lightning.LightningModule):
        def __init__(self, length):
            super().__init__()
            self.layer, self.length, self.times = torch.nn.Linear(1, 1), length, []

        def training_step(self, batch, batch_idx):
            self.times.append(self.trainer.optimizers[0].param_groups[0]["t"])
            return (self.layer(batch[0]) - batch[1]).square().mean()

        def configure_optimizers(self):
            return AdaHB(self.parameters(), lr=1e-2, steps_per_epoch=self.length)

    def fitted(length):
        quiet = {
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
        }
        trainer = lightning.Trainer(
            max_epochs=3, accelerator="cpu", callbacks=[EpochCallback()], default_root_dir=tmp_path, **quiet
        )
        model = Model(length)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.fit(model, DataLoader(data(), batch_size=4))
        return model.times, [one for one in caught if one.category is EpochLengthWarning]

    times, caught = fitted(None)
    assert times == [1.0] * N_BATCHES + [2.0] * N_BATCHES + [3.0] * N_BATCHES
    assert not caught
    assert fitted(N_BATCHES)[1] == []
    assert fitted(N_BATCHES + 5)[1]


@pytest.mark.slow
def test_the_trainer_of_transformers_counts_epochs(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    from finitesum.torch.transformers import EpochCallback

    # our folder tests/datasets passes for the library datasets
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 4 * N_BATCHES

        def __getitem__(self, i):
            return {"x": data()[i][0], "labels": data()[i][1]}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x, labels):
            found = self.layer(x)
            return {"loss": (found - labels).square().mean(), "logits": found}

    def fitted(length):
        model, times = Model(), []
        optimizer = AdaHB(model.parameters(), lr=1e-2, steps_per_epoch=length)

        class Times(transformers.TrainerCallback):
            def on_step_end(self, *args, **kwargs):
                times.append(optimizer.param_groups[0]["t"])

        arguments = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=3, per_device_train_batch_size=4, report_to=[], save_strategy="no", use_cpu=True
        )
        constant = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
        trainer = transformers.Trainer(
            model, arguments, train_dataset=Rows(), optimizers=(optimizer, constant), callbacks=[Times(), EpochCallback()]
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.train()
        return times, [one for one in caught if one.category is EpochLengthWarning]

    times, caught = fitted(None)
    assert times == [1.0] * N_BATCHES + [2.0] * N_BATCHES + [3.0] * N_BATCHES
    assert not caught
    assert fitted(N_BATCHES)[1] == []
    assert fitted(N_BATCHES + 5)[1]
