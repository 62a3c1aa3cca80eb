"""What a page may ask for: agents and opponents that are shown, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.web.play.play_request import PlayRequest, read_request
from rookery.web.play.play_routes import playable_agents
from rookery.web.run_folders import NotShown, RunFolders


@pytest.fixture
def folders(tmp_path: Path) -> RunFolders:
    run = tmp_path / "runs" / "mine"
    (run / "checkpoints" / "step-000000000064").mkdir(parents=True)
    (run / "config.json").write_text(json.dumps({"world": "hockey", "learner": "ppo"}))
    (tmp_path / "runs" / "young").mkdir()  # it has no checkpoint
    (tmp_path / "runs" / "young" / "config.json").write_text("{}")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.json").write_text("[")
    (tmp_path / "runs" / "link").symlink_to(tmp_path)
    return RunFolders([tmp_path / "runs"])


def test_runs_with_a_checkpoint_and_shipped_agents_are_listed(folders: RunFolders) -> None:
    shipped, mine = playable_agents(folders)
    assert (shipped["id"], shipped["kind"], shipped["against"]) == ("hockey", "shipped", True)
    assert (mine["id"], mine["world"], mine["learner"], mine["against"]) == ("runs/mine", "hockey", "ppo", True)
    assert shipped["game"] == mine["game"] == "hockey"


def test_agents_of_other_worlds_play_no_game(folders: RunFolders) -> None:
    (folders.find("runs", "mine") / "config.json").write_text(json.dumps({"world": "CartPole-v1", "learner": "ppo"}))
    assert (playable_agents(folders)[1]["game"], playable_agents(folders)[1]["against"]) == (None, False)


def test_an_opponent_may_be_another_run(folders: RunFolders) -> None:
    assert read_request({"agent": "hockey", "opponent": "runs/mine"}, folders).opponent == str(
        folders.find("runs", "mine")
    )


def test_a_folder_cannot_stand_for_a_file_of_code(folders: RunFolders) -> None:
    """Players from Python files are known by their names: a folder of such a name would let the file beside it run."""
    (folders.places["runs"] / "evil.py:Agent").mkdir()
    with pytest.raises(NotShown, match="there is no opponent 'runs/evil"):
        read_request({"agent": "hockey", "opponent": "runs/evil.py:Agent"}, folders)


def test_a_request_survives_the_way_to_its_process(folders: RunFolders) -> None:
    query = {"agent": "runs/mine", "opponent": "human", "envs": "4", "seed": "7", "best": "1", "deterministic": "0"}
    request = read_request(query, folders)
    assert request.agent == str(folders.find("runs", "mine"))
    assert (request.opponent, request.envs, request.seed, request.best) == ("human", 4, 7, True)
    assert request.deterministic is False
    assert PlayRequest.from_json(request.as_json()) == request


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({}, "there is no agent ''"),
        ({"agent": "nobody"}, "there is no agent 'nobody'"),
        ({"agent": "runs/.."}, "is not a name"),
        ({"agent": "runs/link"}, "there is no 'link'"),
        ({"agent": "runs/a/b"}, "is not a name"),
        ({"agent": "elsewhere/mine"}, "there is no folder 'elsewhere'"),
        ({"agent": "hockey", "opponent": "evil.py:Agent"}, "there is no opponent"),
        ({"agent": "hockey", "opponent": "/tmp/evil.py:Agent"}, "there is no opponent"),
        ({"agent": "hockey", "opponent": "/tmp/evil"}, "there is no folder ''"),
        ({"agent": "hockey", "opponent": "registry:x@champion"}, "there is no opponent"),
        ({"agent": "hockey", "envs": "17"}, "envs should be an integer from 1 to 16"),
        ({"agent": "hockey", "envs": "٣"}, "envs should be an integer"),
        ({"agent": "hockey", "seed": "-1"}, "seed should be an integer"),
        ({"agent": "hockey", "best": "yes"}, "best should be 0 or 1"),
    ],
)
def test_anything_else_is_refused(folders: RunFolders, query: dict[str, str], sentence: str) -> None:
    with pytest.raises(NotShown, match=sentence):
        read_request(query, folders)
