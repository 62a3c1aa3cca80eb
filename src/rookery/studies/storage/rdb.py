"""Opens a study's database by Optuna's own relational storage. Its tables stay as Optuna makes them."""

from __future__ import annotations

import os
import sqlite3
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rookery.studies.storage.storage_place import StoragePlace

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

BUSY_SECONDS = 5.0  # SQLite waits so long for another process before it says that the file is locked
CONNECT_SECONDS = 10
# A worker that is stopped in the middle of a transaction must not hold its locks forever.
POSTGRES_LIMITS = ("SET idle_in_transaction_session_timeout = '30s'", "SET lock_timeout = '30s'")


def open_rdb(place: StoragePlace, *, read_only: bool = False) -> RDBStorage:
    """Optuna's storage for this database. SQLite files are opened anew for every transaction: a file that was deleted
    is noticed, and forked children share nothing."""
    from optuna.storages import RDBStorage
    from sqlalchemy import event
    from sqlalchemy.pool import NullPool

    place.check_driver()
    if place.file is not None:
        options: dict[str, Any] = {"poolclass": NullPool, "creator": lambda: connect(place.file, read_only)}
        url = f"sqlite:///{place.file}"
    else:
        options = {"pool_size": 2, "max_overflow": 8, "pool_pre_ping": True, "connect_args": postgres_options(place)}
        url = place.url.replace("postgresql://", "postgresql+psycopg://", 1)
    braces = url.replace("{", "{{").replace("}", "}}")  # Optuna formats the text
    storage = RDBStorage(
        braces, engine_kwargs=options, skip_table_creation=read_only, skip_compatibility_check=read_only
    )
    if place.file is None:
        event.listen(storage.engine, "connect", _limit)
        storage.engine.dispose()  # connections from before the limits
        forget_in_children(storage.engine)
    return storage


def forget_in_children(engine: Any) -> None:
    """A forked child opens connections of its own: two processes on one of them would read each other's answers."""
    reference = weakref.ref(engine)

    def forget() -> None:
        if (inherited := reference()) is not None:
            inherited.dispose(close=False)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def connect(file: Path, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that exists. SQLite would make a new one where it was deleted."""
    mode = "ro" if read_only else "rw"
    return sqlite3.connect(
        f"file:{quote(str(file))}?mode={mode}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False
    )


def postgres_options(place: StoragePlace) -> dict[str, Any]:
    """What connections are opened with: a server that has vanished is noticed within a minute."""
    options: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 20,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "application_name": "rookery",
    }
    return options if place.password is None else {**options, "password": place.password}


def _limit(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        for command in POSTGRES_LIMITS:
            cursor.execute(command)
    connection.commit()
