"""The processes that train trials, what they may use, and the process that watches them."""
