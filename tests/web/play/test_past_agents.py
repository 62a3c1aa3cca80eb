"""The agent that a run had at a step plays in a session: by the checkpoint before it, or trained again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.engine.value_tree import copied_state
from rookery.errors import RunError
from rookery.training.storage.checkpoint import Checkpoints
from rookery.web.play.play_request import PlayRequest, read_request
from rookery.web.play.play_session import PlaySession, agent_again, agent_before, open_game
from rookery.web.play.session_main import PlayLoop
from rookery.web.run_folders import NotShown, RunFolders
from training.runs import differences, small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options: dict[str, Any] = {"steps": 512, "checkpoints": {"every": 128, "keep": 9}, "name": "run"}
    return rookery.train(small("ppo", tmp_path_factory.mktemp("past"), **options)).path


def test_the_checkpoint_before_a_step(run: Path) -> None:
    assert [agent_before(run, step)[0] for step in (0, 127, 128, 300, 512, 10**9)] == [128, 128, 128, 256, 512, 512]


def test_exactly_a_step_is_the_agent_of_a_rewind(run: Path) -> None:
    told: list[dict[str, Any]] = []
    step, agent, verdict = agent_again(run, 330, told.append)
    with rookery.rewind(run, at=330) as live:
        assert (live.step, verdict) == (step, "exact")
        assert not differences(agent.policy.state_dict() and _weights(agent), _weights(live.agent))
    assert (told[0]["from"], told[0]["step"], told[-1]["step"]) == (256, 256, 330)


def _weights(agent: Any) -> dict[str, Any]:
    return copied_state({name: array.numpy() for name, array in agent.policy.state_dict().items()})


def test_a_session_changes_its_agent(run: Path) -> None:
    """Each begins with the episode of the seed; a damaged checkpoint is passed over."""
    with open_game(PlayRequest(str(run), "runs/run", at=200, seed=3)) as game:
        session = PlaySession(game)
        assert session.describe()["step"] == 128
        loop = PlayLoop(session, None, None)  # type: ignore[arg-type]
        session.step()
        loop.follow({"at": 400})
        frame, _ = session.frame(False)
        assert (frame["agent_step"], frame["steps"], frame["seed"]) == (384, 0, 3)
        loop.follow({"at": "x"})
        assert session.frame(False)[0]["agent_step"] == 384


def test_a_damaged_checkpoint_is_passed_over(run: Path, tmp_path: Path) -> None:
    import shutil

    other = Path(shutil.copytree(run, tmp_path / "other"))
    for entry in Checkpoints(other / "checkpoints").entries()[1:]:
        (entry.path / "agent.safetensors").write_bytes(b"x")
    assert agent_before(other, 512)[0] == 128
    shutil.rmtree(other / "checkpoints")
    with pytest.raises(RunError, match="no checkpoint"):
        agent_before(other, 512)


def test_a_page_names_a_step(run: Path) -> None:
    folders = RunFolders([run.parent])
    place = next(iter(folders.places))
    request = read_request({"agent": f"{place}/run", "at": "330", "exact": "1"}, folders)
    assert (request.at, request.exact) == (330, True)
    for wrong in ("-1", "1.5", "9" * 17, "x"):
        with pytest.raises(NotShown, match="at should be"):
            read_request({"agent": f"{place}/run", "at": wrong}, folders)
