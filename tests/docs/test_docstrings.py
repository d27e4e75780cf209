"""The examples in the docstrings of every module, one test a module."""

import doctest
import importlib
import importlib.util
import pkgutil

import pytest

import finitesum

#: Modules below these need a package that is not always installed.
NEEDS = {"finitesum.torch": "torch", "finitesum.papers.networks": "torch", "finitesum.optax": "optax"}
NEEDS |= {"finitesum.torch.lightning": "lightning", "finitesum.torch.transformers": "transformers"}
NEEDS |= {"finitesum.estimators.base": "formulaic", "finitesum.jax.functions": "jax", "finitesum.dask": "distributed"}

#: What only runs as a program.
PROGRAMS = {"finitesum.__main__", "finitesum.papers.networks.__main__"}

MODULES = [
    "finitesum",
    *sorted(
        module.name
        for module in pkgutil.walk_packages(finitesum.__path__, "finitesum.", onerror=lambda _name: None)
        if module.name not in PROGRAMS
    ),
]


def missing_package(name):
    for prefix, package in NEEDS.items():
        if (name == prefix or name.startswith(f"{prefix}.")) and importlib.util.find_spec(package) is None:
            return package
    return None


def test_all_modules_are_found():
    assert {"finitesum.core.jit", "finitesum.running.driver", "finitesum.methods.curvature.ciag"} <= set(MODULES)


@pytest.mark.parametrize("kernels", ["python", pytest.param("compiled", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name, kernels, tmp_path, monkeypatch):
    if package := missing_package(name):
        pytest.skip(f"{package} is not installed")
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)  # an example may write a file
    failed, _ = doctest.testmod(module)
    assert failed == 0
