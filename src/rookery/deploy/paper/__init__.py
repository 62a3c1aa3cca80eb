"""Paper trading: the champion of a registry on bars as they come, in an account that the training kernel simulates."""
