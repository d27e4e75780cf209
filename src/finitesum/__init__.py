"""Finite sums, minimised: see the README."""
