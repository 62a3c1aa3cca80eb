"""Worker processes: starting them, talking to them, noticing that they died."""
