"""How good an agent is: alone in its env, or in games against others."""
