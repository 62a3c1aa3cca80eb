"""The state of any Gymnasium env as arrays and plain values, without a pickle."""
