"""One line to the person at the terminal, through `logging` so that a program can direct or silence it."""

from __future__ import annotations

import logging

_log = logging.getLogger("rookery")


def say(line: str) -> None:
    """Tell of a choice or a fallback. `logging.getLogger("rookery").setLevel("WARNING")` silences it."""
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("rookery: %(message)s"))
        _log.addHandler(handler)
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    _log.info(line)
