"""A registry of agents as plain files: immutable versions, the aliases that point to them, and a log of every change.

The files are described in `rookery.training.storage.registry_folder`, which holds what readers need. Every change is
made under a lock that dies with its holder, and takes effect at one moment: when `aliases.json` is replaced by rename.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.deploy.registry_files import UNFINISHED, AuditLog, Entry, remove_version, write_version
from rookery.errors import MissingExtra, RegistryBusy, RegistryError, RunBusy
from rookery.files import own_folder, replace_file
from rookery.monitor.jsonl import plain
from rookery.training.storage.registry_folder import (
    ALIASES,
    ALIASES_FILE,
    FORMAT,
    MARKER,
    VERSIONS,
    checked_version,
    read_about,
    read_aliases,
    read_state,
    registry_name,
    version_number,
    version_path,
)
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_lock import Lock

LOCK, AUDIT = "registry.lock", "audit.jsonl"
WAIT_SECONDS = 30.0  # for the lock; it is never held while agents are compared
ANY = -1
TAG = "rookery.version"


class Registry:
    """A registry of agents in a folder. Reading needs no lock.

    >>> Registry("agents").champion_number()  # a registry that does not exist has no champion
    """

    def __init__(self, folder: str | Path) -> None:
        named = registry_name(folder)
        self.folder = Path(folder).expanduser() if named is None else named.folder
        self._log = AuditLog(self.folder / AUDIT)

    @classmethod
    def create(cls, folder: str | Path) -> Registry:
        """The registry in `folder`, which is made if it does not exist or is empty."""
        registry = cls(folder)
        if not registry.exists:
            _refuse_other_files(registry.folder)
            registry.folder.mkdir(parents=True, exist_ok=True)
            own_folder(registry.folder / VERSIONS)
            replace_file(registry.folder / MARKER, [json.dumps({"format": FORMAT}).encode(), b"\n"])
        return registry

    @property
    def exists(self) -> bool:
        return (self.folder / MARKER).is_file()

    # --- reading ------------------------------------------------------------------------------------------------

    def aliases(self) -> dict[str, int]:
        """The numbers of champion, challenger and previous, as far as there are any."""
        return read_aliases(self.folder) if self.exists else {}

    def champion_number(self) -> int | None:
        """The champion's number, for those who poll: reads one small file."""
        return self.aliases().get("champion")

    @property
    def champion(self) -> Version | None:
        """The champion, whose files have been checked."""
        return self.version("champion") if "champion" in self.aliases() else None

    def version(self, which: str | int) -> Version:
        """A version by its alias or number, whose files have been checked: RegistryError if one is damaged."""
        number = version_number(self.folder, which)
        return Version(number, checked_version(self.folder, number, str(which)))

    def versions(self) -> list[Version]:
        """All versions, the oldest first; their files are not checked."""
        newest = read_state(self.folder).get("newest", 0)
        found = (Version(number, version_path(self.folder, number)) for number in range(1, newest + 1))
        return [version for version in found if version.folder.is_dir()]

    def audit(self) -> list[Entry]:
        """Every change, the oldest first."""
        return self._log.read(read_state(self.folder).get("change"))

    # --- changing -----------------------------------------------------------------------------------------------

    def add(self, run: RunDir, about: Mapping[str, Any] | None = None, *, checkpoint: str = "best") -> Version:
        """Add the agent of a run, given by its folder, as the next version, which becomes the challenger."""
        run = run if isinstance(run, RunDir) else RunDir(Path(run))
        with self.changing() as state:
            number = state.get("newest", 0) + 1
            folder = version_path(self.folder, number)
            write_version(run, folder, about or {}, checkpoint)
            version = Version(number, folder)
            facts = version.about
            source = {"run": str(run.path), **{key: facts.get(key) for key in ("study", "trial", "sha256")}}
            self._commit(state, {"newest": number, "challenger": number}, "add", version=number, evidence=source)
        return version

    def promote(
        self, number: int, evidence: Mapping[str, Any] | None = None, *, instead_of: int | None = ANY
    ) -> Version:
        """Make a version the champion; the champion before becomes `previous`. `instead_of` is the champion that it was
        compared with: RegistryError if there is another one by now."""
        with self.changing() as state:
            version, now = self.version(number), state.get("champion")
            if instead_of not in (ANY, now):
                raise RegistryError(
                    f"version {number} was compared with {_name(instead_of)}, and the champion of "
                    f"{printable(self.folder)} is {_name(now)} now: nothing is promoted"
                )
            if now == number:
                raise RegistryError(f"version {number} is the champion of {printable(self.folder)} already")
            changes: dict[str, Any] = {"champion": number, "previous": now}
            if state.get("challenger") == number:
                changes["challenger"] = None
            self._commit(state, changes, "promote", version=number, evidence=evidence, **{"from": now, "to": number})
        return version

    def rollback(self, evidence: Mapping[str, Any] | None = None, *, wait: float = WAIT_SECONDS) -> Version:
        """Let champion and previous change places."""
        with self.changing(wait) as state:
            now, before = state.get("champion"), state.get("previous")
            if before is None:
                raise RegistryError(f"{printable(self.folder)} has no previous version to go back to")
            version = self.version(before)
            changes = {"champion": before, "previous": now}
            self._commit(state, changes, "rollback", version=before, evidence=evidence, **{"from": now, "to": before})
        return version

    def note(
        self, what: str, evidence: Mapping[str, Any], *, version: int | None = None, champion: int | None = None
    ) -> Entry:
        """Add an entry to the log that changes no alias, such as a comparison of a version with the champion."""
        with self.changing() as state:
            return self._commit(state, {}, what, version=version, evidence=evidence, **{"from": champion})

    @contextmanager
    def changing(self, wait: float = WAIT_SECONDS) -> Iterator[dict[str, Any]]:
        """Hold the lock, after what a killed process left was put in order; gives the contents of `aliases.json`."""
        if not self.exists:
            read_state(self.folder)  # says what is missing
        with _locked(self.folder, wait):
            state = read_state(self.folder)
            self._log.repair(state.get("change"))
            versions = own_folder(self.folder / VERSIONS)
            remove_version(versions / UNFINISHED)
            remove_version(version_path(self.folder, state.get("newest", 0) + 1))  # it was never recorded
            yield state

    def _commit(self, state: Mapping[str, Any], changes: Mapping[str, Any], what: str, **facts: Any) -> Entry:
        """Let a change take effect, and log it."""
        entry = {
            "entry": (state.get("change") or {"entry": 0})["entry"] + 1,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "who": _who(),
            "what": what,
            **plain(facts),
        }
        merged = {**state, **changes, "change": entry}
        kept = {key: value for key, value in merged.items() if value is not None}
        replace_file(self.folder / ALIASES_FILE, [json.dumps(kept, indent=2).encode(), b"\n"])
        self._log.append(entry)
        return entry


