"""Players of two-player games: agents, scripts of a world, and agents in files."""
