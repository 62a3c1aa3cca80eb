"""What an error of a database means: whether waiting may help, and one sentence about it."""

from __future__ import annotations

import re

from rookery.console import printable
from rookery.errors import StudyError
from rookery.studies.storage.storage_place import StoragePlace

# SQLSTATE classes: connection, rollback by deadlock, resources such as the disk, object in use, shutdown and start.
PASSING_STATES = ("08", "40", "53", "55", "57", "25P03")
# What a server says that refuses this user for good; a failed connection carries no SQLSTATE.
REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba|does not exist|permission denied|certificate"
    r"|unsupported",
    re.IGNORECASE,
)
PASSING_SQLITE = re.compile(
    r"is locked|disk is full|disk I/O error|unable to open database|table is locked|locking protocol"
)


def driver_error(error: BaseException | None) -> BaseException | None:
    """The error of the database's driver in a chain of causes; None if there is none."""
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    while error is not None:
        if isinstance(error, DBAPIError):
            return error.orig
        if isinstance(error, SQLAlchemyError):  # of the pool of connections
            return error
        error = error.__cause__
    return None


def is_passing(error: BaseException, place: StoragePlace) -> bool:
    """Whether the same call may succeed later: a lock, a full disk, a server that does not answer."""
    text = str(error)
    if place.file is not None:
        return bool(PASSING_SQLITE.search(text)) and place.file.exists()
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith(PASSING_STATES)
    return type(error).__name__ in ("OperationalError", "InterfaceError", "TimeoutError", "AdminShutdown") and not (
        REFUSED.search(text)
    )


def why(error: BaseException, place: StoragePlace) -> str:
    """The reason in a few words."""
    text = str(error).strip()
    if place.file is None:
        return printable(text.splitlines()[0] if text else type(error).__name__)
    if not place.file.exists():
        return "the file is gone"
    for pattern, words in (("is full", "its disk is full"), ("is locked", "another process has locked it")):
        if pattern in text:
            return words
    return printable(text)


def refused(error: BaseException, place: StoragePlace) -> StudyError:
    """The error for what waiting does not help against."""
    reason = why(error, place)
    remedy = ""
    if "readonly" in reason:
        remedy = ": make the file and its folder writable, or give search.storage another place"
    elif "not a database" in reason or "malformed" in reason:
        remedy = ": the file is no SQLite database, or is damaged; restore it from a copy"
    elif "password" in reason:
        remedy = ": give the password in the URL, or in the environment variable PGPASSWORD"
    return StudyError(f"the database {place.shown} cannot be used ({reason}){remedy}")
