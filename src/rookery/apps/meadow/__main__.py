"""`python -m rookery.apps.meadow FILE.gb` writes the game as a ROM for any emulator."""

from __future__ import annotations

import sys
from pathlib import Path

from rookery.apps.meadow.game import rom


def main(words: list[str]) -> int:
    """Write the ROM to the file that is named."""
    if len(words) != 1 or words[0].startswith("-"):
        print("usage: python -m rookery.apps.meadow FILE.gb", file=sys.stderr)
        return 2
    try:
        Path(words[0]).write_bytes(rom())
    except OSError as error:
        print(f"{words[0]}: cannot be written ({error.strerror})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
