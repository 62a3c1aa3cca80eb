"""Learners: arrays in, actions out. They never see an environment."""
