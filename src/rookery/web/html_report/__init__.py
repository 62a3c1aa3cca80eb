"""The dashboard's views of a few runs as one HTML file that needs no server."""
