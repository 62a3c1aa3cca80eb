"""The attributes that rookery keeps with a study and its trials, in Optuna's database.

Names begin with `rookery:`, so that they meet neither Optuna's own nor those of other programs.
"""

from __future__ import annotations

FORMAT = 1  # of what rookery keeps in a study; a study of a higher one is refused

# of a trial
SETTINGS = "rookery:settings"  # {key of the configuration: value}
PARTS = "rookery:parts"  # {name: {"value", "run": path in the study's folder, "seconds", "steps", "reason"}}
INTERVAL = "rookery:interval"  # [low, high] of the trial's value
SECONDS = "rookery:seconds"  # of training, over all parts
REASON = "rookery:reason"  # why a trial failed or was pruned
LINEAGE = "rookery:lineage"  # of a member of a population: [{"step", "from", "settings": {key: [before, after]}}]

# of a study
STUDY_FORMAT = "rookery:format"
STUDY_ID = "rookery:id"  # also in study.json: a folder and a database that do not belong together are refused
STUDY_CONFIG = "rookery:config"  # the configuration that is varied, as JSON
_VERIFIED = "rookery:verified:"


def verified_key(number: int) -> str:
    """The attribute of the study that holds what a verified trial reached.

    Its value is {"values": {seed: value}, "iqm": float, "interval": [low, high], "runs": [paths]}.

    >>> verified_key(12)
    'rookery:verified:12'
    """
    return f"{_VERIFIED}{number}"


def verified_number(key: str) -> int | None:
    """The trial's number in such a key; None for another key.

    >>> verified_number("rookery:verified:12"), verified_number("rookery:format")
    (12, None)
    """
    number = key.removeprefix(_VERIFIED)
    return int(number) if number != key and number.isdecimal() else None
