"""Agents that play in the page: each session is a process of its own."""
