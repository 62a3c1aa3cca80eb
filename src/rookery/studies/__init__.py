"""Studies: searches over settings with Optuna. Every trial is a run, or several: one for each seed or fold."""
