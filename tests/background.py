"""How a script starts what is to run in its background."""

from __future__ import annotations

import signal


def ignore_sigint() -> None:
    """As the shell of a script does before it starts a command that is followed by `&`: a `preexec_fn`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
