"""The agents of finished runs, measured again."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium
import pytest

import rookery
from rookery.errors import OptionError, RunError, UsageError, WorldError
from rookery.training.evaluation.evaluate import evaluate, evaluate_games
from rookery.training.storage.checkpoint import Checkpoints
from training.finished import STEP, make_run
from training.tug import Tug, write_agent


def test_figures_of_a_run(tmp_path, capsys):
    make_run(tmp_path)
    figures = evaluate("finished", tmp_path, episodes=3)
    assert list(figures) == [
        "run", "step", "world", "episodes", "return_mean", "return_std", "return_low", "return_high", "return_min",
        "return_max", "length_mean", "seconds",
    ]  # fmt: skip
    assert (figures["run"], figures["step"], figures["world"]) == ("finished", STEP, "CartPole-v1")
    assert figures["episodes"] == 3
    assert figures["return_min"] <= figures["return_mean"] == figures["length_mean"] <= figures["return_max"]
    figures.print()
    assert f"mean return  {figures.mean:,.4g} (95 % interval" in capsys.readouterr().out


def test_one_episode_has_no_interval(tmp_path, capsys):
    make_run(tmp_path)
    evaluate("finished", tmp_path, episodes=1).print()
    assert "interval" not in capsys.readouterr().out


def test_agents_are_evaluated_as_they_are(tmp_path):
    """That of a run with its world; one without a run with the world that is given; a result by its agent."""
    run = make_run(tmp_path)
    agent = rookery.load(run.path)
    named, own = evaluate(run.path, episodes=3), evaluate(agent, episodes=3)
    assert own.returns.tolist() == named.returns.tolist() and own.mean == named["return_mean"]
    assert evaluate(SimpleNamespace(agent=agent), episodes=3).returns.tolist() == named.returns.tolist()
    assert repr(own).startswith(f"EvaluationResult(finished in CartPole-v1: mean return {own.mean:,.4g}, 95 % interval")
    folder = agent.save(tmp_path / "saved")
    alone = rookery.load(folder)
    for given in (alone, folder):
        with pytest.raises(UsageError, match="not of a run"):
            evaluate(given, episodes=1)
    assert len(evaluate(folder, world="CartPole-v1", episodes=2).returns) == 2
    for world in ("CartPole-v1", lambda: gymnasium.make("CartPole-v1")):
        assert len(evaluate(alone, world=world, episodes=2).returns) == 2
    assert len(evaluate(agent, world=lambda: gymnasium.make("CartPole-v1"), episodes=2).returns) == 2
    with pytest.raises(UsageError, match="expected an agent"):
        evaluate(3)


@pytest.mark.slow
def test_an_agent_is_exported_in_the_format_of_the_name(tmp_path):
    """Also one without a run; the same as the run's own."""
    run = make_run(tmp_path)
    agent = rookery.load(run.path)
    assert agent.export(tmp_path / "own.py").is_file()
    alone = rookery.load(agent.save(tmp_path / "saved"))
    alone.export(tmp_path / "alone.py")
    rookery.export(run.path, tmp_path / "named.py")
    texts = [(tmp_path / f"{name}.py").read_text().split("WEIGHTS")[-1] for name in ("own", "alone", "named")]
    assert texts[0] and len(set(texts)) == 1
    with pytest.raises(OptionError, match="overwrite=True"):
        agent.export(tmp_path / "own.py")
    with pytest.raises(OptionError, match=r"ending in \.onnx, \.py, \.zip, \.md"):
        agent.export(tmp_path / "agent.pt")


def test_the_agent_of_a_session_knows_its_world(tmp_path):
    """A lambda has no name by which it could be found again."""
    result = rookery.train(
        lambda: gymnasium.make("CartPole-v1"), steps=64, num_envs=2, learner="ppo", runs_dir=tmp_path, verbose=False
    )
    assert len(rookery.evaluate(result, episodes=2).returns) == 2


def test_the_seed_decides(tmp_path):
    make_run(tmp_path)

    def returns(**wish):
        figures = evaluate("finished", tmp_path, episodes=4, **wish)
        return figures["return_mean"], figures["return_std"]

    assert returns() == returns()
    assert returns(seed=1) == returns(seed=1) != returns(seed=2)
    drawn = {"deterministic": False, "seed": 1}
    assert returns(**drawn) == returns(**drawn) != returns(seed=1)


def test_games_have_a_win_rate(tmp_path):
    make_run(tmp_path, "hockey", "sac", world_options={"time_limit": 10})
    figures = evaluate("finished", tmp_path, episodes=2)
    assert figures["win_rate"] == 0.0
    assert figures["length_mean"] == 10


def test_a_game_of_the_users_is_played_against_random_actions(tmp_path):
    """The world takes both players' actions, and the agent acts for one of them."""
    options = {"steps": 64, "num_envs": 2, "learner": "ppo", "ppo": {"rollout_length": 16, "hidden": [8]}}
    run = rookery.train(Tug, opponents="self", runs_dir=tmp_path, backend="serial", verbose=False, **options)
    played = rookery.evaluate(run.path, episodes=4)
    assert [(row["opponent"], row["games"]) for row in played.opponents] == [("random", 4)]


