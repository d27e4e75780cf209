"""The experiments of the curvature paper, a file each."""
