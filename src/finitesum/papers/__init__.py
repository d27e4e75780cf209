"""The experiments of both papers: what was run, the figure as the paper draws it, and whether its claims hold here."""