def test_another_world_with_the_same_spaces(tmp_path):
    make_run(tmp_path)
    figures = evaluate("finished", tmp_path, episodes=2, world="CartPole-v0")
    assert figures["world"] == "CartPole-v0"
    other = evaluate("finished", tmp_path, episodes=2, world_options={"gravity": 1.0})
    own = evaluate("finished", tmp_path, episodes=2)
    assert other["world"] == own["world"] and other["length_mean"] != own["length_mean"]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (
            "Acrobot-v1",
            r"finished cannot play Acrobot-v1: its agent observes Box\(.*\(4,\), float32\), and that has Box",
        ),
        ("hockey", r"finished cannot play hockey: its agent observes"),
    ],
)
def test_a_world_with_other_spaces_is_refused(tmp_path, world, words):
    make_run(tmp_path)
    with pytest.raises(OptionError, match=words):
        evaluate("finished", tmp_path, world=world)


def test_other_actions_are_refused_too(tmp_path):
    make_run(tmp_path, "MountainCar-v0")
    with pytest.raises(OptionError, match=r"its agent acts in Discrete\(3\), and that has Box"):
        evaluate("finished", tmp_path, world="MountainCarContinuous-v0")


def test_mistakes(tmp_path):
    with pytest.raises(OptionError, match="episodes"):
        evaluate("finished", tmp_path, episodes=0)
    with pytest.raises(RunError, match="no run 'finished'"):
        evaluate("finished", tmp_path)


# --- against others -----------------------------------------------------------------------------------------------

SHORT = {"time_limit": 40}
FIGURES = [
    "games", "won", "drawn", "lost", "win_rate", "draw_rate", "loss_rate", "win_rate_interval", "loss_rate_interval",
    "return_mean", "length_mean",
]  # fmt: skip


def test_a_run_against_one_opponent(tmp_path):
    make_run(tmp_path, "hockey", "sac", world_options=SHORT)
    figures = evaluate_games("finished", ["strong"], tmp_path, games=4, seed=7)
    assert list(figures) == ["agent", "run", "step", "world", "opponent", *FIGURES, "seed", "seconds"]
    assert (figures["agent"], figures["run"], figures["step"]) == ("finished", "finished", STEP)
    assert (figures["opponent"], figures["games"], figures["seed"]) == ("strong", 4, 7)
    assert figures["won"] + figures["drawn"] + figures["lost"] == 4
    assert figures["length_mean"] <= 40  # the options that it was trained with hold
    longer = evaluate_games("finished", ["none"], tmp_path, games=2, world_options={"time_limit": 50})
    assert longer["length_mean"] == 50


def test_several_opponents_are_a_list(tmp_path):
    make_run(tmp_path, "hockey", "dqn", world_options=SHORT)
    told: list[tuple[str, int]] = []
    figures = evaluate_games(
        "finished", ["weak", "hockey"], tmp_path, games=2, progress=lambda who, done: told.append((who, done))
    )
    assert [row["opponent"] for row in figures["opponents"]] == ["weak", "hockey"]
    assert all(list(row) == ["opponent", *FIGURES] for row in figures["opponents"])
    assert dict(told) == {"weak": 2, "hockey": 2}  # in the end; games that end in the same step are told at once


def test_agents_without_a_run(tmp_path):
    """The shipped one, a file's, a checkpoint's: against both scripts, if nobody is named."""
    place = write_agent(tmp_path, "def act(self, obs):\n    return np.zeros(4)")
    for who, name in (("hockey", "hockey"), (place, "agent.Agent"), ("weak", "weak")):
        figures = evaluate_games(who, runs_dir=tmp_path, games=2, world_options=SHORT)
        assert list(figures) == ["agent", "world", "opponents", "seed", "seconds"]
        assert figures["agent"] == name
        assert [row["opponent"] for row in figures["opponents"]] == ["weak", "strong"]
    folder = Checkpoints(make_run(tmp_path, "hockey").checkpoints).latest()
    figures = evaluate_games(str(folder), ["none"], tmp_path, games=2, world_options=SHORT)
    assert figures["agent"] == f"finished-{folder.name}"


def test_a_run_named_hockey_comes_before_the_shipped_agent(tmp_path):
    make_run(tmp_path, "hockey", world_options=SHORT).path.rename(tmp_path / "hockey")
    figures = evaluate_games("hockey", ["none"], tmp_path, games=1)
    assert figures["run"] == "hockey"


def test_mistakes_about_games(tmp_path):
    make_run(tmp_path)
    with pytest.raises(OptionError, match="games should be a positive integer"):
        evaluate_games("finished", ["weak"], tmp_path, games=0)
    with pytest.raises(WorldError, match="CartPole-v1 is not a two-player game"):
        evaluate_games("finished", ["weak"], tmp_path)
    with pytest.raises(OptionError, match="finished cannot play here: its agent acts in"):
        evaluate_games("finished", ["weak"], tmp_path, world="hockey")
    with pytest.raises(RunError, match="no run 'nobody'"):
        evaluate_games("nobody", ["weak"], tmp_path)
