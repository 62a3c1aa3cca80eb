"""The command `rookery`, one module for each group of verbs. Nothing imports this package."""
