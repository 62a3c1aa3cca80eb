"""One run, from its configuration to its result: its components, the training loop, its end."""
