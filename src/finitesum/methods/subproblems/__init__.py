"""Small problems that methods solve within a pass: quadratic models, active sets, linear programs."""
