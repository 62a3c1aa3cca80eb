"""Writes TensorBoard's event files without its package, which is large: a scalar is a few bytes of protobuf.

A file is a sequence of records (length, checksum, data, checksum; the checksums are masked CRC-32C), each of them one
`Event` message of tensorflow/core/util/event.proto.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from io import FileIO
from pathlib import Path

from rookery.files import own_folder
from rookery.monitor.append_only import append_record, open_append_only
from rookery.monitor.events import Event, scalars

DT_STRING = 7
SESSION_STARTS = 1


class TensorBoard:
    """Writes the numbers of progress and evaluations as scalars under their own names, and notes as text."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._file: FileIO | None = None

    def write(self, event: Event) -> None:
        if self._file is None:
            self._file = open_append_only(own_folder(self._folder, parents=False) / _file_name(event.time))
            self._record(event, 0, _text(3, "brain.Event:2"))
        if event.kind == "start" and event.values.get("resumed_from") is not None:
            # This message makes TensorBoard discard what an earlier process wrote after its checkpoint.
            self._record(event, event.values["resumed_from"] + 1, _bytes(7, _int(1, SESSION_STARTS)))
        summary = b"".join(_bytes(1, _scalar(name, value)) for name, value in scalars(event).items())
        if event.kind == "note":
            summary = _bytes(1, _note(event.values.get("text", "")))
        if summary:
            self._record(event, event.step, _bytes(5, summary))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _record(self, event: Event, step: int, what: bytes) -> None:
        assert self._file is not None
        message = _double(1, event.time) + _int(2, step) + what
        append_record(self._file, framed(message))


def framed(data: bytes) -> bytes:
    """One TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + _masked(crc32c(length)) + data + _masked(crc32c(data))


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(crc: int) -> bytes:
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _make_table() -> tuple[int, ...]:
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return tuple(table)


_TABLE = _make_table()


def _scalar(tag: str, value: float) -> bytes:
    single = ctypes.c_float(value).value  # too large values become infinite, where `struct` would raise
    return _text(1, tag) + _key(2, 5) + struct.pack("<f", single)


def _note(text: str) -> bytes:
    """A string tensor of one element, which the text plugin shows."""
    shape = _bytes(2, _int(1, 1))
    tensor = _int(1, DT_STRING) + _bytes(2, shape) + _text(8, text)
    return _text(1, "notes") + _bytes(8, tensor) + _bytes(9, _bytes(1, _text(1, "text")))


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _int(field: int, value: int) -> bytes:
    return _key(field, 0) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first; the top bit means that more bytes follow.

    >>> _varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _file_name(time: float) -> str:
    return f"events.out.tfevents.{int(time):010d}.{socket.gethostname()}.{os.getpid()}"
