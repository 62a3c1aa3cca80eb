"""Backtests: an agent on fixed windows of a market's bars, and the report about it."""
