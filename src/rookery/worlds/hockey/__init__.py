"""Air hockey for two: the table, its physics and its rules, as functions of one env."""
