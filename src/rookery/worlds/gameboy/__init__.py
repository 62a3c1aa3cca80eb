"""Game Boy games as worlds: PyBoy's emulator, and a profile in TOML that says what counts in a game."""
