"""Which worker trains which trial: one row per trial in the table `rookery_leases`, beside Optuna's tables.

A worker writes to a trial only while the trial's row has its token, which is checked in the transaction that writes. So
a worker that was stopped for long cannot write over the one that has taken its trial. Times are those of the database,
as the clocks of machines differ. A row of its own per study is locked while a trial is begun, so that trials are
counted right however many workers ask at once.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.errors import LeaseLost

CREATE = """CREATE TABLE IF NOT EXISTS rookery_leases (
    trial_id INTEGER PRIMARY KEY, study_id INTEGER NOT NULL, token VARCHAR(64) NOT NULL, owner VARCHAR(512) NOT NULL,
    expires DOUBLE PRECISION NOT NULL, attempts INTEGER NOT NULL)"""
NOW = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "EXTRACT(EPOCH FROM clock_timestamp())",  # not now(): that is when the transaction began
}


class NothingToBegin(Exception):
    """All trials have begun, or another worker was quicker."""


class Begun(Exception):
    """The trial was begun by an earlier attempt, whose answer got lost."""


@dataclass(frozen=True)
class Lease:
    """A row of the table, as it was read."""

    trial_id: int
    token: str
    owner: str
    attempts: int
    expires: float
    expired: bool


class Leases:
    """The statements about leases of one study. Each takes the connection of the transaction that it is part of."""

    def __init__(self, study_id: int, dialect: str, seconds: float) -> None:
        self.study_id, self.seconds = study_id, seconds
        self._now = NOW[dialect]

    def create_table(self, connection: Any) -> None:
        """Make the table, and the study's own row in it."""
        self._run(connection, CREATE)
        self._run(
            connection,
            "INSERT INTO rookery_leases VALUES (:gate, :study, '', '', 0, 0) ON CONFLICT (trial_id) DO NOTHING",
            gate=-self.study_id, study=self.study_id,
        )  # fmt: skip

    def lock_study(self, connection: Any) -> None:
        """Wait until no other worker begins a trial; until this transaction ends, none does."""
        self._run(
            connection, "UPDATE rookery_leases SET attempts = attempts + 1 WHERE trial_id = :gate", gate=-self.study_id
        )

    def check_room(self, connection: Any, n_trials: int) -> None:
        """Refuse to begin one more than `n_trials`; trials that wait in the queue have not begun."""
        count = self._run(
            connection,
            "SELECT COUNT(*) FROM trials WHERE study_id = :study AND state <> 'WAITING'",
            study=self.study_id,
        ).scalar()
        if count >= n_trials:
            raise NothingToBegin

    def check_token_is_new(self, connection: Any, token: str) -> None:
        """Refuse to begin a second trial by the same token: a first attempt was recorded, but its answer got lost."""
        found = self._run(connection, "SELECT trial_id FROM rookery_leases WHERE token = :token", token=token).scalar()
        if found is not None:
            raise Begun(found)

    def check_waiting(self, connection: Any, trial_id: int) -> None:
        """Refuse a trial that another worker has taken from the queue."""
        state = self._run(connection, "SELECT state FROM trials WHERE trial_id = :trial", trial=trial_id).scalar()
        if state != "WAITING":
            raise NothingToBegin

    def insert(self, connection: Any, trial_id: int | None, token: str, owner: str) -> None:
        """The lease of a trial that begins; None stands for the one that this transaction has made. A row that a
        deleted study has left under the same number is replaced."""
        if trial_id is None:
            trial_id = self._run(
                connection, "SELECT MAX(trial_id) FROM trials WHERE study_id = :study", study=self.study_id
            ).scalar()
        self._run(
            connection,
            "INSERT INTO rookery_leases VALUES (:trial, :study, :token, :owner, NOW() + :seconds, 1) "
            "ON CONFLICT (trial_id) DO UPDATE SET study_id = excluded.study_id, token = excluded.token, "
            "owner = excluded.owner, expires = excluded.expires, attempts = 1",
            trial=trial_id, study=self.study_id, token=token, owner=owner, seconds=self.seconds,
        )  # fmt: skip

    def running(self, connection: Any) -> list[Lease]:
        """The leases of all trials that have not ended, the oldest first."""
        rows = self._run(
            connection,
            "SELECT l.trial_id, l.token, l.owner, l.attempts, l.expires, l.expires < NOW() "
            "FROM rookery_leases l JOIN trials t ON t.trial_id = l.trial_id "
            "WHERE t.study_id = :study AND t.state = 'RUNNING' ORDER BY l.trial_id",
            study=self.study_id,
        )
        return [Lease(*row) for row in rows]

    def take(self, connection: Any, lease: Lease, token: str, owner: str) -> bool:
        """Take over a lease; False if anything has happened to it since it was read."""
        changed = self._run(
            connection,
            "UPDATE rookery_leases SET token = :token, owner = :owner, expires = NOW() + :seconds, "
            "attempts = attempts + 1 WHERE trial_id = :trial AND token = :old AND expires = :expires",
            token=token, owner=owner, seconds=self.seconds, trial=lease.trial_id, old=lease.token,
            expires=lease.expires,
        ).rowcount  # fmt: skip
        return bool(changed == 1)

    def renew(self, connection: Any, trial_id: int, token: str) -> None:
        """Extend the lease, and lock its row until the transaction ends.

        Raises:
            LeaseLost: Another worker has it.
        """
        changed = self._run(
            connection,
            "UPDATE rookery_leases SET expires = NOW() + :seconds WHERE trial_id = :trial AND token = :token",
            trial=trial_id, token=token, seconds=self.seconds,
        ).rowcount  # fmt: skip
        if changed != 1:
            raise LeaseLost("another worker has taken over this trial, as nothing was heard of this worker for long")

    def release(self, connection: Any, trial_id: int, token: str) -> None:
        """End the lease, if it is not lost. The worker did not die: the attempt does not count."""
        self._run(
            connection,
            "UPDATE rookery_leases SET expires = 0, attempts = attempts - 1 WHERE trial_id = :trial AND token = :token",
            trial=trial_id, token=token,
        )  # fmt: skip

    def progressed(self, connection: Any, trial_id: int, token: str) -> None:
        """Count attempts again: the trial gets on."""
        self._run(
            connection, "UPDATE rookery_leases SET attempts = 1 WHERE trial_id = :trial AND token = :token",
            trial=trial_id, token=token,
        )  # fmt: skip

    def _run(self, connection: Any, statement: str, **values: Any) -> Any:
        from sqlalchemy import text

        return connection.execute(text(statement.replace("NOW()", self._now)), values)


