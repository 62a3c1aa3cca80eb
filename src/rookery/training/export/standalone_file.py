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
from rookery.training.export.policy_module import (
    PolicyModule,
    confirm_overwrite,
    has_action_masks,
    outputs_match,
    perturbed,
    world_title,
)
from rookery.training.resolve.seats import Seat
from rookery.training.storage.load_agent import agent_from
from rookery.training.storage.shipped_agents import shipped_tree, shipped_world
from rookery.version import __version__
from rookery.worlds import registry

ROWS = 64  # observations per batch with which a file is checked


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
        saved, about, has_mask = shipped_tree(shipped.name), {"world": shipped.name}, False
        path = Path(out or f"{shipped.name}_agent.py")
    else:
        assert run is not None  # or the default game's agent would be written
        trained = open_run(run, runs_dir, best, parts=("agent", "envs"))
        saved, has_mask = trained.saved["agent"], has_action_masks(trained)
        about = {"run": trained.run.name, "world": world_title(trained.config.world), "step": trained.step}
        path = Path(out or trained.run.outputs / "agent.py")
    if path.suffix != ".py":
        raise OptionError(f"a standalone agent is a Python file: its name should end in .py, got {path.name!r}")
    confirm_overwrite(path, overwrite)
    about |= {"learner": saved["learner"], "rookery": __version__}
    text = checked_text(saved, about, has_mask, path.stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [text.encode()])
    return path


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
