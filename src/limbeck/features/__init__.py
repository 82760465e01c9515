"""Feature maps: from raw rows to vectors that depend on the row, the public rows and a seed alone."""
