"""The package holds no tests, and is imported only where it is installed."""

collect_ignore = ["package"]
