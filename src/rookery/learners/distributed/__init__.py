"""Learners that several processes train together, each with its own envs and its own device."""
