"""Studies in the browser: a list of them, and each with all its trials as columns."""
