"""Any moment of a run again: played up to it, forked from it, compared with another run, or searched for what broke."""