def describe_owner(name: str) -> str:
    """This process, so that others on this machine can see whether it lives."""
    return json.dumps({"name": name[:100], "pid": os.getpid(), "started": _started(os.getpid()), **_machine()})


def owner_is_here(owner: str) -> bool:
    """Whether the process of a lease runs, or ran, on this machine; False if that cannot be known."""
    try:
        about = json.loads(owner)
        return bool(about["boot"]) and {key: about[key] for key in _machine()} == _machine()
    except (ValueError, KeyError, TypeError):
        return False


def owner_is_dead(owner: str) -> bool:
    """Whether the process of a lease ran on this machine and has ended; False if that cannot be known from here."""
    if not owner_is_here(owner):
        return False
    try:
        about = json.loads(owner)
        return _started(int(about["pid"])) != about["started"]
    except (ValueError, KeyError, TypeError):
        return False


def _started(pid: int) -> int | None:
    """When a process began, in ticks since the machine's start; None if it has ended. Unlike the time of day, this does
    not change when the clock is set."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def _machine() -> dict[str, str]:
    """What tells apart machines, their reboots, and the process numbers of containers."""
    found = {"host": socket.gethostname()[:100]}
    for key, read in (("boot", _boot), ("processes", _process_numbers)):
        try:
            found[key] = read()
        except OSError:
            found[key] = ""
    return found


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _process_numbers() -> str:
    return os.readlink("/proc/self/ns/pid")
