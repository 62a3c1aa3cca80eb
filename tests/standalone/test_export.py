"""Trained agents of every kind as single files, run as their users run them: by Python and NumPy alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.errors import OptionError, RunError
from rookery.learners import heads, normalize
from rookery.learners.algorithms import sac
from rookery.learners.saved_agent import saved_agent
from rookery.standalone import from_agent, runtime, writer
from rookery.standalone.writer import describe
from rookery.training.export import onnx_file as exporting
from rookery.training.export.onnx_file import export_standalone
from rookery.training.storage.load_agent import load_agent
from rookery.worlds.hockey.rules import discrete_action
from training.finished import STEP, make_run

VECTOR = spaces.Box(-3, 3, (5,), np.float32)
EVERYTHING = spaces.Dict(
    action_mask=spaces.MultiBinary(5),
    gear=spaces.Discrete(3, start=-1),
    parts=spaces.Tuple([spaces.Box(-1, 1, (2, 2), np.float64), spaces.MultiBinary(2)]),
)
ARM = spaces.Box(np.array([-0.1, 0.2], np.float64), np.array([0.1, 0.4], np.float64), dtype=np.float64)
KINDS = {  # learner, spaces, options
    "a choice": ("ppo", VECTOR, spaces.Discrete(4, start=5), {}),
    "a choice with masks in infos": ("ppo", VECTOR, spaces.Discrete(4), {"masks": np.ones((1, 4), bool)}),
    "a choice without a hidden layer": ("ppo", VECTOR, spaces.Discrete(4), {"hidden": []}),
    "choices, masks, a dict and a memory": ("ppo", EVERYTHING, spaces.MultiDiscrete([2, 3]), {"recurrent": 8}),
    "choices in a square": ("ppo", VECTOR, spaces.MultiDiscrete([[2, 3], [4, 5]]), {"activation": "elu"}),
    "switches": ("ppo", spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3), {"activation": "gelu"}),
    "numbers": ("ppo", VECTOR, ARM, {"activation": "silu", "log_std": -1.0}),
    "numbers without bounds": ("ppo", VECTOR, spaces.Box(-np.inf, np.inf, (2, 2)), {"activation": "relu"}),
    "numbers with a memory": ("ppo", VECTOR, ARM, {"recurrent": 8}),
    "numbers of assets": ("ppo", VECTOR, ARM, {"share_weights": True, "asset_columns": [1, 1, 1]}),
    "squashed numbers": ("sac", VECTOR, ARM, {"hidden": [32]}),
    "squashed numbers with norms": ("xqc", VECTOR, ARM, {"hidden": [32, 16], "critic_hidden": [8]}),
    "worths": ("dqn", VECTOR, spaces.Discrete(3, start=1), {"hidden": [16, 15]}),
    "layer-normalised worths": ("pqn", VECTOR, spaces.MultiDiscrete([3, 2]), {"hidden": [16, 15]}),
    "worths in one": ("dqn", spaces.Discrete(7), spaces.Discrete(3), {"dueling": False, "activation": "tanh"}),
}
ROWS = 9
FORBID = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "rookery", "gymnasium", "numba", "safetensors"}:
            raise ImportError(name + " is not here")

sys.meta_path.insert(0, Nothing())
"""


ASK = """
import json
import numpy as np

def tree(part, of):
    if isinstance(part, dict):
        parts = {key: tree(value, of) for key, value in part.items()}
        return tuple(parts.values()) if "0" in parts else parts  # JSON has no tuples
    return of(part)

def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value

given = json.loads('GIVEN')
batch = tree(given, np.array)
rows = [tree(given, lambda part: part[k]) for k in range(ROWS)]
mine = agent.Agent()
answers = {"batch": [plain(mine.act(batch)) for _ in range(3)]}
calls = []
for row in rows:
    mine.reset()
    calls.append([plain(mine(row)) for _ in range(3)])
answers["singles"] = [[of_row[call] for of_row in calls] for call in range(3)]
mine.reset()
answers["steps"] = [mine.get_step(row) for row in rows]
assert all(type(number) is float for step in answers["steps"] for number in step)
mine.seed(5)
answers["drawn"] = [plain(mine.act(row, deterministic=False)) for row in rows * 6]
print(json.dumps(answers))
"""


