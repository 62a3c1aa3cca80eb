"""Population-based training: who copies whom, and with which changes."""
