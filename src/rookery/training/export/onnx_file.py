"""`rookery export --onnx`: a trained policy as one file that other programs can run, without rookery or torch."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.console import confirmed, printable
from rookery.errors import MissingExtra, OptionError, RunError
from rookery.files import replace_file
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY, Leaf
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.version import __version__

NEEDED = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-5  # of continuous actions and memories, as a share of the largest
NOISE = 10  # times what rounding does
BATCHES = (1, 64)  # sizes with which a model is checked
LARGE = 1e6  # bounds beyond this are not taken for the size of what is observed


def export_onnx(
    run: str | Path,
    runs_dir: str | Path = "runs",
    out: str | Path | None = None,
    best: bool = False,
    mask: bool | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the policy of a run to `out` (`policy.onnx` in the run's folder), with its normaliser inside.

    Inputs, with a batch axis of any size first, each of its space's own type:
        one for each array of an observation: "observation", or its path in a Dict or Tuple, such as "camera.0";
        "action_mask" (bool), if the run's world gave masks (`mask` overrides what the checkpoint says about that);
        "memory", if the policy is recurrent: zeros at the start of an episode, then what "next_memory" was.
    Outputs: "action", the likeliest one as the env wants it, and "next_memory" of a recurrent policy.

    The model's answers to random observations are compared with the agent's before it is left anywhere. Its metadata
    tell the run, world, step, learner and version of rookery. A file that is there already is only replaced with
    `overwrite`, or after a question on the terminal.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"an ONNX file needs {', '.join(missing)}: pip install 'rookery[onnx]'")
    trained = open_run(run, runs_dir, best, parts=("agent", "envs"))
    model = Exported(trained.agent, gives_masks(trained) if mask is None else mask)
    facts = {
        "run": trained.run.name,
        "world": title(trained.config.world),
        "step": str(trained.step),
        "learner": trained.config.learner,
        "rookery": __version__,
    }
    path = Path(out) if out is not None else trained.run.path / "policy.onnx"
    check_new(path, overwrite)
    contents = to_onnx(model, facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [contents])
    return path


def check_new(path: Path, overwrite: bool) -> None:
    """Ask before a file is written over; refuse where nobody can be asked."""
    if overwrite or not os.path.lexists(path):
        return
    answer = confirmed(f"{path} is there already. Write over it?")
    if answer is None:
        raise OptionError(f"{printable(path)} is there already; --force (overwrite=True in Python) writes over it")
    if not answer:
        raise OptionError(f"{printable(path)} is left as it is, as you did not say yes")


def title(world: str) -> str:
    """A world's name without the folders of this machine.

    >>> title("/home/me/my_env.py:MyEnv"), title("ALE/Pong-v5")
    ('my_env.py:MyEnv', 'ALE/Pong-v5')
    """
    return Path(world).name if ".py:" in world else world


def gives_masks(trained: TrainedRun) -> bool:
    """Whether there were masks when the checkpoint was written."""
    space, envs = trained.agent.observation_space, trained.saved["envs"]
    return (isinstance(space, spaces.Dict) and MASK_KEY in space.spaces) or (isinstance(envs, dict) and "masks" in envs)


class Exported(nn.Module):
    """A policy as a function of plain arrays: observations as the env gives them, then mask and memory."""

    def __init__(self, agent: Agent, masked: bool) -> None:
        super().__init__()
        self.policy, self.space, self.masked = agent.policy, agent.observation_space, masked
        self.choices = _choices(agent.action_space) if masked else []
        names = [leaf.name for leaf in self.policy.leaves]
        extras = ["action_mask"] * masked + ["memory"] * bool(self.policy.memory_size)
        self.inputs = names + [_free(name, names) for name in extras]
        results = ["action"] + ["next_memory"] * bool(self.policy.memory_size)
        self.outputs = [_free(name, self.inputs) for name in results]
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Actions, and what to remember."""
        rest = list(inputs)
        leaves = [rest.pop(0).to(leaf.dtype) for leaf in self.policy.leaves]
        mask = rest.pop(0) if self.masked else None
        memory = rest.pop(0) if self.policy.memory_size else None
        actions, memory = self.policy.act(leaves, mask, None, memory)
        return (actions,) if memory is None else (actions, memory)

    def example(self, rows: int, seed: int = 0) -> list[Tensor]:
        """Random inputs."""
        random = np.random.default_rng(seed)
        parts = [_sample(_part(self.space, leaf), rows, random) for leaf in self.policy.leaves]
        if self.masked:
            parts.append(np.concatenate([_allowed(rows, size, random) for size in self.choices], axis=1))
        if self.policy.memory_size:
            parts.append(random.uniform(-1, 1, (rows, self.policy.memory_size)).astype(np.float32))
        return [torch.from_numpy(part) for part in parts]


