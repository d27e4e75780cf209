"""Projected subgradient and momentum methods for constrained non-smooth problems."""
