"""Evaluation of agents: alone in an env, or in games against others."""
