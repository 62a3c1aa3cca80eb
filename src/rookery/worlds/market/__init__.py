"""Markets as kernel worlds: a crypto portfolio, perpetuals, intraday forex, and forex as one account."""
