"""Waits for a database that is locked, full or does not answer, and notices one that is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from optuna.exceptions import OptunaError
from sqlalchemy.exc import SQLAlchemyError

from rookery.console import say
from rookery.errors import StorageLost
from rookery.studies.storage.storage_faults import driver_error, is_passing, refused, why
from rookery.studies.storage.storage_place import StoragePlace

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


class Patience:
    """Calls that need a database, repeated until it answers.

    Args:
        place: The database. The file of a SQLite one must be there, and stay the same.
        seconds: For how long one call is tried again.
    """

    def __init__(self, place: StoragePlace, seconds: float) -> None:
        self.place, self.seconds = place, seconds
        self._file = self._identity()

    def call(self, call: Callable[[], T]) -> T:
        """Call it until the database answers.

        Raises:
            StorageLost: It did not answer in time, or its file is gone.
            StudyError: It refuses for good.
        """
        started, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                result = call()
            except (SQLAlchemyError, OptunaError) as error:
                reason = self._passing_reason(error)
            else:
                self._check_file()  # what was written into a deleted file is lost
                return result
            waited = time.monotonic() - started
            if waited + pause > self.seconds:
                raise self._over(waited, reason)
            if pause == FIRST_PAUSE:
                say(f"the database {self.place.shown} cannot be used ({reason}): trying again for {self.seconds:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _passing_reason(self, error: Exception) -> str:
        """Why the database does not answer; raises what waiting does not help against."""
        cause = driver_error(error)
        if cause is None:
            raise error
        self._check_file()
        if not is_passing(cause, self.place):
            raise refused(cause, self.place) from None
        return why(cause, self.place)

    def _over(self, waited: float, reason: str) -> StorageLost:
        return StorageLost(
            f"the database {self.place.shown} could not be used for {waited:.0f} s ({reason}): finished trials are "
            "kept; when it works again, start the same search again to continue"
        )

    def _identity(self) -> tuple[int, int] | None:
        if self.place.file is None:
            return None
        try:
            found = self.place.file.stat()
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    def _check_file(self) -> None:
        if self._identity() != self._file:
            raise StorageLost(
                f"the database {self.place.shown} was deleted or replaced while it was in use: put a copy of it back, "
                "or start a search of another name"
            )
