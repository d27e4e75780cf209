"""Functions in JAX as components of a finite sum: see `finitesum.FiniteSum.from_function`."""