@contextmanager
def _locked(folder: Path, wait: float) -> Iterator[None]:
    deadline = time.monotonic() + wait
    while True:
        try:
            lock = Lock(folder / LOCK, strict=True)
        except OSError as error:
            raise RegistryError(
                f"{printable(folder)} cannot be locked ({error.strerror or error}): a registry that several can change "
                "must be on a file system with locks that they may write to"
            ) from error
        except RunBusy as error:
            if time.monotonic() > deadline:
                holder = str(error).partition(" is in use by ")[2].partition(";")[0]
                raise RegistryBusy(f"{printable(folder)} is being changed by {holder}; try again later") from None
            time.sleep(0.05)
        else:
            break
    with lock:
        yield


def _refuse_other_files(folder: Path) -> None:
    """Refuse to make a registry among files that belong to something else."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise RegistryError(f"{printable(folder)} is a file: a registry is a folder of its own; choose another name")
    mine = {VERSIONS, f".{MARKER}.new"}  # left by a process that was killed while it made the registry
    other = sorted(path.name for path in folder.iterdir() if path.name not in mine)
    if other:
        raise RegistryError(
            f"{printable(folder)} is not a registry and holds other files, such as {printable(other[0])}: name a "
            f"new or "
            "empty folder"
        )


def _name(number: int | None) -> str:
    return "none" if number is None else f"version {number}"


def _who() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in a container
        user = str(os.getuid()) if hasattr(os, "getuid") else "a user"
    return f"{user}@{socket.gethostname()}, process {os.getpid()}"


@dataclass(frozen=True)
class Version:
    """An immutable version. Its folder is a run's folder with one checkpoint, so that every verb takes its path."""

    number: int
    folder: Path

    @property
    def run(self) -> RunDir:
        """The run's folder: the configuration and the one checkpoint."""
        return RunDir(self.folder)

    @cached_property
    def about(self) -> dict[str, Any]:
        """World, study, trial, data hash, code version, evaluation, when it was added, and the SHA-256 of its files."""
        return read_about(self.folder)


def export_to_mlflow(registry: Registry, name: str, client: Any = None) -> dict[str, str]:
    """Add versions that MLflow's registered model `name` lacks, and set its aliases; returns MLflow's version by alias.
    `client` is an `MlflowClient`; if omitted, one with the tracking server of MLflow's own settings. The files stay in
    the registry: MLflow gets their address."""
    client = client or _client()
    known = _known_versions(client, name)
    for version in registry.versions():
        if version.number not in known:
            known[version.number] = _create(client, name, version)
    aliases = registry.aliases()
    for alias in ALIASES:
        if alias in aliases:
            client.set_registered_model_alias(name, alias, known[aliases[alias]])
        elif alias in (client.get_registered_model(name).aliases or {}):
            client.delete_registered_model_alias(name, alias)
    return {alias: known[number] for alias, number in aliases.items()}


def _client() -> Any:
    try:
        from mlflow import MlflowClient
    except ImportError as error:
        raise MissingExtra(
            f"versions are exported to MLflow, which cannot be imported ({error}): pip install mlflow"
        ) from None
    return MlflowClient()


def _known_versions(client: Any, name: str) -> dict[int, str]:
    """MLflow's versions by ours; the model is made if it does not exist."""
    if not client.search_registered_models(filter_string=f"name='{name}'"):
        client.create_registered_model(name)
        return {}
    found = client.search_model_versions(f"name='{name}'")
    return {int(version.tags[TAG]): str(version.version) for version in found if TAG in (version.tags or {})}


def _create(client: Any, name: str, version: Version) -> str:
    about = version.about
    facts = {
        key: str(about[key]) for key in ("world", "study", "trial", "step", "data_hash") if about.get(key) is not None
    }
    tags = {TAG: str(version.number), **{f"rookery.{key}": value for key, value in facts.items()}}
    made = client.create_model_version(name, version.folder.resolve().as_uri(), tags=tags)
    return str(made.version)