def sample(space: spaces.Space, rows: int):
    """Observations as a vector env gives them."""
    space.seed(3)
    samples = [space.sample() for _ in range(rows)]
    return gym.vector.utils.concatenate(space, samples, gym.vector.utils.create_empty_array(space, rows))


def plain(observations):
    """As JSON can have them."""
    if isinstance(observations, (dict, tuple)):
        pairs = observations.items() if isinstance(observations, dict) else enumerate(observations)
        return {str(name): plain(part) for name, part in pairs}
    return observations.tolist()


def alone(folder: Path, code: str) -> str:
    """What `code` prints where there are only Python and NumPy, besides the file `agent.py`."""
    ended = subprocess.run(
        [sys.executable, "-I", "-c", f"{FORBID}\nsys.path.insert(0, {str(folder)!r})\nimport agent\n{code}"],
        capture_output=True, text=True, timeout=60, cwd=folder,
    )  # fmt: skip
    assert not ended.returncode, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.push("squashed numbers with norms")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_answers_as_the_agent_does(tmp_path, kind):
    """To a batch and to single observations, call after call; drawn actions are in the space."""
    learner, seen, done, options = KINDS[kind]
    run = make_run(
        tmp_path, learner=learner, observation_space=seen, action_space=done, normalise_observations=True, **options
    )
    path = export_standalone("finished", tmp_path)
    assert path == run.path / "agent.py"
    observations, agent = sample(seen, ROWS), load_agent(run)
    wanted = [agent.act(observations, deterministic=True) for _ in range(3)]

    code = ASK.replace("GIVEN", json.dumps(plain(observations))).replace("ROWS", str(ROWS))
    answers = json.loads(alone(run.path, code))
    for name in ("batch", "singles"):
        np.testing.assert_allclose(answers[name], np.stack(wanted), rtol=0, atol=1e-5)
    for action in answers["drawn"]:
        assert np.asarray(action, done.dtype) in done
    assert answers["drawn"] != answers["batch"][0]
    assert np.shape(answers["steps"]) == (ROWS, int(np.prod(done.shape, dtype=int)))


