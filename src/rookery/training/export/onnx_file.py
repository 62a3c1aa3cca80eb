"""`rookery export --onnx`: a trained policy as one file that other programs can run, without rookery or torch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rookery.engine.wrapping import size_of
from rookery.errors import MissingExtra, RunError
from rookery.learners.agent import Agent
from rookery.standalone.writer import CALLS, answers, describe, standalone_text
from rookery.training.evaluation.trained_run import AgentOrRun, TrainedRun, open_agent
from rookery.training.export.agent_card import (
    PolicyModule,
    checked_path,
    confirm_overwrite,
    has_action_masks,
    outputs_match,
    perturbed,
    world_title,
    written,
)
from rookery.training.resolve.seats import Seat
from rookery.training.storage.load_agent import agent_from
from rookery.training.storage.shipped_agents import shipped_tree, shipped_world
from rookery.version import __version__
from rookery.worlds import registry

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
BATCH_SIZES = (1, 64)  # with which a model is checked


def export_onnx(
    run: AgentOrRun,
    runs_dir: str | Path = "runs",
    out: str | Path | None = None,
    best: bool = True,
    mask: bool | None = None,
    overwrite: bool = False,
    trust: bool = False,
) -> Path:
    """Write the policy of a run to `out` (`policy.onnx` in the run's folder), including its normalisation.

    Inputs, each with a batch axis of any size first and the dtype of its space:
        one per array of an observation: "observation", or its path in a Dict or Tuple, such as "camera.0";
        "action_mask" (bool), if the run's envs give action masks (`mask` overrides what the checkpoint says);
        "memory", if the policy is recurrent: zeros at the start of an episode, then the last "next_memory".
    Outputs: "action", the deterministic one as `env.step` takes it (for Dict and Tuple actions one per part, such as
        "action.force"), and "next_memory" of a recurrent policy.

    The model's outputs for random observations are compared with the agent's before the file is written. Its metadata
    hold run, world, step, learner, version of rookery, and the size to which images are shrunk before the model sees
    them. An existing file is only replaced with `overwrite`, or after a question on the terminal. `trust` imports the
    code of a network of somebody's own without a question.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"an ONNX file needs {', '.join(missing)}: pip install 'rookery[onnx]'")
    trained = open_agent(run, runs_dir, best, trust)
    model = PolicyModule(trained.agent, has_action_masks(trained) if mask is None else mask)
    metadata = {
        "run": trained.run.name,
        "world": world_title(trained.config.world),
        "step": str(trained.step),
        "learner": trained.config.learner,
        "rookery": __version__,
    }
    if isinstance(trained.config.image_size, (int, list)):
        metadata["image_size"] = "x".join(map(str, size_of(trained.config.image_size)))
    path = Path(out) if out is not None else trained.run.outputs / "policy.onnx"
    confirm_overwrite(path, overwrite)
    return written(path, to_onnx(model, metadata))


def to_onnx(model: PolicyModule, metadata: dict[str, str]) -> bytes:
    """The model as an ONNX file, checked."""
    import onnx

    try:
        proto = _converted(model)
    except Exception as error:
        raise RunError(f"the policy cannot be turned into an ONNX model: {error}") from error
    _strip(proto)
    onnx.helper.set_model_props(proto, metadata)
    proto.producer_name, proto.producer_version = "rookery", __version__
    contents = proto.SerializeToString()
    check_onnx(model, contents)
    return contents


def _converted(model: PolicyModule) -> Any:
    """The model as torch's exporter writes it."""
    examples = tuple(model.example_inputs(2))
    with torch.no_grad():
        model(*examples)  # a normaliser computes its factors when first used, which should not become part of the model
    shapes = (tuple({0: torch.export.Dim("batch")} for _ in examples),)
    with _quiet():
        # Strict mode reads the code; tracing alone would make `len(batch)` a constant.
        traced = torch.export.export(model, examples, dynamic_shapes=shapes, strict=True)
        program = torch.onnx.export(
            traced, dynamo=True, verbose=False, input_names=model.inputs, output_names=model.outputs
        )
    assert program is not None
    return program.model_proto


def _strip(proto: Any) -> None:
    """Remove notes about the source file of each node, and name the batch axis."""
    graph = proto.graph
    for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.value_info[:]  # intermediate shapes, which any runtime infers
    for part in (*graph.input, *graph.output):
        part.type.tensor_type.shape.dim[0].dim_param = "batch"


def check_onnx(model: PolicyModule, contents: bytes) -> None:
    """Raise if the model's outputs differ from the policy's (see `outputs_match`)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
    other = perturbed(model)
    for rows in BATCH_SIZES:
        inputs = tuple(model.example_inputs(rows, seed=rows))
        given = dict(zip(model.inputs, (part.numpy() for part in inputs), strict=True))
        actual = session.run(model.outputs, given)
        with torch.no_grad():
            expected, rounded = model(*inputs), other(*inputs)
        for name, *outputs in zip(model.outputs, expected, rounded, actual, strict=True):
            if not outputs_match(*map(np.asarray, outputs)):
                raise RunError(f"the ONNX model is not written: its {name!r} differs from the agent's own")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines and warnings of torch's exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


ROWS = 64  # observations per batch with which a file is checked


def export_standalone(
    run: AgentOrRun | None,
    runs_dir: str | Path = "runs",
    out: str | Path | None = None,
    best: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write the agent of a run to the Python file `out` (`agent.py` in the run's folder). Instead of a run it can be
    the name of an agent that is installed with a world (`NAME_agent.py`), or None for the default game's.

    The file's class `Agent` is made without arguments; its `act(observation)` takes one observation or a batch of them,
    and gives actions as the run's world takes them; an agent of a two-player game gives continuous actions even if it
    has discrete ones. The file is run on its own before it is written to its place, and its actions are compared with
    the agent's. An existing file is only replaced with `overwrite`, or after a question on the terminal.
    """
    about: dict[str, Any]
    shipped = shipped_world(run, runs_dir) if run is None or isinstance(run, (str, Path)) else None
    if shipped is not None:
        saved, has_mask = shipped_tree(shipped.name), False
        about = {"world": shipped.name, "learner": saved["learner"], "rookery": __version__}
        usual = Path(f"{shipped.name}_agent.py")
    else:
        assert run is not None  # or the default game's agent would be written
        trained = open_agent(run, runs_dir, best, trust=False)
        (saved, about), has_mask = agent_facts(trained), has_action_masks(trained)
        usual = trained.run.outputs / "agent.py"
    path = checked_path(out or usual, "a standalone agent is a Python file", ".py", overwrite)
    return written(path, checked_text(saved, about, has_mask, path.stem).encode())


def agent_facts(trained: TrainedRun) -> tuple[dict[str, Any], dict[str, Any]]:
    """The saved agent of a run, and what a reader may want to know of it."""
    saved = trained.saved["agent"]
    about = {"run": trained.run.name, "world": world_title(trained.config.world), "step": trained.step}
    return saved, {**about, "learner": saved["learner"], "rookery": __version__}


def checked_text(saved: dict[str, Any], about: dict[str, Any], has_mask: bool, module: str = "agent") -> str:
    """The text of the file, after its actions have been compared with those of the agent that was `saved`."""
    agent = agent_from(saved)
    table = _action_table(about["world"], agent)
    text = standalone_text(*describe(saved, about, table), module)
    _check(agent, has_mask, text, table)
    return text


def _action_table(world: str, agent: Agent) -> np.ndarray | None:
    """The continuous action for each discrete one, if the agent plays a two-player game that has both."""
    spec = registry.get(world) or registry.by_source(world)
    if spec is None or spec.two_player is None or spec.two_player.action_table is None:
        return None
    _, continuous = spec.two_player.load_spaces()
    return Seat(agent.observation_space, continuous).in_numbers(agent.action_space)


def _check(agent: Agent, has_mask: bool, text: str, table: np.ndarray | None) -> None:
    """Raise if the file's actions differ from the agent's, for a batch or for single observations."""
    model = PolicyModule(agent, has_mask)
    inputs = model.example_inputs(ROWS)
    leaves = [part.numpy() for part in inputs[: len(model.policy.leaves)]]
    mask = inputs[len(leaves)] if model.has_mask else None
    actual = answers(text, leaves, None if mask is None else mask.numpy())
    expected, rounded = (_actions(each, inputs) for each in (model, perturbed(model)))
    if table is None:
        expected, rounded = (actions.astype(agent.action_space.dtype) for actions in (expected, rounded))
    else:
        expected, rounded = table[expected], table[rounded]
    for what, actions in zip(("a batch of observations", "single observations"), actual, strict=True):
        if not outputs_match(expected, rounded, actions):
            raise RunError(f"the standalone agent is not written: its actions for {what} differ from the agent's own")


@torch.no_grad()
def _actions(model: PolicyModule, inputs: list[torch.Tensor]) -> np.ndarray:
    """The actions of several calls in sequence, [calls, rows, ...]."""
    calls, given, memory = [], inputs, []
    if model.policy.memory_size:
        given, memory = inputs[:-1], [torch.zeros_like(inputs[-1])]
    for _ in range(CALLS):
        actions, *memory = model(*given, *memory)
        calls.append(actions.numpy())
    return np.stack(calls)
