"""The dashboard: runs, studies and playing agents in a browser, from the files that runs write."""
