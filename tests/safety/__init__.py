"""Opening somebody else's files: nothing of theirs runs, and nothing of ours is lost."""
