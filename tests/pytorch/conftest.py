"""One thread, so that torch leaves the other cores alone; the oracle by its path."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def one_thread():
    import torch  # without it no test of this folder gets here

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def oracle():
    path = Path(__file__).parents[1] / "oracles" / "adahb_torch.py"
    spec = importlib.util.spec_from_file_location("oracle_adahb_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
