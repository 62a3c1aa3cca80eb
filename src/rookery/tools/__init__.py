"""What the command line does: bench, tune, profile, doctor. One module each; `rookery.cli` calls them."""
