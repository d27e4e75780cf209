"""Methods that use gradients only."""
