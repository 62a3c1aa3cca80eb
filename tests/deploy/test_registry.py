"""The registry of agents: versions, aliases, the log, and what is rejected."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.deploy.registry import Registry
from rookery.errors import FileError, RegistryBusy, RegistryError, RookeryError, RunError
from rookery.training.storage.run_dir import RunDir
from training.finished import make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunDir]:
    base = tmp_path_factory.mktemp("runs")
    return [make_run(base, hidden=[8]) for _ in range(2)]


@pytest.fixture
def registry(tmp_path: Path, runs: list[RunDir]) -> Registry:
    """Two versions; the second one is the champion."""
    made = Registry.create(tmp_path / "agents")
    for run in runs:
        made.promote(made.add(run, {"world": "CartPole-v1"}).number, {"why": "a test"})
    return made


def test_aliases_follow_promotions(registry: Registry, runs: list[RunDir]) -> None:
    """The newest promoted version is the champion, the one before is previous, an added one the challenger."""
    assert registry.aliases() == {"champion": 2, "previous": 1}
    assert registry.add(runs[0]).number == 3
    assert registry.aliases() == {"champion": 2, "previous": 1, "challenger": 3}
    assert registry.champion_number() == 2
    assert [version.number for version in registry.versions()] == [1, 2, 3]


def test_version_is_loadable_and_equal(registry: Registry, runs: list[RunDir]) -> None:
    """The champion acts as the run that it was made from."""
    observations = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    agent = rookery.load(f"registry:{registry.folder}@champion")
    assert (agent.act(observations) == rookery.load(runs[1].path).act(observations)).all()
    champion = registry.champion
    assert champion is not None
    assert champion.about["world"] == "CartPole-v1"
    assert champion.about["run"] == runs[1].name
    assert len(champion.about["code"]["sha256"]) == 64


@pytest.mark.parametrize("which", ["", "@champion", "@previous", "@1", "@2", "@000002"])
def test_names(registry: Registry, which: str) -> None:
    assert rookery.load(f"registry:{registry.folder}{which}").action_space.n == 2


@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("@challenger", "has no challenger yet; there are champion (2), previous (1)"),
        ("@7", "has no version 7"),
        ("@champoin", "give champion, challenger, previous or a number"),
        ("@../000001", "is not a registry|does not exist"),
        ("@-1", "or a number"),
    ],
)
def test_unknown_names(registry: Registry, which: str, why: str) -> None:
    with pytest.raises(RegistryError, match=why.replace("(", r"\(").replace(")", r"\)")):
        rookery.load(f"registry:{registry.folder}{which}")


def test_names_without_registry(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="does not exist: `rookery deploy X --to"):
        rookery.load(f"registry:{tmp_path / 'nowhere'}@champion")
    with pytest.raises(RegistryError, match="names no registry"):
        rookery.load("registry:@champion")


def test_folder_with_an_at_sign(tmp_path: Path, runs: list[RunDir]) -> None:
    registry = Registry.create(tmp_path / "me@home")
    registry.promote(registry.add(runs[0]).number)
    assert rookery.load(f"registry:{registry.folder}").action_space.n == 2
    assert rookery.load(f"registry:{registry.folder}@1").action_space.n == 2


def test_rollback_swaps(registry: Registry) -> None:
    assert registry.rollback().number == 1
    assert registry.aliases() == {"champion": 1, "previous": 2}
    assert registry.rollback().number == 2
    assert [entry["what"] for entry in registry.audit()] == ["add", "promote", "add", "promote", "rollback", "rollback"]


def test_rollback_without_previous(tmp_path: Path, runs: list[RunDir]) -> None:
    registry = Registry.create(tmp_path / "agents")
    registry.promote(registry.add(runs[0]).number)
    with pytest.raises(RegistryError, match="no previous version to go back to"):
        registry.rollback()


def test_promotion_of_what_was_compared_with_another_champion(registry: Registry, runs: list[RunDir]) -> None:
    third = registry.add(runs[0]).number
    with pytest.raises(RegistryError, match=r"was compared with version 1, and the champion .* is version 2 now"):
        registry.promote(third, instead_of=1)
    with pytest.raises(RegistryError, match=r"version 2 is the champion .* already"):
        registry.promote(2)


def test_versions_are_read_only(registry: Registry) -> None:
    """No file or folder of a version can be written to, by its mode."""
    folder = registry.version(1).folder
    for path in (folder, *folder.rglob("*")):
        assert not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH), path


def test_damaged_champion_names_the_previous_version(registry: Registry) -> None:
    config = registry.version("champion").folder / "config.json"
    config.chmod(0o644)
    config.write_text(config.read_text() + " ")
    with pytest.raises(RegistryError, match=r"version 2 \(champion\) .* damaged: .*config.json has another SHA-256"):
        registry.version("champion")
    with pytest.raises(RegistryError, match=r"previous one is version 1: use registry:.*@1, or .* --rollback --to"):
        rookery.load(f"registry:{registry.folder}@champion")
    assert registry.rollback().number == 1  # the champion before is whole
    assert rookery.load(f"registry:{registry.folder}").action_space.n == 2
    with pytest.raises(RegistryError, match="damaged"):
        registry.promote(2)


@pytest.mark.parametrize("change", ["missing", "more", "link", "about", "facts"])
def test_changed_versions_are_refused(registry: Registry, change: str) -> None:
    folder = registry.version(2).folder
    folder.chmod(0o755)
    if change == "missing":
        (folder / "run.json").unlink()
    elif change == "more":
        (folder / "notes.txt").write_text("")
    elif change == "link":
        (folder / "run.json").unlink()
        (folder / "run.json").symlink_to("/etc/hostname")
    elif change == "about":
        (folder / "version.json").unlink()
    else:
        about = folder / "version.json"
        about.chmod(0o644)
        about.write_text(about.read_text().replace('"step": 1000', '"step": 1001'))
    with pytest.raises(RegistryError, match=r"version 2 .* damaged"):
        rookery.load(f"registry:{registry.folder}@2")


def test_links_out_of_the_registry(registry: Registry, tmp_path: Path) -> None:
    (registry.folder / "versions" / "000003").symlink_to(registry.version(1).folder)
    with pytest.raises(RegistryError, match="is a link"):
        registry.version(3)
    aliases = registry.folder / "aliases.json"
    aliases.rename(tmp_path / "elsewhere.json")
    aliases.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(FileError, match="is a link that leads elsewhere"):
        registry.aliases()


@pytest.mark.parametrize("text", ["{", "[]", '{"champion": "../../x"}', '{"champion": -1}', '{"champion": true}', "3"])
def test_damaged_aliases(registry: Registry, text: str) -> None:
    (registry.folder / "aliases.json").write_text(text)
    with pytest.raises(RookeryError, match=r"aliases.json is damaged"):
        registry.aliases()


def test_other_folders_become_no_registry(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(RegistryError, match=r"holds other files, such as thesis.tex"):
        Registry.create(tmp_path)
    with pytest.raises(RegistryError, match="is a file"):
        Registry.create(tmp_path / "thesis.tex")


def test_version_is_not_resumed(registry: Registry) -> None:
    with pytest.raises(RunError, match="which never changes: begin a new run from it with init_from="):
        rookery.resume(f"registry:{registry.folder}@champion", steps=10_000)


# --- what a killed process leaves -----------------------------------------------------------------------------------


def test_torn_and_missing_lines_are_repaired(registry: Registry) -> None:
    """The last line of the log may be torn or missing; every reader sees its entry all the same."""
    log = registry.folder / "audit.jsonl"
    complete = log.read_bytes()
    lines = complete.splitlines(keepends=True)
    for left in (b"".join(lines[:-1]), complete[:-1], complete[:-30]):
        log.write_bytes(left)
        assert [entry["entry"] for entry in registry.audit()] == [1, 2, 3, 4]
        with registry.changing():
            assert log.read_bytes() == complete


def test_unrecorded_version_is_removed(registry: Registry, runs: list[RunDir]) -> None:
    """A version that was written and not recorded is not there for anybody, and gives its number back."""
    state = (registry.folder / "aliases.json").read_bytes()
    log = (registry.folder / "audit.jsonl").read_bytes()
    registry.add(runs[0])
    (registry.folder / "aliases.json").write_bytes(state)
    (registry.folder / "audit.jsonl").write_bytes(log)
    (registry.folder / "versions" / ".unfinished").mkdir()
    with registry.changing():
        assert sorted(os.listdir(registry.folder / "versions")) == ["000001", "000002"]
    assert registry.add(runs[0]).number == 3


def test_older_aliases_are_noticed(registry: Registry, runs: list[RunDir]) -> None:
    """With a missing or older aliases.json nothing is changed, and above all nothing removed."""
    state = (registry.folder / "aliases.json").read_bytes()
    registry.add(runs[0])
    (registry.folder / "aliases.json").write_bytes(state)
    with pytest.raises(RegistryError, match=r"knows 5 changes, and aliases.json beside it 4"):
        registry.add(runs[0])
    (registry.folder / "aliases.json").unlink()
    with pytest.raises(RegistryError, match="knows 5 changes"):
        registry.rollback()
    assert len(os.listdir(registry.folder / "versions")) == 3


def test_lock(registry: Registry) -> None:
    """Two deployers cannot both change the registry; reading goes on."""
    with registry.changing():
        with pytest.raises(RegistryBusy, match=rf"is being changed by process {os.getpid()} on"):
            registry.rollback(wait=0)
        assert registry.champion_number() == 2


def test_file_system_without_locks(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed where two deployers could not keep out of each other's way."""

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("rookery.files.fcntl.flock", no_locks)
    with pytest.raises(RegistryError, match=r"cannot be locked \(Operation not supported\)"):
        registry.rollback()
    assert registry.champion_number() == 2


def test_registry_by_its_name(registry: Registry) -> None:
    assert Registry(f"registry:{registry.folder}").champion_number() == 2


def test_log_says_who_and_why(registry: Registry) -> None:
    last = registry.audit()[-1]
    assert (last["what"], last["from"], last["to"], last["evidence"]) == ("promote", 1, 2, {"why": "a test"})
    assert f"process {os.getpid()}" in last["who"]
    lines = (registry.folder / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["entry"] for line in lines] == [1, 2, 3, 4]
