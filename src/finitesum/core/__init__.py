"""What everything else stands on: compilation, arrays, threads, symmetric matrices."""
