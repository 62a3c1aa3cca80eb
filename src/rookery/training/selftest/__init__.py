"""`rookery selftest`: trains, kills, resumes and compares, on the user's own machine."""
