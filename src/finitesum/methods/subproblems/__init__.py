"""Small problems that methods solve on the way: quadratic models, active sets, linear programs."""
