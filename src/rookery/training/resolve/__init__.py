"""Resolves a run: from a configuration to a world, a learner and an engine."""
