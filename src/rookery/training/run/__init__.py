"""One run, from its configuration to its result: setting up, the loop, wrapping up."""
