"""A run on disk: its folder and its checkpoints, read without trusting their contents."""
