"""Measurements and checks behind the verbs bench, tune, profile, check and doctor of the command line."""
