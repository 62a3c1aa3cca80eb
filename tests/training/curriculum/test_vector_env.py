"""Phases and opponents: what an episode is to be is settled before it begins, and holds to its end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.config import collect_config, resolve
from rookery.learners.registry import PPOOptions, make_learner
from rookery.training.curriculum.curriculum import make_curriculum_env
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.world_choice import name_of_object, world_of_object
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch
from rookery.training.storage.checkpoint import Checkpoints
from training.echoes.world import Echo
from training.runs import QUIET, differences

pytestmark = pytest.mark.usefixtures("all_allowed", "plain_python")

HERE = Path(__file__).parents[1] / "echoes"
CONFIGS = Path(__file__).parents[3] / "configs"
QUARTER, HALF, MIRROR = (f"{HERE / 'players.py'}:{name}" for name in ("Quarter", "Half", "Mirror"))
BACKENDS = ["serial", "thread", "process", "kernel"]
SHAPED = [
    {
        "opponents": [QUARTER, MIRROR],
        "mixture": [{"options": {"level": 0.0}}, {"options": {"level": 2.0}, "weight": 2.0}],
        "shaping": {"done_by_other": {"start": 1.0, "final": 3.0, "hold": 5, "fall": 10}},
    }
]


def echo_config(folder, **keys):
    return resolve(
        collect_config({"world": name_of_object(Echo), "learner": "ppo", "runs_dir": str(folder), "seed": 4, **keys})
    )


def make(folder, backend, num_envs=4, groups=1, **keys):
    """A course over Echo on some backend, with a small PPO."""
    config = echo_config(folder, **keys)
    world = world_of_object(Echo, config.world, {})
    workers = 2 if backend in ("thread", "process") else 1
    engine = rookery.make_vec(Echo, num_envs, backend, workers, groups=groups, autoreset_mode="SameStep", copy=False)
    run = ResolvedRun(config, world, world, num_envs)
    run = run.with_spaces(engine.single_observation_space, engine.single_action_space)
    seat = run.seat
    options = PPOOptions(hidden=[8], rollout_length=8, epochs=1)
    learner = make_learner("ppo", seat.observation_space, seat.action_space, options, num_envs, 1, "cpu")
    return make_curriculum_env(run, engine, learner, Path(folder)), learner


def play(course, steps=60):
    """What players one saw after each step, and where games ended."""
    observations, _ = course.reset(seed=7)
    seen, ends = [observations.copy()], []
    rng = np.random.default_rng(0)
    for _ in range(steps):
        actions = rng.uniform(-1, 1, (course.num_envs, 1)).astype(np.float32)
        observations, rewards, terminated, truncated, infos = course.step(actions)
        seen.append(np.concatenate([observations, rewards[:, None], infos["done_by_other"][:, None]], 1))
        ends.append(terminated | truncated)
    return seen, np.array(ends)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_opponent_never_changes_within_an_episode(tmp_path, backend):
    """Two opponents that do different things are drawn in turn: in every episode of every env only one is seen, and
    over the episodes both are."""
    course, _ = make(tmp_path, backend, opponents=[QUARTER, {"who": HALF, "weight": 2.0}])
    try:
        course.reset(seed=7)
        rows, met, games = [[] for _ in range(4)], set(), 0
        for _ in range(120):
            _, _, terminated, truncated, infos = course.step(np.zeros((4, 1), np.float32))
            final = infos.get("final_info", {})
            for env in range(4):
                ended = terminated[env] | truncated[env]
                rows[env].append(float((final if ended else infos)["done_by_other"][env]))
                if ended:
                    assert len(set(rows[env])) == 1, rows[env]
                    assert len(rows[env]) >= 5
                    met.add(rows[env][0])
                    rows[env], games = [], games + 1
        assert met == {0.25, 0.5}
        assert games > 40
    finally:
        course.engine.close()


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_course_is_the_same_on_every_backend(tmp_path, backend):
    """Draws, options and shaped rewards follow from the seed alone."""
    played = []
    for name in ("serial", backend):
        course, _ = make(tmp_path, name, phases=SHAPED)
        try:
            played.append(play(course))
        finally:
            course.engine.close()
    (seen, ends), (their_seen, their_ends) = played
    assert np.array_equal(ends, their_ends)
    for mine, theirs in zip(seen, their_seen, strict=True):
        assert np.array_equal(mine, theirs)
    marks = np.array([row[:, 2] for row in seen])
    assert (marks < 1).any() and (marks > 2).any()  # both variants


@pytest.mark.parametrize("backend", ["serial", "kernel"])
def test_opponents_see_their_own_view(tmp_path, backend):
    """Mirror plays what its view says about the episode, from the first step on."""
    course, _ = make(tmp_path, backend, opponents=MIRROR)
    try:
        observations, _ = course.reset(seed=7)
        marks = observations[:, 2].copy()
        for _ in range(40):
            observations, _, terminated, truncated, infos = course.step(np.zeros((4, 1), np.float32))
            ended = terminated | truncated
            final = infos.get("final_info", infos)
            done = np.where(ended, final["done_by_other"], infos["done_by_other"])
            assert done == pytest.approx(-marks)
            marks = observations[:, 2].copy()
    finally:
        course.engine.close()


def test_a_copy_of_the_agent_stays_as_it_was_when_the_game_began(tmp_path):
    """The learner's weights change in the middle of games; who is faced there does not."""
    course, learner = make(tmp_path, "kernel", opponents={"who": "self", "deterministic": True})
    try:
        course.reset(seed=7)
        first = course.opponents._players[course._opponent_numbers[0]]
        asked = np.ones((1, 3), np.float32)
        before = first.act(asked, np.array([0]))
        for weight in learner.policy.parameters():
            weight.data += 1.0
        learner.updates += 1
        course.steps += 10_000  # time for a new copy
        course.step(np.zeros((4, 1), np.float32))
        assert course.opponents._players[course._opponent_numbers[0]] is first
        assert np.array_equal(first.act(asked, np.array([0])), before)
        while course.opponents._players[course._opponent_numbers[0]] is first:
            course.step(np.zeros((4, 1), np.float32))
        new = course.opponents._players[course._opponent_numbers[0]]
        assert not np.array_equal(new.act(asked, np.array([0])), before)
    finally:
        course.engine.close()


