"""From the name of a world in a configuration to what is stepped and trained."""
