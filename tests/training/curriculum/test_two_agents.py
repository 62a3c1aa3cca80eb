"""Runs on kernel worlds with two agents: opponents, leagues, evaluations in games, masks, turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from kernel import board_games
from kernel.board_games import Race
from rookery.errors import OptionError, WorldError
from rookery.kernel import runner
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.registry import PPOOptions
from rookery.testing import check_world
from rookery.training.evaluation.evaluate import evaluate, evaluate_games
from rookery.training.league.tournament import enter_tournament
from rookery.training.players.file_player import RandomPlayer
from rookery.training.resolve.seats import Seat
from rookery.training.resolve.world_choice import find, num_agents, two_player_form
from rookery.training.run.callbacks import Result
from rookery.training.storage.run_dir import RunDir
from training.runs import differences, last_state, small

GAMES = Path(board_games.__file__).resolve()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernel worlds run as plain Python: nothing is compiled."""
    monkeypatch.setattr(runner, "load_native", lambda: None)


def play(folder: Path, learner: str = "ppo", world: str = "TicTacToe", **options: Any) -> Result:
    chosen = {"steps": 320, "evaluation": {"episodes": 2, "every": 10_000}, **options}
    return rookery.train(small(learner, folder, **{"world": f"{GAMES}:{world}", **chosen}))


def events_of(run: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["kind"] == kind]


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_run_against_itself_and_random_actions(tmp_path: Path) -> None:
    """It reports games won and lost. A game of fewer than five moves would be one in which somebody, learner or
    opponent, made a forbidden move."""
    result = play(tmp_path, opponents=["self", "random"])
    evaluation = events_of(result.path, "evaluation")[-1]
    shares = [evaluation[f"eval/random/{what}"] for what in ("won", "drawn", "lost")]
    assert sum(shares) == pytest.approx(1.0) and evaluation["eval/win_rate"] == shares[0]
    progress = [event for event in events_of(result.path, "progress") if "episode/return" in event][-1]
    assert 0.0 <= progress["episode/win_rate"] <= 1.0
    rows = [json.loads(line) for line in (result.path / "episodes.jsonl").read_text().splitlines()]
    assert len(rows) > 20 and min(row["length"] for row in rows) >= 5
    assert {row["winner"] for row in rows} >= {1, -1} and all(row["winner"] == row["return"] for row in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_resumed_run_is_the_same(tmp_path: Path) -> None:
    """With masks, drawn sides, random opponents, copies and past agents in the middle of games."""
    options: dict[str, Any] = {"opponents": ["self", "random", "archive"], "league": {"every": 64}}
    whole = play(tmp_path / "whole", **options)
    part = play(tmp_path / "part", **{**options, "steps": 128})
    resumed = rookery.resume(part.path, steps=320)
    assert not differences(last_state(whole.path), last_state(resumed.path))
    assert resumed.episodes == whole.episodes


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_tournaments_evaluations_and_agents_of_a_run(tmp_path: Path) -> None:
    result = play(tmp_path, opponents=["archive"], league={"every": 128}, steps=256)
    report = enter_tournament([RunDir(result.path)], 2, others=["random"]).hold()
    assert len(report.entries) >= 3 and (report.results.games > 0).any()
    played = evaluate(result.path, episodes=4)
    assert played["opponent"] == "random" and played["won"] + played["drawn"] + played["lost"] == 4
    assert evaluate_games(str(result.path), ["random", "none"], games=2)["opponents"][1]["opponent"] == "none"


@pytest.mark.usefixtures("plain")
def test_without_opponents_one_policy_learns_both_sides(tmp_path: Path) -> None:
    """Every agent is a row of the batch. A game with turns is evaluated against random actions; in others, the share of
    episodes in which agent 0 has the higher return is told."""
    turns = play(tmp_path, steps=128)
    assert "eval/random/won" in events_of(turns.path, "evaluation")[-1]
    at_once = play(tmp_path, world="Race", steps=128)
    told = events_of(at_once.path, "evaluation")[-1]
    assert "eval/random/won" not in told and 0.0 <= told["eval/agent_0_win_rate"] + told["eval/draw_rate"] <= 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("learner", "world"), [("dqn", "TicTacToe"), ("pqn", "TicTacToe"), ("sac", "Race")])
def test_other_learners(learner: str, world: str, tmp_path: Path) -> None:
    result = play(tmp_path, learner, world, opponents=["self"], steps=160)
    assert "eval/random/won" in events_of(result.path, "evaluation")[-1]


