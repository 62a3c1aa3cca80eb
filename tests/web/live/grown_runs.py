"""Runs that grow under the hands of a test, and a reader of streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from rookery.monitor.events import Event
from rookery.monitor.jsonl import encode
from rookery.training.storage.run_dir import RunDir

WAIT_SECONDS = 20.0  # for a message that must come


@dataclass(frozen=True)
class Message:
    """One message of a stream."""

    kind: str
    data: Any
    id: str | None


class GrowingRun:
    """A run's folder that is written to as a run does."""

    def __init__(self, runs: Path, name: str = "run") -> None:
        self.dir = RunDir.create(runs, name)
        self.dir.write_config({"world": "CartPole-v1", "learner": "ppo", "seed": 0, "ppo": {"clip": 0.2}})

    def start(self, **facts: Any) -> None:
        self.write("start", facts.get("resumed_from") or 0, world="CartPole-v1", learner="ppo", **facts)

    def write(self, kind: str, step: int, **values: Any) -> None:
        self.append(line(kind, step, **values))

    def progress(self, *steps: int) -> None:
        for step in steps:
            self.write("progress", step, steps_per_second=100.0)

    def append(self, text: bytes) -> None:
        with self.dir.metrics.open("ab") as file:
            file.write(text)

    def resume(self, step: int) -> None:
        """As the loop does it: the lines after the checkpoint go, and a new start comes."""
        self.dir.truncate_after(step)
        self.start(resumed_from=step)


def line(kind: str, step: int, **values: Any) -> bytes:
    return encode(Event(kind, step, values))


def messages(text: bytes) -> list[Message]:
    """Those of some frames."""
    return [found for block in text.decode().split("\n\n") if (found := _message(block.splitlines()))]


@contextmanager
def stream(url: str, last_id: str | None = None, seconds: float = WAIT_SECONDS) -> Iterator[Iterator[Message]]:
    """The messages of a stream, as they come."""
    query = {} if last_id is None else {"last_event_id": last_id}
    with httpx2.stream("GET", url, params=query, timeout=seconds) as answer:
        assert answer.status_code == 200, answer.read()
        yield _messages_of(answer.iter_lines())


def until(found: Iterator[Message], kind: str, **values: Any) -> list[Message]:
    """All messages up to one of this kind with these values."""
    passed = []
    for message in found:
        passed.append(message)
        if message.kind == kind and all(message.data.get(key) == value for key, value in values.items()):
            return passed
    raise AssertionError(f"the stream ended without {kind} {values}: {passed}")


def steps(found: list[Message]) -> list[int]:
    return [message.data["step"] for message in found if message.kind == "event"]


def _messages_of(lines: Iterator[str]) -> Iterator[Message]:
    block: list[str] = []
    for text in lines:
        if text:
            block.append(text)
        elif (message := _message(block)) is not None:
            yield message
        if not text:
            block = []


def _message(block: list[str]) -> Message | None:
    fields = dict(text.split(": ", 1) for text in block if not text.startswith(":"))
    return Message(fields["event"], json.loads(fields["data"]), fields.get("id")) if fields else None
