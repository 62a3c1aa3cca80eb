"""Programs beside the library: a Game Boy game with its assembler, and an explorer of game memory."""
