"""Newton's method, with exact, stale and sampled Hessians, and methods for what has no Hessian."""
