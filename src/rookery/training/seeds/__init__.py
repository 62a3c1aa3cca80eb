"""One configuration with several seeds: each seed is an ordinary run, in a process of its own."""
