"""Output of a run: panel, log lines, files, trackers. The training loop writes events; nothing here imports it."""