def test_shaping_holds_then_falls_by_episodes(tmp_path):
    """Weights are those of the episode's beginning."""
    shaping = {"done_by_other": {"start": 4.0, "final": 1.0, "hold": 4, "fall": 6}}
    course, _ = make(tmp_path, "kernel", num_envs=1, opponents=HALF, phases=[{"shaping": shaping}])
    try:
        course.reset(seed=7)
        weights, episode = [[]], 0
        while episode < 14:
            _, rewards, terminated, truncated, _ = course.step(np.zeros((1, 1), np.float32))
            weights[-1].append(rewards[0] / 0.5)
            if terminated[0] | truncated[0]:
                weights.append([])
                episode += 1
        assert all(len(set(part)) == 1 for part in weights[:14])
        wanted = [4.0] * 5 + [3.5, 3.0, 2.5, 2.0, 1.5] + [1.0] * 4
        assert [part[0] for part in weights[:14]] == pytest.approx(wanted)
    finally:
        course.engine.close()


def test_a_course_that_begins_new_episodes_after_a_resume_tells_the_engine_all(tmp_path):
    """Where envs cannot be saved, a new engine knows nothing of the options that the phase has."""
    keys = {"opponents": QUARTER, "phases": [{"options": {"level": 2.0}}]}
    first, _ = make(tmp_path, "serial", **keys)
    second, _ = make(tmp_path, "serial", **keys)
    try:
        first.reset(seed=7)
        first.step(np.zeros((4, 1), np.float32))
        second.load_curriculum_state(first.curriculum_state())
        observations, _ = second.reset(seed=8)
        assert (observations[:, 2] >= 2.0).all()
    finally:
        first.engine.close()
        second.engine.close()


def test_a_phase_ends_when_enough_games_are_won(tmp_path):
    """Player one always does more: it wins each game, and 20 games are enough."""
    phases = [{"until": {"win_rate": 0.9, "games": 20}, "opponents": QUARTER}, {"opponents": HALF}]
    course, _ = make(tmp_path, "kernel", phases=phases)
    try:
        course.reset(seed=7)
        games = 0
        while not course.phases.over:
            assert games < 20
            _, _, terminated, truncated, _ = course.step(np.ones((4, 1), np.float32))
            games += int((terminated | truncated).sum())
        assert games >= 20
        course.begin_next_phase()
        assert course.phases.title == "phase 2" and not course.phases.over
    finally:
        course.engine.close()


# --- as an engine -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_of_an_engine_passes_by_the_phases(tmp_path, backend):
    """Whatever public name an engine has, a course has its own, hands on what has nothing to do with phases, or has
    none. A name that is new here must be put in one of these lists."""
    own = {"reset", "step", "send", "recv", "load_state_dict", "groups"}
    handed_on = {"num_envs", "backend", "metadata", "finished_episodes"}
    course, _ = make(tmp_path, backend, opponents=QUARTER)
    try:
        offered = {name for name in dir(course.engine) if not name.startswith("_")}
        assert {name for name in offered if hasattr(course, name)} == own | handed_on
    finally:
        course.engine.close()


