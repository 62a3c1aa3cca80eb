"""A place in a file of lines that other processes append to, replace and delete: the id of an event in a stream."""

from __future__ import annotations

import re
from typing import NamedTuple, Self
from zlib import crc32

HEAD_BYTES = 512  # of the first line: a run's begins with the time of its start, so that no two are equal
TAIL_BYTES = 128  # before the place
_TEXT = re.compile(r"(\d{1,18})(?:-([0-9a-f]{8})([0-9a-f]{8}))?")


class Position(NamedTuple):
    """The byte offset after a line, with checksums of the beginning of the file and of what is before the offset.

    A run that is resumed replaces its file by a shorter one, and another run may get its name. The checksums show that,
    also after the server was started again. Without them, only a line must end at the offset.

    >>> str(Position.parse("120-0000000a0000000b"))
    '120-0000000a0000000b'
    """

    offset: int
    head: int | None = None
    tail: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position of an id. A bare number of bytes is one as well."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(
                f"{text[:80]!r} is not the id of an event: take the last one of the stream, or leave it out"
            )
        offset, head, tail = found.groups()
        return cls(int(offset)) if head is None else cls(int(offset), int(head, 16), int(tail, 16))

    def __str__(self) -> str:
        return str(self.offset) if self.head is None or self.tail is None else self._with_checksums()

    def _with_checksums(self) -> str:
        return f"{self.offset}-{self.head:08x}{self.tail:08x}"


def head_checksum(beginning: bytes) -> int:
    """The checksum of the first line, of as much of it as is compared."""
    return crc32(beginning[:HEAD_BYTES].partition(b"\n")[0])


def tail_checksum(before: bytes) -> int:
    """The checksum of what is before an offset."""
    return crc32(before[-TAIL_BYTES:])
