"""What is simulated. Worlds know nothing of engines or learners."""
