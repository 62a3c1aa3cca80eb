"""Where an algorithm runs: on arrays of the host, on tensors of a device, in several processes."""
