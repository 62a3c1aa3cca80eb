"""Downloads of bars: from Alpaca, and from the exchanges that ccxt knows. It needs the extra `market`."""
