"""Many worlds as one `gymnasium.vector.VectorEnv`."""
