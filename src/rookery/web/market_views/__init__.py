"""Markets: accounts of backtests, of folds, of champions and of paper trading, and the registries they belong to."""
