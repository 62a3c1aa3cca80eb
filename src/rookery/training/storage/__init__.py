"""What a run keeps on disk: its folder, its checkpoints, and reading both without trusting them."""
