"""Programs beside the library: an explorer of game memory."""
