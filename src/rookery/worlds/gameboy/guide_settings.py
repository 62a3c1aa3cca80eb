"""The options of a guide, as arguments of the env; and hints of an earlier run, from its hints.jsonl: they are given at
the same steps of the same envs, so that a run repeats exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rookery.errors import OptionError
from rookery.files import read_plain
from rookery.gate import Inside, Reaches

OPENAI = "openai"
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
URL_VARIABLE, MODEL_VARIABLE, KEY_VARIABLE = "ROOKERY_GUIDE_URL", "ROOKERY_GUIDE_MODEL", "ROOKERY_GUIDE_KEY"
USUAL_URL = "http://127.0.0.1:11434/v1"


class GuideSettings(BaseModel):
    """Where hints come from, how often, and how much they count."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    guide: Annotated[str, Reaches("code", "files", when_playing=True)] = Field(
        min_length=1, description="my_file.py:Guide, openai, or the hints.jsonl of a run."
    )
    guide_every: int = Field(200, ge=1, description="Steps of an env between two questions.")
    guide_weight: float = Field(1.0, ge=0, description="Factor of what hints add to the reward.")
    guide_fade: int | None = Field(
        None, ge=1, description="Steps of an env over which that factor falls to 0; a run sets its own length."
    )
    guide_timeout: float = Field(60.0, gt=0, description="Seconds after which a question is given up.")
    guide_url: Annotated[str | None, Reaches("network", when_playing=True)] = Field(
        None, description="openai: the base URL of the endpoint."
    )
    guide_model: Annotated[str | None, Inside("it is sent to the endpoint")] = Field(
        None, description="openai: the name of the model."
    )
    guide_remote: bool = Field(False, description="openai: allow an endpoint that is not on this machine.")
    guide_screen: bool = Field(False, description="openai: send the screen too, for models that see images.")

    @property
    def is_replay(self) -> bool:
        """Whether hints are those that a run has recorded."""
        return self.guide.endswith(".jsonl")

    @property
    def endpoint(self) -> str:
        """The address of the service, without the key."""
        return (self.guide_url or os.environ.get(URL_VARIABLE) or USUAL_URL).rstrip("/") + "/chat/completions"

    @property
    def model(self) -> str:
        return self.guide_model or os.environ.get(MODEL_VARIABLE) or ""


def guide_settings(guide: str, options: Mapping[str, Any]) -> GuideSettings:
    """The settings, checked; an OptionError names the option that is wrong."""
    try:
        settings = GuideSettings(guide=str(guide), **options)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = ".".join(map(str, wrong["loc"]))
        raise OptionError(
            f"`{name}`: {wrong['msg']}, got {wrong['input']!r:.60}; a guide has the options "
            f"{', '.join(GuideSettings.model_fields)}"
        ) from None
    if settings.guide == OPENAI:
        _check_endpoint(settings)
    elif settings.is_replay:
        recorded_hints(settings.guide)
    elif not _is_code(settings.guide):
        raise OptionError(
            f"guide={settings.guide!r:.80}: give my_file.py:Guide, {OPENAI}, or the hints.jsonl of a run; "
            "the file should be there"
        )
    return settings


def _is_code(guide: str) -> bool:
    path, _, name = guide.rpartition(":")
    return path.endswith(".py") and name.isidentifier() and Path(path).is_file()


def _check_endpoint(settings: GuideSettings) -> None:
    address = urlsplit(settings.endpoint)
    if address.scheme not in ("http", "https") or not address.hostname or address.username or address.password:
        raise OptionError(
            f"guide_url should be such as {USUAL_URL}, over http or https and without a password: the key is given as "
            f"the environment variable {KEY_VARIABLE}"
        )
    if address.hostname not in LOCAL_HOSTS and not settings.guide_remote:
        raise OptionError(
            f"guide_url names {address.hostname}, which is another machine: the game's values would be sent there. "
            "guide_remote=true allows it"
        )
    if not settings.model:
        raise OptionError(f"guide={OPENAI!r} needs the name of a model: guide_model=NAME, or {MODEL_VARIABLE}")


LARGEST_RECORD = 256 << 20  # bytes of a file of hints
Recorded = dict[tuple[int, int], dict[str, Any]]  # by the env's seed and its step


def recorded_hints(path: str) -> Recorded:
    """All hints of a file that were followed."""
    file = Path(path)
    try:
        return _read_hints(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise OptionError(f"guide={path!r}: the hints cannot be read ({error.strerror or error})") from None


@lru_cache(maxsize=4)
def _read_hints(file: Path, changed: int) -> Recorded:
    found: Recorded = {}
    for number, line in enumerate(read_plain(file, LARGEST_RECORD).splitlines(), 1):
        try:
            record = json.loads(line)
            place = int(record["seed"]), int(record["env_step"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise OptionError(f"guide={str(file)!r}: line {number} is not a record of a hint") from None
        if "hint" in record:
            found[place] = record["hint"]
    return found
