"""What decides whether a challenger may replace the champion: one module per kind of world."""
