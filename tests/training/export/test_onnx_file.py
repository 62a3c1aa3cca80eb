"""Policies of every kind as ONNX files."""

from __future__ import annotations

import logging

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
from gymnasium import spaces

import rookery
from rookery.errors import MissingExtra, OptionError, RunError
from rookery.training.export import onnx_file
from rookery.training.export.onnx_file import export_onnx
from rookery.training.storage.load_agent import load_agent
from training.finished import STEP, make_run

VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
EVERYTHING = spaces.Dict(
    action_mask=spaces.MultiBinary(5),
    camera=spaces.Box(0, 255, (36, 36, 1), np.uint8),
    gear=spaces.Discrete(3, start=-1),
    parts=spaces.Tuple([spaces.Box(-1, 1, (2, 2), np.float64), spaces.MultiBinary(2)]),
)
ARM = spaces.Box(np.array([-1.0, 10.0], np.float32), np.array([3.0, 12.0], np.float32))
FLOATS = {"observation": "tensor(float)"}
KINDS = {  # learner, spaces, options, inputs of the model
    "a choice with masks in infos": (
        "ppo", VECTOR, spaces.Discrete(4, start=5), {"masks": np.ones((1, 4), bool)},
        FLOATS | {"action_mask": "tensor(bool)"},
    ),
    "everything at once": (
        "ppo", EVERYTHING, spaces.MultiDiscrete([2, 3]), {"recurrent": 8},
        {
            "camera": "tensor(uint8)", "gear": "tensor(int64)", "parts.0": "tensor(double)", "parts.1": "tensor(int8)",
            "action_mask": "tensor(bool)", "memory": "tensor(float)",
        },
    ),
    "switches": ("ppo", spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3), {}, {"observation": "tensor(int64)"}),
    "endless": ("ppo", spaces.Box(-1e38, 1e38, (2,), np.float64), ARM, {}, {"observation": "tensor(double)"}),
    "assets": ("ppo", VECTOR, ARM, {"share_weights": True, "asset_columns": [1, 1]}, FLOATS),
    "sac": ("sac", VECTOR, ARM, {}, FLOATS),
    "xqc": ("xqc", VECTOR, ARM, {"critic_hidden": [8]}, FLOATS),
    "dqn": ("dqn", VECTOR, spaces.Discrete(3, start=1), {}, FLOATS),
    "pqn": ("pqn", VECTOR, spaces.MultiDiscrete([3, 2]), {}, FLOATS),
}  # fmt: skip


def sample(space: spaces.Space, rows: int):
    """Observations as a vector env gives them."""
    space.seed(3)
    samples = [space.sample() for _ in range(rows)]
    empty = gym.vector.utils.create_empty_array(space, rows)
    return gym.vector.utils.concatenate(space, samples, empty)


def flat(observations, name: str) -> np.ndarray:
    for key in name.split(".") if isinstance(observations, dict) else ():
        observations = observations[int(key) if key.isdigit() else key]
    return observations


