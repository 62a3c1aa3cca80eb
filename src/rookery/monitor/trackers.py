"""Experiment trackers: Weights & Biases and MLflow, imported only if they are used, and TensorBoard.

The services get the facts named in `FACTS` and the scalars, never environment variables, the command line or files.

TensorBoard's event files are written without its package, which is large: a scalar is a few bytes of protobuf. A file
is a sequence of records (length, checksum, data, checksum; the checksums are masked CRC-32C), each of them one `Event`
message of tensorflow/core/util/event.proto.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from typing import Any

from rookery.errors import MissingExtra, OptionError
from rookery.files import own_folder, read_plain, replace_file
from rookery.monitor.events import Event, scalars
from rookery.monitor.jsonl import append_record, open_append_only

FACTS = ("run", "world", "learner", "num_envs", "backend", "workers", "groups", "device", "steps", "seed")
LONGEST_ID = 1 << 20
DT_STRING = 7
SESSION_STARTS = 1


class Tracker(ABC):
    """What both trackers share. The service's id of the run is stored in the run's folder, and used on resume."""

    package: str

    def __init__(self, project: str = "rookery", **options: Any) -> None:
        """`options` are passed to the service's call that starts a run. Fails at once if its package is missing."""
        self._module = _imported(self.package)
        self._project, self._options = project, options
        self._started = False

    def write(self, event: Event) -> None:
        if event.kind == "start":
            self._begin(event.values)
        elif event.kind == "end" and self._started:
            self._finish(str(event.values.get("reason", "finished")))
        elif self._started:
            finite = {name: value for name, value in scalars(event).items() if math.isfinite(value)}
            if finite:
                self._log(finite, event.step)

    def close(self) -> None:
        """A run that is closed before its end event has failed."""
        if self._started:
            self._finish("failed")

    def _begin(self, facts: Mapping[str, Any]) -> None:
        id_file = Path(facts["path"]) / f"{self.package}.id"
        resumed = facts.get("resumed_from") is not None and id_file.is_file()
        known = read_plain(id_file, LONGEST_ID).decode("utf-8", "replace").strip() if resumed else None
        sent = {name: facts[name] for name in FACTS if facts.get(name) is not None}
        run_id = self._start(str(facts["run"]), Path(facts["path"]), sent, known)
        self._started = True
        replace_file(id_file, [f"{run_id}\n".encode()])

    def _finish(self, reason: str) -> None:
        self._started = False
        self._stop(reason)

    @abstractmethod
    def _start(self, run: str, folder: Path, facts: dict[str, Any], known_id: str | None) -> str:
        """Start a run, or resume the one of that id; returns the service's id of it."""

    @abstractmethod
    def _log(self, values: dict[str, float], step: int) -> None: ...

    @abstractmethod
    def _stop(self, reason: str) -> None: ...


class WandB(Tracker):
    """Weights & Biases, without code, git state and console output."""

    package = "wandb"

    def _start(self, run: str, folder: Path, facts: dict[str, Any], known_id: str | None) -> str:
        quiet = self._module.Settings(disable_git=True, console="off")
        defaults: dict[str, Any] = {"project": self._project, "name": run, "dir": str(folder), "save_code": False}
        resume = {"id": known_id, "resume": "allow"} if known_id else {}
        self._run = self._module.init(**{**defaults, "config": facts, "settings": quiet, **resume, **self._options})
        return str(self._run.id)

    def _log(self, values: dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def _stop(self, reason: str) -> None:
        self._run.finish(exit_code=1 if reason.startswith("failed") else 0)


class MLflow(Tracker):
    """MLflow, with the tracking server of its own settings."""

    package = "mlflow"

    def _start(self, run: str, folder: Path, facts: dict[str, Any], known_id: str | None) -> str:
        self._module.set_experiment(self._project)
        which = {"run_id": known_id} if known_id else {"run_name": run}
        started = self._module.start_run(**{**which, **self._options})
        if not known_id:  # parameters cannot be set twice
            self._module.log_params(facts)
        return str(started.info.run_id)

    def _log(self, values: dict[str, float], step: int) -> None:
        self._module.log_metrics(values, step=step)

    def _stop(self, reason: str) -> None:
        status = {"failed": "FAILED", "interrupted": "KILLED"}.get(reason.partition(":")[0], "FINISHED")
        self._module.end_run(status=status)


TRACKERS: dict[str, type[Tracker]] = {"wandb": WandB, "mlflow": MLflow}


def make_tracker(name: str, **options: Any) -> Tracker:
    """The tracker of that name, a sink for a run."""
    if name not in TRACKERS:
        raise OptionError(f"unknown tracker {name!r}; valid: {', '.join(TRACKERS)}")
    return TRACKERS[name](**options)


def check_trackers(names: Iterable[str]) -> None:
    """Refuse trackers whose package is not installed, before anything is started."""
    for name in names:
        if find_spec(TRACKERS[name].package) is None:
            raise _missing(name)


def _missing(package: str) -> MissingExtra:
    return MissingExtra(f"tracking with {package} needs its package: pip install {package}")


def _imported(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise _missing(package) from None


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
        message = _key(1, 1) + struct.pack("<d", event.time) + _int(2, step) + what
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