def test_a_step_without_a_choice_is_taken_for_certain() -> None:
    """Its probability is 1 whatever the weights are, so that it has no gradient."""
    world = board_games.TicTacToe()
    learner = PPO(world.observation_space, world.action_space, PPOOptions(hidden=[8], rollout_length=4), 2, seed=1)
    mask = np.array([[True] + [False] * 8, [False] + [True] * 8])
    actions = learner.explore(np.ones((2, 9), np.float32), slice(0, 2), mask)
    assert actions[0] == 0 and actions[1] > 0
    outputs = torch.randn(2, 9, requires_grad=True)
    log_prob = learner.head.log_prob(learner.head.apply_mask(outputs, torch.as_tensor(mask)), torch.tensor([0, 3]))
    assert log_prob[0] == 0.0 and log_prob[1] < 0.0
    log_prob.sum().backward()
    assert outputs.grad is not None and not outputs.grad[0].any() and outputs.grad[1].any()


def test_more_than_two_agents_have_no_opponents(tmp_path: Path) -> None:
    file = tmp_path / "three.py"
    file.write_text(GAMES.read_text().replace("num_agents = 2", "num_agents = 3"))
    with pytest.raises(WorldError, match=r"TicTacToe has 3 agents: .* need num_agents = 2"):
        rookery.train(small("ppo", tmp_path, world=f"{file}:TicTacToe", opponents=["self"]))


@pytest.mark.usefixtures("plain")
def test_scripts_that_a_world_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="has no script 'weak'"):
        play(tmp_path, opponents=["self", "weak"])


def test_the_learner_plays_both_sides_and_evaluations_alternate() -> None:
    world = find(f"{GAMES}:Race", options={"strength": 2.0})
    assert num_agents(world) == 2
    forms = [two_player_form(world, training=training).kernel_world for training in (True, False)]
    assert [form.values["player_one_agent"] for form in forms if form] == [-1, 0]
    assert all(form is not None and form.values["strength"] == 2.0 for form in forms)


def test_random_actions_depend_on_the_game_alone() -> None:
    """Not on the games beside it; and they are uniform among the allowed ones."""
    seat = Seat(board_games.TicTacToe.observation_space, board_games.TicTacToe.action_space)
    envs = np.arange(3000)
    many, one = RandomPlayer(seat), RandomPlayer(seat)
    many.begin(envs, envs.tolist())
    one.begin(np.array([0]), [17])
    mask = np.tile(np.array([1, 0, 1, 0, 0, 1, 0, 0, 0], bool), (3000, 1))
    for _ in range(3):
        chosen = many.act(None, envs, mask)
        assert one.act(None, np.array([0]), mask[:1])[0] == chosen[17]
    counts = np.bincount(chosen, minlength=9)
    assert counts[[0, 2, 5]].min() > 900 and counts.sum() == counts[[0, 2, 5]].sum()
    saved = {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in many.state().items()}
    then = many.act(None, envs)
    again = RandomPlayer(seat)
    again.load(saved)
    assert np.array_equal(again.act(None, envs), then)
    race = RandomPlayer(Seat(Race.observation_space, Race.action_space))
    race.begin(envs)
    pushes = race.act(None, envs)
    assert pushes.dtype == np.float32 and abs(pushes.mean()) < 0.05 and pushes.min() < -0.98


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_self_play_beats_random_actions(tmp_path: Path) -> None:
    """From both sides of the board."""
    ppo = {"learning_rate": 1e-3, "entropy": 0.02, "rollout_length": 64, "hidden": [64, 64], "epochs": 4}
    options: dict[str, Any] = {"num_envs": 64, "steps": 200_000, "opponents": ["self", "random"], "ppo": ppo}
    result = play(tmp_path, **options, evaluation={"episodes": 20, "every": 10**9})
    played = evaluate(result.path, episodes=400)
    assert played["win_rate"] > 0.7 and played["loss_rate"] < 0.25  # random against random: 44 % each


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_check_finds_what_is_wrong_with_turns(tmp_path: Path) -> None:
    """A right world passes; one that reads the action of the wrong agent, or names no agent, is rejected."""
    assert check_world(f"{GAMES}:TicTacToe").problems == []
    assert check_world(f"{GAMES}:Race").problems == []
    text = GAMES.read_text()
    for old, new, problem in (
        ("field = action[agent]", "field = action[0]", "the action of agent 0 changed step 1"),
        ("return state.steps % 2", "return 2 * (state.steps % 2)", "turn should return 0 or 1"),
    ):
        file = tmp_path / f"{len(new)}.py"
        file.write_text(text.replace(old, new))
        assert any(problem in found for found in check_world(f"{file}:TicTacToe").problems)
