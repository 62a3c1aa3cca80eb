"""What `rookery study` shows: figures, tables, plots, importances and the best configuration."""