def learned(folder, backend, groups):
    """What a learner is after three updates on shaped and scaled rewards, and what it was rewarded with."""
    course, learner = make(folder, backend, groups=groups, phases=SHAPED, reward_scale=0.5)
    collector, rewards = Collector(course, learner, Stopwatch(), lambda steps: 0.0), []
    try:
        collector.begin(*course.reset(seed=7))
        for _ in range(3):
            collector.collect(learner.steps_until_update, lambda: False)
            rewards.append(learner.rollout.rewards.numpy().copy())
            collector.update()
        return {"learner": learner.state(), "course": course.curriculum_state(), "rewards": np.array(rewards)}
    finally:
        course.engine.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_engine_in_groups_teaches_the_same(tmp_path, backend):
    """Shaped and scaled rewards, counts of episodes and weights are those of an undivided engine, bit for bit."""
    whole, divided = (learned(tmp_path, backend, groups) for groups in (1, 2))
    assert whole["rewards"].any()
    assert differences(whole, divided) == []


def test_a_run_in_groups_is_the_same_with_phases(tmp_path, caplog):
    """The config says what was done, and a line tells of it."""
    runs = []
    for groups in (1, 2):
        keys = {"world": name_of_object(Echo), "phases": SHAPED, "backend": "serial", "groups": groups}
        runs.append(rookery.train(hockey("ppo", tmp_path / f"{groups}", reward_scale=0.5, steps=512, **keys)))
    one, two = (Checkpoints(run.path / "checkpoints").load_latest()[1] for run in runs)
    assert all(differences(one[part], two[part]) == [] for part in ("agent", "learner", "course"))
    assert json.loads((runs[1].path / "config.json").read_text())["groups"] == 1
    assert "groups=1 instead of 2" in caplog.text


# --- whole runs of hockey ---------------------------------------------------------------------------------------------

SMALL = {"hidden": [16], "rollout_length": 32, "epochs": 1, "threads": 1}
PHASES = [
    {"name": "shooting", "episodes": 10, "options": {"mode": "shooting"}, "opponents": "none",
     "shaping": {"reward_touch_puck": {"start": 5.0, "final": 1.0, "hold": 2, "fall": 4}}},
    {"name": "mixed", "episodes": 10, "opponents": ["weak", "strong"], "clear_replay": False,
     "mixture": [{"options": {"mode": "shooting"}, "weight": 2.0}, {"options": {"mode": "defense"}}]},
    {"name": "self", "episodes": 10, "opponents": ["self", {"who": "latest", "deterministic": True}],
     "learner": {"learning_rate": 1e-4}, "options": {"time_limit": 60}},
    {"name": "league", "episodes": 10, "opponents": "archive", "options": {"time_limit": 60}},
]  # fmt: skip


def hockey(learner, folder, num_envs=4, **keys):
    base = {
        "world": "hockey",
        "learner": learner,
        "num_envs": num_envs,
        "seed": 5,
        "runs_dir": str(folder),
        "monitor": QUIET,
        "phases": PHASES,
        "evaluation": {"episodes": 2, "every_episodes": 1000},
        "checkpoints": {"every_episodes": 4, "keep": 100},
        "league": {"every": 400},
        learner: SMALL,
    }
    return {**base, **keys}


