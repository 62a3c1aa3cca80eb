"""Catch: balls fall over a screen of 84 x 84 pixels, and a paddle catches them: a small world seen as images."""
