"""Markets as kernel worlds: a crypto portfolio and intraday forex."""