def boundaries(run):
    """After how many episodes each phase began."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["episodes"] for line in lines if line.get("kind") == "note" and "phase" in line]


def curriculum(kind, folder, episodes):
    """configs/curriculum_base.json with short phases and small nets, as a file."""
    old = json.loads((CONFIGS / "curriculum_base.json").read_text())
    for phase in old["curriculum"]["phases"]:
        phase["episodes"] = episodes
        if phase["reward_shaping"]:
            phase["reward_shaping"] |= {"N": episodes // 4, "K": episodes // 2}
    old["hyperparameters"] = {"learning_rate": 1e-3, "batch_size": 16}
    old["training"] |= {"warmup_steps": 200, "checkpoint_save_freq": episodes // 2}
    old["training"].pop("checkpoint_frequency", None)
    old["agent"] = {"type": kind, "hyperparameters": {"hidden_dim": 16, "buffer_size": 5000}}
    path = Path(folder) / "curriculum.json"
    path.write_text(json.dumps(old))
    return path


def run_file(path, num_envs, **keys):
    """With few updates: what is learned does not matter here."""
    section = {"threads": 1, "updates_per_step": 0.1}
    return rookery.train(
        path, num_envs=num_envs, runs_dir=str(path.parent), seed=5, monitor=QUIET, dqn=section, sac=section,
        eval_num_games=2, league={"every": 2000}, checkpoints={"keep": 100}, **keys,
    )  # fmt: skip


KINDS = [pytest.param("DDDQN", marks=pytest.mark.slow), "SAC"]  # the first has a world of its own to be compiled


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [1, pytest.param(4, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("kind", KINDS)
def test_phases_have_the_same_boundaries_with_any_number_of_envs(tmp_path, kind, num_envs):
    """A curriculum file of four phases runs through, with a phase after each 4 episodes."""
    result = run_file(curriculum(kind, tmp_path, 4), num_envs)
    assert result.reason == "finished"
    assert result.episodes == 16
    assert boundaries(result.path) == [0, 4, 8, 12]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("num_envs", [1, 4, 8])
@pytest.mark.parametrize("kind", ["DDDQN", "SAC"])
def test_forty_episodes_a_phase(tmp_path, kind, num_envs):
    """The same at its full length, resumed from the beginning of each phase."""
    result = run_file(curriculum(kind, tmp_path, 40), num_envs)
    assert boundaries(result.path) == [0, 40, 80, 120]
    check_resumed(result, tmp_path, lambda saved: saved["course"]["phases"]["episodes"] == 0)


def check_resumed(whole, folder, wanted):
    """Runs resumed from those checkpoints of a whole one that are `wanted` come to the same end; returns the phases in
    which they were."""
    checkpoints = Checkpoints(whole.path / "checkpoints", 100)
    last, seen = checkpoints.load_latest()[1], set()
    for step in checkpoints.steps()[:-1]:
        copy = folder / f"from-{step}"
        shutil.copytree(whole.path, copy)
        for path in (copy / "checkpoints").iterdir():
            if path.is_dir() and not path.name.endswith(str(step)):
                shutil.rmtree(path)
        saved = Checkpoints(copy / "checkpoints", 100).load_latest()[1]
        if not wanted(saved):
            continue
        seen.add(saved["course"]["phases"]["index"])
        assert rookery.resume(copy).total_steps == whole.total_steps
        got = Checkpoints(copy / "checkpoints", 100).load_latest()[1]
        for part in ("agent", "learner", "course"):
            assert differences(last[part], got[part]) == [], f"from step {step}"
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_curriculum_resumed_at_any_phase_equals_uninterrupted(tmp_path, kind):
    """From checkpoints in the middle of phases and at their beginnings, to the same end."""
    whole = run_file(curriculum(kind, tmp_path, 4), 4)
    assert check_resumed(whole, tmp_path, after_the_first_phase) == {1, 2, 3}


def after_the_first_phase(saved):
    """The longest way to the end, and nothing that the others do not show."""
    return saved["course"]["phases"]["index"] > 0


@pytest.mark.slow  # in every push: the same on a device, and a curriculum of an off-policy learner
def test_self_play_of_ppo_resumed_anywhere_equals_uninterrupted(tmp_path):
    """The same for an on-policy learner, whose rollouts are completed at the end of a phase."""
    whole = rookery.train(hockey("ppo", tmp_path, name="whole", checkpoints={"every_episodes": 7, "keep": 100}))
    assert len(check_resumed(whole, tmp_path, after_the_first_phase)) >= 2


# --- other people's games ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_any_gymnasium_env_for_two_can_be_played_against_oneself(tmp_path, backend):
    """An env that tells the other's view by a method is wrapped, trained on in self-play, and resumed exactly."""
    world = f"{HERE / 'theirs.py'}:make"
    keys = {"world": world, "phases": [], "opponents": ["self", "archive"], "backend": backend, "steps": 2000,
            "checkpoints": {"every": 500}}  # fmt: skip
    result = rookery.train(hockey("ppo", tmp_path, **keys))
    assert result.reason == "finished" and result.episodes > 100
    assert (result.path / "league").is_dir()


def test_opponents_in_files_are_found_again_from_anywhere(tmp_path, monkeypatch):
    """A path that was relative to where the run was started is kept whole."""
    monkeypatch.chdir(HERE)
    keys = {"world": "theirs.py:make", "phases": [], "opponents": "players.py:Race", "steps": 512, "backend": "serial",
            "evaluation": {"episodes": 1, "opponents": ["players.py:Race"]}}  # fmt: skip
    result = rookery.train(hockey("ppo", tmp_path, **keys))
    monkeypatch.chdir(tmp_path)
    assert rookery.resume(result.path, steps=1024).total_steps == 1024


def test_an_env_without_a_second_view_is_refused_with_what_to_do(tmp_path):
    """Its spaces could be halved, but nobody knows what the second player sees."""
    world = f"{HERE / 'theirs.py'}:make_bare"
    with pytest.raises(rookery.errors.WorldError, match="BothViews"):
        rookery.train(hockey("ppo", tmp_path, world=world, phases=[], opponents="self", backend="serial", steps=500))
