"""`rookery export --standalone`: a trained agent as one Python file that needs NumPy alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rookery.errors import OptionError, RunError
from rookery.files import replace_file
from rookery.learners.agent import Agent
from rookery.standalone.description import describe
from rookery.standalone.subprocess_check import CALLS, answers
from rookery.standalone.writer import standalone_text
from rookery.training.evaluation.trained_run import open_run
from rookery.training.export.onnx_file import Exported, agree, check_new, gives_masks, nudged, title
from rookery.training.resolve.seats import Seat
from rookery.training.storage.load_agent import agent_from
from rookery.training.storage.shipped_agents import shipped_tree, shipped_world
from rookery.version import __version__
from rookery.worlds import registry

ROWS = 64  # observations with which a file is checked


def export_standalone(
    run: str | Path | None,
    runs_dir: str | Path = "runs",
    out: str | Path | None = None,
    best: bool = False,
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
    shipped = shipped_world(run, runs_dir)
    if shipped is not None:
        saved, about, is_masked = shipped_tree(shipped.name), {"world": shipped.name}, False
        path = Path(out or f"{shipped.name}_agent.py")
    else:
        assert run is not None  # or the default game's agent would be written
        trained = open_run(run, runs_dir, best, parts=("agent", "envs"))
        saved, is_masked = trained.saved["agent"], gives_masks(trained)
        about = {"run": trained.run.name, "world": title(trained.config.world), "step": trained.step}
        path = Path(out or trained.run.path / "agent.py")
    if path.suffix != ".py":
        raise OptionError(f"a standalone agent is a Python file: its name should end in .py, got {path.name!r}")
    check_new(path, overwrite)
    about |= {"learner": saved["learner"], "rookery": __version__}
    text = checked_text(saved, about, is_masked, path.stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [text.encode()])
    return path


def checked_text(saved: dict[str, Any], about: dict[str, Any], is_masked: bool, module: str = "agent") -> str:
    """The text of the file, once the agent in it was found to answer as the one that was `saved`."""
    agent = agent_from(saved)
    table = _table(about["world"], agent)
    text = standalone_text(*describe(saved, about, table), module)
    _check(agent, is_masked, text, table)
    return text


def _table(world: str, agent: Agent) -> np.ndarray | None:
    """The continuous action for each discrete one, if the agent plays a two-player game that has both."""
    spec = registry.get(world) or registry.by_source(world)
    if spec is None or spec.two_player is None or spec.two_player.action_table is None:
        return None
    _, continuous = spec.two_player.load_spaces()
    return Seat(agent.observation_space, continuous).in_numbers(agent.action_space)


def _check(agent: Agent, is_masked: bool, text: str, table: np.ndarray | None) -> None:
    """Refuse a file that answers otherwise than the agent, to a batch or to single observations."""
    model = Exported(agent, is_masked)
    inputs = model.example(ROWS)
    leaves = [part.numpy() for part in inputs[: len(model.policy.leaves)]]
    mask = inputs[len(leaves)] if model.masked else None
    theirs = answers(text, leaves, None if mask is None else mask.numpy())
    mine, nearly = (_actions(either, inputs) for either in (model, nudged(model)))
    if table is None:
        mine, nearly = (actions.astype(agent.action_space.dtype) for actions in (mine, nearly))
    else:
        mine, nearly = table[mine], table[nearly]
    for what, answer in zip(("a batch of observations", "single observations"), theirs, strict=True):
        if not agree(mine, nearly, answer):
            raise RunError(f"the standalone agent is not written: its actions for {what} differ from the agent's own")


@torch.no_grad()
def _actions(model: Exported, inputs: list[torch.Tensor]) -> np.ndarray:
    """What the agent does, call after call, [calls, rows, ...]."""
    calls, given, memory = [], inputs, []
    if model.policy.memory_size:
        given, memory = inputs[:-1], [torch.zeros_like(inputs[-1])]
    for _ in range(CALLS):
        actions, *memory = model(*given, *memory)
        calls.append(actions.numpy())
    return np.stack(calls)
