"""A worker process as the supervisor sees it: started, listened to, stopped, killed."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rookery.engine.workers.child_process import ONE_THREAD
from rookery.forks import kill_group
from rookery.training.commands import start_command

# Imports make some 300,000 objects that stay: walking through them again and again takes a second.
CODE = (
    "import gc, sys; gc.set_threshold(10_000, 20, 50); "
    "from rookery.engine.workers.child_process import die_with_parent; "
    "die_with_parent(int(sys.argv.pop(1))); from rookery.studies.workers.trial_worker import main; gc.freeze(); main()"
)
TAIL = 2000  # bytes of a log


class WorkerProcess:
    """One worker. Its events are put into a queue, each with the worker; None stands for its end."""

    def __init__(
        self, name: str, task: Path, log: Path, events: queue.SimpleQueue[Any], more: Mapping[str, str]
    ) -> None:
        """`more` are environment variables, such as the password of a database."""
        self.name, self._task, self.log, self._events = name, task, log, events
        self.trials: dict[int, float | None] = {}  # those it trains: when it should have ended, by the monotonic clock
        self.began_any = False
        with open(log, "ab") as file:
            self.process: subprocess.Popen[bytes] = start_command(
                str(task), variables={**ONE_THREAD, **more}, code=CODE, stdout=subprocess.PIPE, stderr=file
            )
        threading.Thread(target=self._listen, name=f"rookery {name}", daemon=True).start()

    @property
    def status(self) -> int | None:
        """The exit status; negative for a signal, None while it runs."""
        return self.process.poll()

    def note(self, event: Mapping[str, Any], grace: float) -> None:
        """Keep up with what it trains."""
        number = event.get("trial")
        if event["event"] == "begin":
            left = event.get("seconds_left")
            self.trials[event["trial"]] = None if left is None else time.monotonic() + left + grace
            self.began_any = True
        elif event["event"] == "end" and number in self.trials:
            del self.trials[event["trial"]]

    def overdue(self, now: float) -> list[int]:
        """Trials that should have ended."""
        return [number for number, end in self.trials.items() if end is not None and now > end]

    def stop(self) -> None:
        """Ask it to save and end."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with the processes of its envs, and wait until it is gone."""
        kill_group(self.process)
        self.process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        with suppress(OSError), open(self.log, "rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL))
            return file.read().decode(errors="replace").strip()
        return ""

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with suppress(ValueError):
                    self._events.put((self, json.loads(line)))
        self.process.wait()
        self._events.put((self, None))
