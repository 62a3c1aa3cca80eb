"""The archive: agents in and out of files, and exactly as it was after a resume."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rookery.errors import CheckpointError
from rookery.training.league.archive import Archive
from rookery.training.league.ratings import Rating
from training.league.agents import agent_tree


def filled(folder, steps, size=10):
    archive = Archive(folder, size)
    for step in steps:
        archive.enter(step, agent_tree(step), Rating(float(step), 1.0))
    return archive


def on_disk(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_agent_comes_back_as_it_was(tmp_path):
    """Its answers are those of the agent that entered, bit for bit."""
    from rookery.training.storage.load_agent import agent_from

    archive = filled(tmp_path / "league", [100, 200])
    seen = np.random.default_rng(0).normal(size=(5, 18)).astype(np.float32)
    for member in archive.members:
        before, after = agent_from(agent_tree(member.step)), archive.load_policy(member)
        assert np.array_equal(before.act(seen, deterministic=True), after.act(seen, deterministic=True))


def test_names_are_unique(tmp_path):
    """Two agents of one step are two members."""
    archive = filled(tmp_path, [100, 100, 100])
    assert [member.name for member in archive.members] == ["step-100", "step-100-2", "step-100-3"]
    assert on_disk(tmp_path) == ["step-100", "step-100-2", "step-100-3"]


def test_the_lowest_rated_of_the_others_retires(tmp_path):
    """One that enters stays, however low it is rated; who left keeps its files."""
    archive = filled(tmp_path, [30, 10, 20, 5], size=3)
    assert [member.step for member in archive.active] == [30, 20, 5]
    archive.enter(40, agent_tree(), Rating(40.0, 1.0))
    assert [member.step for member in archive.active] == [30, 20, 40]
    assert len(on_disk(tmp_path)) == 5


def test_the_state_is_plain_and_comes_back(tmp_path):
    """Through JSON, to the last digit."""
    archive = filled(tmp_path, [10, 20, 30], size=2)
    archive.members[1].record.add_game(1)
    archive.members[1].record.add_game(-1)
    again = Archive(tmp_path, 2)
    again.load(json.loads(json.dumps(archive.state())))
    assert again.members == archive.members
    assert again.state() == archive.state()


def test_resuming_forgets_who_entered_later(tmp_path):
    """After going back to a checkpoint the archive is what it was then: members, ratings, retirements and files; and
    the run that is made again gives the same names."""
    archive = filled(tmp_path, [30, 20], size=2)
    then, files = json.loads(json.dumps(archive.state())), on_disk(tmp_path)
    archive.enter(40, agent_tree(), Rating(40.0, 1.0))
    archive.members[0].record.add_game(1)
    assert archive.find("step-20").retired
    again = Archive(tmp_path, 2)
    again.load(then)
    assert again.state() == then and on_disk(tmp_path) == files
    assert not again.find("step-20").retired
    again.load_policy(again.find("step-20"))
    assert again.enter(40, agent_tree(), Rating(40.0, 1.0)).name == "step-40"


def test_other_files_in_the_folder_stay(tmp_path):
    """Only folders of members are ever removed."""
    archive = filled(tmp_path, [10])
    (tmp_path / "tournament.json").write_text("{}")
    archive.load({})
    assert on_disk(tmp_path) == ["tournament.json"]


def test_a_new_run_has_no_folder_yet(tmp_path):
    """Loading an empty archive is not a trouble."""
    archive = Archive(tmp_path / "league", 3)
    archive.load({})
    assert archive.members == []


@pytest.mark.parametrize("harm", ["missing", "flipped", "cut"])
def test_a_member_that_is_not_whole_is_named(tmp_path, harm):
    """When resuming, and when it is to play."""
    archive = filled(tmp_path, [10, 20])
    weights = tmp_path / "step-20" / "agent.safetensors"
    raw = bytearray(weights.read_bytes())
    if harm == "missing":
        weights.unlink()
    else:
        raw[-1] ^= 1
        weights.write_bytes(raw if harm == "flipped" else raw[:-8])
    with pytest.raises(CheckpointError, match=r"step-20 of the league.*agent\.safetensors"):
        archive.load_policy(archive.members[1])
    with pytest.raises(CheckpointError, match="step-20 of the league"):
        Archive(tmp_path, 5).load(archive.state())


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    """Neither who is in it nor what is on the disk."""
    archive = filled(tmp_path, [10, 20], size=2)
    before, files = archive.state(), on_disk(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rookery.training.storage.checkpoint.write_file", full)
    with pytest.raises(OSError, match="No space"):
        archive.enter(30, agent_tree(), Rating())
    assert archive.state() == before and on_disk(tmp_path) == files
