"""Markets as kernel worlds: a crypto portfolio, perpetuals and intraday forex."""
