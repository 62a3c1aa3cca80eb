"""The league: past agents of a run, their ratings, the choice of the next opponent, and tournaments among them."""
