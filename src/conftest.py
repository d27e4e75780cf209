"""For doctests: modules whose optional packages are not installed are left out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("optax") else ["finitesum/optax"]
if not find_spec("jax"):
    collect_ignore += ["finitesum/jax/functions.py"]
if not find_spec("torch"):
    collect_ignore += ["finitesum/torch", "finitesum/papers/networks"]
