"""The dashboard: runs, studies, leagues, markets and playing agents in a browser, from the files that runs write."""
