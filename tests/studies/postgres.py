"""A PostgreSQL server for tests: Debian's, in a folder of its own, reached by a socket in that folder alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil


def programs() -> Path | None:
    """The newest installed PostgreSQL; None if there is none, or if it cannot be started from here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found or (os.geteuid() == 0 and shutil.which("runuser") is None):
        return None
    return found[-1].parent


class Server:
    """Started when it is made. It refuses to run as root, so it runs as the user `postgres` then."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-pg-", dir="/tmp"))
        self.data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run("initdb", "-D", str(self.data), "-U", "rookery", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def url(self, database: str = "postgres") -> str:
        """The URL of a database of this server."""
        return f"postgresql://rookery@/{database}?host={self.folder}"

    def new_database(self, name: str) -> str:
        """The URL of a new, empty database."""
        self._run("createdb", "-h", str(self.folder), "-U", "rookery", name)
        return self.url(name)

    def start(self) -> None:
        # Nothing in /dev/shm, where tests that run beside this one look for what they have left.
        shared = "-c dynamic_shared_memory_type=mmap"
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=60 {shared}"
        self._run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def kill(self) -> None:
        """SIGKILL of the server and of all its processes, as when its machine loses power."""
        server = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        everyone = [server, *server.children()]
        for process in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):  # without a server, its processes end
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(everyone, 10)
        deadline = time.monotonic() + 10
        while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in everyone):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self) -> None:
        subprocess.run(self._command("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop"), capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            self._command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def _command(self, program: str, *words: str) -> list[str]:
        found = programs()
        assert found is not None
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        return [*user, str(found / program), *words]
