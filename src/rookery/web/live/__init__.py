"""Runs as they grow: streams of events, details of a run, its episodes, log and files."""
