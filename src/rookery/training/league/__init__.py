"""The league: past agents of a run, how good they are, who is played against next, and tournaments among them."""