@pytest.mark.slow
def test_importing_runs_nothing_and_running_tells_what_it_is(tmp_path):
    run = make_run(tmp_path, hidden=[8])
    path = export_standalone("finished", tmp_path, tmp_path / "new" / "agent.py")
    assert alone(path.parent, "print(sorted({'json', 'pickle', 'torch'} & set(vars(agent))))") == "['json']\n"
    said = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=True).stdout
    facts = f"run finished, world CartPole-v1, step {STEP}, learner ppo, rookery {rookery.__version__}"
    assert said == f"<agent: {facts}; act(observation) gives its action>\n"
    text = path.read_text()
    assert text.startswith('"""A trained agent in one file.') and "finished" in text[:300]
    assert "pickle" not in text and str(tmp_path) not in text and "import rookery" not in text
    assert max(map(len, text.splitlines())) < 400, "it should be readable"
    assert not list(run.path.glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("fineness", [2, 3])
def test_choices_in_hockey_become_the_original_s_numbers(tmp_path, fineness):
    run = make_run(tmp_path, "hockey", "dqn", world_options={"action_fineness": fineness})
    export_standalone("finished", tmp_path)
    views = np.random.default_rng(1).normal(size=(ROWS, 18)).astype(np.float32)
    chosen = load_agent(run).act(views, deterministic=True)
    code = (
        f"print(agent.Agent().act({views.tolist()}).tolist(), agent.Agent().get_step({views[0].tolist()}), sep=chr(10))"
    )
    batch, single = map(json.loads, alone(run.path, code).splitlines())
    assert batch == [list(discrete_action(int(index), fineness)) for index in chosen]
    assert single == batch[0]


@pytest.mark.slow
def test_numbers_in_hockey_stay_what_they_are(tmp_path):
    run = make_run(tmp_path, "hockey", "sac")
    export_standalone("finished", tmp_path)
    views = np.random.default_rng(1).normal(size=(ROWS, 18)).astype(np.float32)
    batch = json.loads(alone(run.path, f"print(agent.Agent().act({views.tolist()}).tolist())"))
    np.testing.assert_allclose(batch, load_agent(run).act(views, deterministic=True), atol=1e-5)


def test_the_agent_that_comes_with_rookery(tmp_path):
    path = export_standalone(None, out=tmp_path / "agent.py")
    assert path.stat().st_size < 2_000_000
    numbers = json.loads(alone(tmp_path, "print(agent.Agent().get_step([0.1] * 18))"))
    assert len(numbers) == 4 and all(-1 <= number <= 1 for number in numbers)


def test_an_agent_in_memory_is_the_same(tmp_path):
    for learner, options in (("ppo", {"activation": "gelu"}), ("sac", {}), ("dqn", {"activation": "silu"})):
        agent = load_agent(make_run(tmp_path, learner=learner, normalise_observations=True, **options))
        observations = np.random.default_rng(1).normal(size=(ROWS, agent.observation_space.shape[0]))
        wanted = agent.act(observations, deterministic=True)
        np.testing.assert_allclose(from_agent(agent).act(observations), wanted, atol=1e-5)


def test_a_file_that_differs_is_not_left_anywhere(tmp_path, monkeypatch):
    run = make_run(tmp_path, learner="sac", hidden=[8])
    real = writer.standalone_text
    monkeypatch.setattr(exporting, "standalone_text", lambda *x: real(*x).replace("np.maximum(values, 0)", "values"))
    with pytest.raises(RunError, match="actions for a batch of observations differ from the agent's own"):
        export_standalone("finished", tmp_path)
    monkeypatch.setattr(exporting, "standalone_text", lambda *x: real(*x) + "\nimport rookery\n")
    with pytest.raises(RunError, match=r"on its own it fails: it imports .*rookery"):
        export_standalone("finished", tmp_path)
    assert not list(run.path.glob("*agent*"))


def test_images_are_refused_with_what_to_do(tmp_path):
    make_run(tmp_path, observation_space=spaces.Box(0, 255, (36, 36, 1), np.uint8), action_space=spaces.Discrete(2))
    with pytest.raises(OptionError, match=r"sees images .*: --onnx writes one"):
        export_standalone("finished", tmp_path)


def test_another_kind_of_file_is_refused(tmp_path):
    make_run(tmp_path)
    with pytest.raises(OptionError, match=r"should end in .py, got 'agent.onnx'"):
        export_standalone("finished", tmp_path, tmp_path / "agent.onnx")


def test_a_wrong_observation_is_told_of(tmp_path):
    agent = from_agent(load_agent(make_run(tmp_path)))
    with pytest.raises(ValueError, match=r"observation should be of shape \(4,\), or a batch of such, got \(5,\)"):
        agent.act(np.zeros(5))
    with pytest.raises(ValueError, match=r"got \(1, 2, 4\)"):
        agent.act(np.zeros((1, 2, 4)))


def test_names_cannot_become_code(tmp_path):
    """A folder may be called anything; what stands in the file is text."""
    description, arrays = parts_of_an_agent(tmp_path)
    evil = '"""\nraise SystemExit(7)\n"""\\'
    text = writer.standalone_text({**description, "about": {"run": evil, "world": evil}}, arrays, evil)
    space = {}
    exec(compile(text, "agent.py", "exec"), space)
    assert space["Agent"]().about == {"run": evil, "world": evil}


def test_damaged_weights_are_told_of(tmp_path):
    description, arrays = parts_of_an_agent(tmp_path)
    text = writer.standalone_text(description, arrays)
    lines = text.splitlines(keepends=True)
    start = lines.index('WEIGHTS = """\n')
    space = {}
    exec("".join(lines[: start + 1] + lines[start + 2 :]), space)
    with pytest.raises(ValueError):
        space["Agent"]()


def parts_of_an_agent(base: Path):
    return describe(saved_agent(load_agent(make_run(base, hidden=[64]))), {"run": "finished"})


def test_constants_are_those_of_the_learners():
    mine = runtime.CLIP, runtime.FORBIDDEN, runtime.LOG_STD
    assert mine == (normalize.CLIP, np.float32(heads.FORBIDDEN), sac.LOG_STD)
