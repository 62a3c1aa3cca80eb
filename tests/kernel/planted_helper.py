"""A helper in a file of its own, with a mistake."""


def element(values, place):
    return values[place]  # helper
