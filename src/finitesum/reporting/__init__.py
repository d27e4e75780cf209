"""Comparisons of methods as pages, figures and tables."""
