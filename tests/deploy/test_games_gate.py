"""The gate of two-player games, and agents of a registry as opponents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.deploy.comparison import gate_kind
from rookery.deploy.gates import _decide_games, games_gate
from rookery.deploy.promotion import deploy
from rookery.deploy.registry import Registry
from rookery.training.evaluation.win_record import WinRecord
from rookery.training.storage.run_dir import RunDir
from training.finished import make_run


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """An agent with random weights: no good."""
    return make_run(tmp_path_factory.mktemp("runs"), "hockey", "sac", hidden=[8])


def test_decided_games_count() -> None:
    """Draws decide nothing; the lower end of the interval must be above half."""
    assert _decide_games(WinRecord(70, 100, 30, 0.0, 0.0), 0.0, "the champion").passed
    assert not _decide_games(WinRecord(55, 0, 45, 0.0, 0.0), 0.0, "the champion").passed
    assert not _decide_games(WinRecord(70, 100, 30, 0.0, 0.0), 0.2, "the champion").passed
    drawn = _decide_games(WinRecord(0, 20, 0, 0.0, 0.0), 0.0, "weak")
    assert not drawn.passed and drawn.reasons == ("all 20 new games against weak were drawn: nobody is better",)
    assert json.loads(json.dumps(drawn.as_json(), allow_nan=False))["figures"]["decided_share"] is None


@pytest.mark.slow
def test_first_champion_plays_the_weak_script(player: RunDir) -> None:
    result = games_gate(player, None, seed=3, games=10)
    assert result is not None and not result.passed
    assert result.figures["other"] == "weak" and result.figures["games"] == 10


@pytest.mark.slow
def test_registry_as_opponent(player: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A game is compared by games, and the champion plays as an opponent by its name."""
    to = tmp_path / "agents"
    deploy(player.path, to, first=True)
    version = Registry(to).version("champion")
    from rookery.config import build_config

    assert gate_kind(build_config(version.run.read_config())) == "games"
    result = games_gate(player, version.run, seed=4, games=10)
    assert result is not None and not result.passed and "against the champion" in result.reasons[0]
    capsys.readouterr()
    words = ["eval", f"registry:{to}", "--opponent", f"registry:{to}@1", "--games", "4", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["games"] == 4


@pytest.mark.slow
def test_league_of_versions(player: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A tournament among versions is reported beside them."""
    to = tmp_path / "agents"
    registry = Registry.create(to)
    for _ in range(2):
        registry.promote(registry.add(player).number)
    words = ["league", f"registry:{to}@1", f"registry:{to}@2", "--games", "4", "--json"]
    assert main(words) == 0
    assert (to / "outputs" / "000001" / "league").is_dir()
    registry.version(1)


@pytest.mark.slow
def test_run_keeps_the_champion_that_it_began_with(player: RunDir, tmp_path: Path) -> None:
    """A resumed run plays against the same version, whoever is champion by then."""
    import rookery

    registry = Registry.create(tmp_path / "agents")
    registry.promote(registry.add(player).number)
    opponents = [{"who": f"registry:{registry.folder}@champion"}]
    result = rookery.train(
        "hockey", learner="sac", steps=64, num_envs=2, runs_dir=tmp_path / "runs", opponents=opponents, verbose=False,
        sac={"hidden": [8], "start_steps": 32, "batch_size": 8, "buffer_size": 100},
    )  # fmt: skip
    recorded = RunDir(result.path).read_config()["opponents"][0]["who"]
    assert Path(recorded) == registry.version(1).folder.resolve()
    registry.promote(registry.add(player).number)
    assert rookery.resume(result.path, steps=128, verbose=False).total_steps == 128
