"""A trial: the runs that it is made of, their values, racing, pruning and verification."""
