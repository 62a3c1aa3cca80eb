"""`python -m gameboy_game FILE.gb` writes the game as a ROM for any emulator; FILE.json receives its starts."""

from __future__ import annotations

import sys
from pathlib import Path

from gameboy_game.game import rom
from gameboy_game.starts import starts_file

USAGE = "usage: python -m gameboy_game FILE.gb [FILE.json]"


def main(words: list[str]) -> int:
    """Write the ROM and the starts to the files named."""
    contents = {".gb": rom, ".json": lambda: starts_file().encode()}
    if not words or any(Path(word).suffix not in contents for word in words):
        print(USAGE, file=sys.stderr)
        return 2
    for word in words:
        try:
            Path(word).write_bytes(contents[Path(word).suffix]())
        except OSError as error:
            print(f"{word}: cannot be written ({error.strerror})", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
