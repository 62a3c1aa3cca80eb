"""Where the trials of a study are read from, and the rows that are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = tuple[Any, ...]


@dataclass(frozen=True)
class StudyHead:
    """What a storage says of a study itself. `key` differs for another study that has taken the same name."""

    key: str
    directions: tuple[bool, ...]  # for each objective whether it is maximised
    attributes: Mapping[str, Any] = field(default_factory=dict)


class TrialSource(Protocol):
    """A study in a storage. Trials are asked for by their ids, which grow; `last` is the largest id known so far.

    Every method is short, so that no lock of the storage is held while a search wants to write.
    """

    def head(self) -> StudyHead:
        """The study now. StudyError if it is gone."""

    def trials(self, last: int, opened: Sequence[int]) -> list[Row]:
        """(id, number, state, start, end) of trials after `last` and of `opened` ones, by id; at most some thousands,
        and none once there are no more."""

    def values(self, first: int, last: int) -> list[Row]:
        """(id, objective, value, kind) of the trials with these ids, and perhaps of other studies' trials between them;
        kind is Optuna's, such as INF_POS."""

    def param_names(self, trial: int) -> list[str]:
        """The names of the parameters of a trial."""

    def params(self, names: Sequence[str], first: int, last: int) -> list[Row]:
        """(id, how many parameters, value of each name), by id, perhaps with other studies' trials. Choices are their
        places, None is a parameter that the trial does not have."""

    def distribution(self, name: str, trial: int) -> str:
        """The distribution of a parameter of a trial, as JSON."""

    def intermediate(self, trials: Sequence[int]) -> list[Row]:
        """(id, step, value, kind), by step."""

    def attributes(self, trials: Sequence[int]) -> list[Row]:
        """(id, key, value as JSON) of these trials, Optuna's `fail_reason` too."""

    def close(self) -> None: ...
