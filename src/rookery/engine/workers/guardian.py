"""The guardian: a small process that cleans up after a program that was killed.

It reads lines from the program: processes to kill and files to remove at its end, or no longer. When the program ends,
however it does, the system closes the pipe. It imports nothing of rookery, and is run as a file.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Collect until the end of the input, then clean up."""
    left: dict[str, set[str]] = {"process": set(), "file": set()}
    for line in sys.stdin.buffer:
        what, _, name = line.decode().rstrip("\n").partition(" ")
        if what.startswith("no-"):
            left[what[3:]].discard(name)
        else:
            left[what].add(name)
    for pid in left["process"]:
        try:
            os.kill(int(pid), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows, SIGTERM ends it as surely
        except OSError:
            pass  # it has ended
    for path in left["file"]:
        try:
            os.unlink(path)
        except OSError:
            pass


if __name__ == "__main__":
    main()
