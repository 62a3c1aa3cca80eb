"""The version of this package; CITATION.cff and CHANGELOG.md repeat it, and a test compares them."""

__version__ = "0.2.0"
