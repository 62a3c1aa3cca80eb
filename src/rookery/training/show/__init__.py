"""Watching an agent: windows, videos, many envs at once."""
