"""Where a study is recorded: its folder and database, the leases of its trials, and what is read from them."""
