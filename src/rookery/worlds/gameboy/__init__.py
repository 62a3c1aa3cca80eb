"""Game Boy games as worlds: PyBoy's emulator, and a TOML profile with actions, observations and rewards."""
