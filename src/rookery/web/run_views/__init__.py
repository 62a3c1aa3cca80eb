"""Runs as a table and as curves: rows from the ends of their files, columns of their metrics, comparisons."""
