"""A world and a learner that rookery finds by the entry points of this package."""
