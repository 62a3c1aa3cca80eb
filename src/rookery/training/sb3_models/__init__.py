"""Models of Stable-Baselines3: from its zip files to agents, without unpickling anything."""
