"""Which settings may differ between the searches of one study: those that do not change what a trial's value means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rookery.config.schema import RunConfig
from rookery.errors import StudyError
from rookery.studies.storage.storage_place import StoragePlace

FREE = {
    "name", "runs_dir", "workers", "backend", "start_method", "device", "groups", "step_timeout", "on_failure",
    "max_restarts", "on_out_of_memory", "devices",
    "search.n_trials", "search.study_name", "search.studies_dir", "search.storage", "search.workers",
    "search.timeout", "search.sampler", "search.seed", "search.constraints", "search.enqueue", "search.verify",
    "search.verify_seeds", "search.pruner", "search.trial_timeout", "search.trial_memory", "search.trial_gpu_memory",
    "search.max_failures",
}  # fmt: skip
FREE_SECTIONS = ("monitor.", "checkpoints.", "search.population.")
WHOLE = ("search.space", "world_options", "tables")  # tables whose keys have dots, or are the world's own
SHOWN = 5


def recorded_config(config: RunConfig, short: bool = False) -> dict[str, Any]:
    """The configuration as it is kept with the study: what JSON has, and no password. If `short`, without defaults."""
    found = config.model_dump(mode="json", exclude_defaults=short)
    if config.search.storage is not None:
        place = StoragePlace.parse(config.search.storage)
        found["search"]["storage"] = config.search.storage if place.file is not None else place.url
    return found


def check_same(name: str, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to continue a study with settings that make its trials hard to compare.

    Raises:
        StudyError: Settings differ; the message names them.
    """
    before, now = _flat(recorded), _flat(json.loads(json.dumps(given)))
    different = [key for key in before if key in now and before[key] != now[key] and not _is_free(key)]
    if not different:
        return
    shown = ", ".join(f"{key} = {_text(now[key])} ({_text(before[key])} before)" for key in different[:SHOWN])
    more = f" and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
    raise StudyError(
        f"the study {name} cannot be continued with {shown}{more}: its trials could not be compared; give the settings "
        "as before, or search.study_name another name"
    )


def _is_free(key: str) -> bool:
    return key in FREE or key.startswith(FREE_SECTIONS)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key not in WHOLE:
            found.update(_flat(value, f"{key}."))
        else:
            found[key] = value
    return found


def _text(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