def session_of(path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def inputs_for(session: onnxruntime.InferenceSession, observations, rows: int) -> dict[str, np.ndarray]:
    """What a caller gives the model at the start of an episode, every other action being forbidden."""
    given = {}
    for wanted in session.get_inputs():
        if wanted.name == "action_mask":
            given["action_mask"] = np.tile(np.arange(wanted.shape[1]) % 2 == 1, (rows, 1))
        elif wanted.name == "memory":
            given["memory"] = np.zeros((rows, wanted.shape[1]), np.float32)
        else:
            given[wanted.name] = flat(observations, wanted.name)
    return given


MASKED = "a choice with masks in infos"  # the next one has masks too


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param(MASKED, marks=pytest.mark.slow), *list(KINDS)[1:]])
def test_a_model_answers_raw_observations_as_the_agent_does(tmp_path, kind, capfd):
    learner, seen, done, options, inputs = KINDS[kind]
    run = make_run(
        tmp_path, learner=learner, observation_space=seen, action_space=done, normalise_observations=True, **options
    )
    path = export_onnx("finished", tmp_path)
    assert path == run.path / "policy.onnx"
    assert capfd.readouterr() == ("", ""), "the exporter should be quiet"
    check_facts(path, learner)

    session = session_of(path)
    assert {part.name: part.type for part in session.get_inputs()} == inputs
    assert all(part.shape[0] == "batch" for part in session.get_inputs())
    modest = spaces.Box(-3, 3, seen.shape, seen.dtype) if isinstance(seen, spaces.Box) else seen
    observations = sample(modest, rows=7)
    given = inputs_for(session, observations, rows=7)
    mine = load_agent(run).act(observations, deterministic=True, mask=given.get("action_mask"))
    theirs = session.run(["action"], given)[0]
    assert theirs.dtype == mine.dtype
    np.testing.assert_allclose(theirs, mine, rtol=0, atol=1e-4 if mine.dtype.kind == "f" else 0)
    assert all(action in done for action in theirs)


@pytest.mark.slow
def test_parts_of_actions_are_outputs_of_their_own(tmp_path):
    """Dict and Tuple actions: one output for each part, with its dtype; masks are one flat input."""
    done = spaces.Dict(arm=ARM, more=spaces.Tuple((spaces.Discrete(3), spaces.MultiDiscrete([2, 2], start=[1, 2]))))
    run = make_run(tmp_path, observation_space=VECTOR, action_space=done, masks=np.ones((1, 7), bool))
    session = session_of(export_onnx("finished", tmp_path))
    observations = sample(spaces.Box(-3, 3, (3,), np.float32), rows=7)
    given = inputs_for(session, observations, rows=7)
    mine = load_agent(run).act(observations, deterministic=True, mask=given["action_mask"])
    theirs = session.run(["action.arm", "action.more.0", "action.more.1"], given)
    np.testing.assert_allclose(theirs[0], mine["arm"], rtol=0, atol=1e-4)
    for actual, expected in zip(theirs[1:], mine["more"], strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


def check_facts(path, learner: str) -> None:
    """The file tells where it came from, and nothing about the machine."""
    facts = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    world = "Pendulum-v1" if learner in ("sac", "xqc") else "CartPole-v1"
    wanted = {"run": "finished", "world": world, "step": str(STEP), "learner": learner, "rookery": rookery.__version__}
    assert facts == wanted
    assert b".py" not in path.read_bytes()


def test_a_model_that_differs_is_not_left_anywhere(tmp_path, monkeypatch):
    run = make_run(tmp_path, hidden=[8])
    proto = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        wrong (float[batch, 4] observation) => (int64[batch] action) <int64[1] axes = {1}> {
            largest = ReduceMax <keepdims = 0> (observation, axes)
            action = Cast <to = 7> (largest)
        }"""
    )
    monkeypatch.setattr(onnx_file, "to_onnx", lambda model, _: onnx_file.check_onnx(model, proto.SerializeToString()))
    with pytest.raises(RunError, match="'action' differs from the agent's own"):
        export_onnx("finished", tmp_path)
    assert not (run.path / "policy.onnx").exists()


def test_masks_for_continuous_actions_are_refused(tmp_path):
    make_run(tmp_path, learner="sac", observation_space=VECTOR, action_space=ARM)
    with pytest.raises(OptionError, match="masks need Discrete or MultiDiscrete"):
        export_onnx("finished", tmp_path, mask=True)


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "find_spec", lambda name: None if name == "onnxscript" else object())
    with pytest.raises(MissingExtra, match=r"needs onnxscript: pip install 'rookery\[onnx\]'"):
        export_onnx("finished", tmp_path)


def test_loggers_are_left_as_they_were(tmp_path):
    before = logging.getLogger("torch.onnx").level
    with onnx_file._quiet():
        assert logging.getLogger("torch.onnx").level == logging.ERROR
    assert logging.getLogger("torch.onnx").level == before