def _part(space: spaces.Space, leaf: Leaf) -> spaces.Space:
    for key in leaf.path:
        space = space[key]  # type: ignore[index]
    return space


def _sample(space: spaces.Space, rows: int, random: np.random.Generator) -> np.ndarray:
    """Observations at random, those without sensible bounds near 0."""
    if isinstance(space, spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        low, high = np.where(np.abs(low) < LARGE, low, -3.0), np.where(np.abs(high) < LARGE, high, 3.0)
        return random.uniform(low, np.maximum(low, high), (rows, *space.shape)).astype(space.dtype)
    space.seed(int(random.integers(2**31)))
    return np.stack([np.asarray(space.sample()) for _ in range(rows)])


def _allowed(rows: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Masks of one choice: about half of it, and always something."""
    certain = np.arange(size) == random.integers(size, size=(rows, 1))
    return certain | (random.random((rows, size)) < 0.5)


def _choices(space: spaces.Space) -> list[int]:
    """How many things a mask allows or forbids, for each choice."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec.ravel()]
    raise OptionError(f"action masks need Discrete or MultiDiscrete actions; these are {space}")


def _free(name: str, taken: list[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def to_onnx(model: Exported, facts: dict[str, str]) -> bytes:
    """The model as an ONNX file, checked."""
    import onnx

    try:
        proto = _converted(model)
    except Exception as error:
        raise RunError(f"the policy cannot be turned into an ONNX model: {error}") from error
    _clean(proto)
    onnx.helper.set_model_props(proto, facts)
    proto.producer_name, proto.producer_version = "rookery", __version__
    contents = proto.SerializeToString()
    check(model, contents)
    return contents


def _converted(model: Exported) -> Any:
    """The model as torch's exporter writes it."""
    examples = tuple(model.example(2))
    with torch.no_grad():
        model(*examples)  # a normaliser works its factors out when first used, which should not be part of the model
    shapes = (tuple({0: torch.export.Dim("batch")} for _ in examples),)
    with _quiet():
        # Strict: it reads the code, where tracing alone would take `len(batch)` for a constant.
        traced = torch.export.export(model, examples, dynamic_shapes=shapes, strict=True)
        program = torch.onnx.export(
            traced, dynamo=True, verbose=False, input_names=model.inputs, output_names=model.outputs
        )
    assert program is not None
    return program.model_proto


def _clean(proto: Any) -> None:
    """Without notes about where in which file each node came from, and with a name for the batch axis."""
    graph = proto.graph
    for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.value_info[:]  # shapes in between, which anyone can infer
    for part in (*graph.input, *graph.output):
        part.type.tensor_type.shape.dim[0].dim_param = "batch"


def check(model: Exported, contents: bytes) -> None:
    """Refuse a model that answers otherwise than the agent: at all, for choices; by more than 1e-5, for numbers, unless
    rounding the weights otherwise would already make as much of a difference."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
    other = nudged(model)
    for rows in BATCHES:
        inputs = tuple(model.example(rows, seed=rows))
        given = dict(zip(model.inputs, (part.numpy() for part in inputs), strict=True))
        theirs = session.run(model.outputs, given)
        with torch.no_grad():
            mine, nearly = model(*inputs), other(*inputs)
        for name, *answers in zip(model.outputs, mine, nearly, theirs, strict=True):
            if not agree(*map(np.asarray, answers)):
                raise RunError(f"the ONNX model is not written: its {name!r} differs from the agent's own")


def nudged(model: Exported) -> Exported:
    """The model with weights that differ in their last bit."""
    other, signs = copy.deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight *= 1.0 + 2**-23 * (2.0 * torch.randint(2, weight.shape, generator=signs) - 1.0)
    return other


def agree(mine: np.ndarray, nearly: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two answers are the same; `nearly` tells how much rounding would change mine."""
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    if mine.dtype.kind != "f":
        return bool(np.array_equal(mine, theirs))
    scale, noise = np.abs(mine).max(initial=1.0), np.abs(mine - nearly).max(initial=0.0)
    return bool(np.abs(mine - theirs).max(initial=0.0) <= max(TOLERANCE * scale, NOISE * noise))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporter has to say about itself and about packages that are not needed here."""
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
