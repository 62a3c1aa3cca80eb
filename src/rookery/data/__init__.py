"""Bars of markets: files, checks, features, splits. It imports neither the engine nor training."""
