"""Who plays in a game for two: agents, scripts and files, and which seat is whose."""
