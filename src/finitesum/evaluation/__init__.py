"""Values and derivatives at a point, by sums over rows: objective, gradient, Hessian, optimality, certificates."""
