"""What a series of returns says: ratios, drawdowns, confidence intervals, and how likely it is luck. Arrays in, numbers
out."""
