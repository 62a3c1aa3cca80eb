"""Opens a study's database by Optuna's own relational storage. Its tables stay as Optuna makes them."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from rookery.studies.storage.sqlite_file import open_to_write
from rookery.studies.storage.storage_place import StoragePlace

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

CONNECT_SECONDS = 10
# A worker that is stopped in the middle of a transaction must not hold its locks forever.
POSTGRES_LIMITS = ("SET idle_in_transaction_session_timeout = '30s'", "SET lock_timeout = '30s'")


def open_rdb(place: StoragePlace) -> RDBStorage:
    """Optuna's storage for this database. SQLite files are opened again for every transaction: a file that was deleted
    is noticed, and forked children share nothing."""
    from optuna.storages import RDBStorage
    from sqlalchemy import event
    from sqlalchemy.pool import NullPool

    place.check_driver()
    file = place.file
    if file is not None:
        options: dict[str, Any] = {"poolclass": NullPool, "creator": lambda: open_to_write(file)}
        url = f"sqlite:///{file}"
    else:
        options = {"pool_size": 2, "max_overflow": 8, "pool_pre_ping": True, "connect_args": postgres_options(place)}
        url = place.url.replace("postgresql://", "postgresql+psycopg://", 1)
    braces = url.replace("{", "{{").replace("}", "}}")  # Optuna formats the text
    storage = RDBStorage(braces, engine_kwargs=options)
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
