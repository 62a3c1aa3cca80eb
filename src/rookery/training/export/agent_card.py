"""`rookery export --card`: what a run's agent is, in Markdown with the front matter that Hugging Face reads. Everything
on it is from the run's own files; what they do not say is not on it."""

from __future__ import annotations

import copy
import html
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from gymnasium import spaces
from torch import Tensor, nn

from rookery.config import RunConfig, build_config
from rookery.console import confirmed, printable
from rookery.errors import OptionError
from rookery.files import replace_file
from rookery.learners.action_spaces import action_tree
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY, Leaf, choices_in
from rookery.learners.registry import specs
from rookery.monitor import jsonl
from rookery.training.evaluation.trained_run import TrainedRun
from rookery.training.resolve.resolved_run import evaluation_seed
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_history import package_versions
from rookery.version import __version__

PACKAGES = ("rookery", "gymnasium", "numpy", "torch")


def export_card(run: RunDir, out: str | Path | None = None, overwrite: bool = False) -> Path:
    """Write the card of a run's agent to a Markdown file (`README.md` in the run's folder). Returns its path."""
    path = checked_path(out or run.outputs / "README.md", "an agent card is a Markdown file", ".md", overwrite)
    return written(path, card_text(run).encode())


def card_text(run: RunDir) -> str:
    config = build_config(run.read_config())
    events = jsonl.read(run.evaluations) if run.evaluations.is_file() else []
    lines = [{"step": event.step, **event.values} for event in events]
    evaluations = [line for line in lines if isinstance(line.get("eval/return"), (int, float))]
    parts = [
        f"---\n{yaml.safe_dump(_front_matter(run, config, evaluations), sort_keys=False)}---",
        f"# {_plain(specs()[config.learner].title)} in {_plain(world_title(config.world))}",
        _what(run, config),
        "## Evaluation\n\n" + _evaluation(config, evaluations),
        "## Use\n\n" + _use(run, config),
        "## Settings\n\n" + _settings(config),
        "## Versions\n\n" + _versions(),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(run: RunDir, config: RunConfig, evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    """As Hugging Face's model cards have it."""
    world = world_title(config.world)
    matter: dict[str, Any] = {
        "library_name": "rookery",
        "tags": [world, config.learner, "reinforcement-learning", "rookery"],
    }
    if evaluations:
        best = _best(evaluations)  # the agent that `rookery.load` returns
        value = f"{best['eval/return']:.2f} +/- {best.get('eval/return_std', 0.0):.2f}"
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": world, "type": world},
            "metrics": [{"type": "mean_reward", "value": value, "name": "mean_reward", "verified": False}],
        }
        matter["model-index"] = [{"name": run.name, "results": [result]}]
    return matter


def _what(run: RunDir, config: RunConfig) -> str:
    summary = run.read_summary() or {}
    steps = f", for {summary['steps']:,} steps" if isinstance(summary.get("steps"), int) else ""
    return (
        f"An agent for the environment {_code(world_title(config.world))}, trained with rookery {__version__} by "
        f"{specs()[config.learner].title}{steps}, with seed {config.seed}. The run is called {_code(run.name)}."
    )


def _evaluation(config: RunConfig, evaluations: list[dict[str, Any]]) -> str:
    if not evaluations:
        return "The run was not evaluated."
    last, best = evaluations[-1], _best(evaluations)
    how = "deterministic" if config.evaluation.deterministic else "sampled"
    rows = ["| checkpoint | step | episodes | return, mean ± std |", "|---|---|---|---|"]
    for name, line in (("last", last), ("best", best)):
        spread, step, count = line.get("eval/return_std", 0.0), line.get("step", 0), line.get("eval/episodes", "")
        rows.append(f"| {name} | {step:,} | {count} | {line['eval/return']:.2f} ± {spread:.2f} |")
    return "\n".join(rows) + (
        f"\n\nComplete episodes with {how} actions, in envs of their own; their seeds follow from the evaluation seed "
        f"{evaluation_seed(config)}. The standard deviation is that of the episodes' returns. The best of "
        f"{len(evaluations)} evaluations is chosen by the same numbers that it reports: another one replaces it if it "
        "is better by more than noise."
    )


def _best(evaluations: list[dict[str, Any]]) -> dict[str, Any]:
    """The evaluation that chose the best checkpoint; in a run of an earlier version, the one with the highest mean."""
    chosen = [line for line in evaluations if line.get("eval/best")]
    return chosen[-1] if chosen else max(evaluations, key=lambda line: line["eval/return"])


def _use(run: RunDir, config: RunConfig) -> str:
    return f"""\
Put the run's folder, {_code(run.name)}, into a folder `runs`. Then

```python
import rookery

agent = rookery.load({printable(run.name)!r})
actions = agent.act(observations, deterministic={config.evaluation.deterministic})
```

or, to see how it does, `rookery eval {printable(run.name)} --episodes 100`."""


def _settings(config: RunConfig) -> str:
    """All that was set or chosen: the learner's options and the envs'."""
    chosen = {
        "world": world_title(config.world),
        "world_options": config.world_options,
        "num_envs": config.num_envs,
        "steps": config.steps,
        "seed": config.seed,
        config.learner: config.learner_options.model_dump(mode="json"),
    }
    return f"```json\n{json.dumps(chosen, indent=2, default=str)}\n```"


def _versions() -> str:
    found = {name: number for name, number in package_versions().items() if name in PACKAGES}
    return "\n".join(f"- {name} {number}" for name, number in found.items()) + "\n\nThese wrote the card."


def _plain(text: str) -> str:
    """A text from a run: never HTML, on one line."""
    return html.escape(printable(text))


def _code(text: str) -> str:
    return f"`{printable(text).replace('`', chr(39))}`"


TOLERANCE = 1e-5  # for continuous actions and memory, relative to the largest
ROUNDING_FACTOR = 10  # times the effect of rounding the weights differently
MAX_BOUND = 1e6  # larger bounds of a Box say nothing about usual values


class PolicyModule(nn.Module):
    """A policy as a function of arrays: the arrays of an observation, then action mask and memory, if any."""

    def __init__(self, agent: Agent, has_mask: bool) -> None:
        super().__init__()
        self.policy, self.space, self.has_mask = agent.policy, agent.observation_space, has_mask
        self.mask_sizes = _mask_sizes(agent.action_space) if has_mask else []
        names = [leaf.name for leaf in self.policy.leaves]
        extras = ["action_mask"] * has_mask + ["memory"] * bool(self.policy.memory_size)
        self.inputs = names + [_unused(name, names) for name in extras]
        self.action_parts = [] if (tree := action_tree(agent.action_space)) is None else tree.parts
        actions = [f"action.{part.name}" for part in self.action_parts] or ["action"]
        results = actions + ["next_memory"] * bool(self.policy.memory_size)
        self.outputs = [_unused(name, self.inputs) for name in results]
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Actions, and the next memory if the policy is recurrent."""
        rest = list(inputs)
        leaves = [rest.pop(0).to(leaf.dtype) for leaf in self.policy.leaves]
        mask = rest.pop(0) if self.has_mask else None
        memory = rest.pop(0) if self.policy.memory_size else None
        actions, memory = self.policy.act(leaves, mask, None, memory)
        parts = tuple(part.of(actions) for part in self.action_parts) or (actions,)
        return parts if memory is None else (*parts, memory)

    def example_inputs(self, rows: int, seed: int = 0) -> list[Tensor]:
        """Random inputs, a batch of `rows`."""
        random = np.random.default_rng(seed)
        parts = [_sample(_subspace(self.space, leaf), rows, random) for leaf in self.policy.leaves]
        if self.has_mask:
            parts.append(np.concatenate([_random_masks(rows, size, random) for size in self.mask_sizes], axis=1))
        if self.policy.memory_size:
            parts.append(random.uniform(-1, 1, (rows, self.policy.memory_size)).astype(np.float32))
        return [torch.from_numpy(part) for part in parts]


def _subspace(space: spaces.Space, leaf: Leaf) -> spaces.Space:
    for key in leaf.path:
        space = space[key]  # type: ignore[index]
    return space


def _sample(space: spaces.Space, rows: int, random: np.random.Generator) -> np.ndarray:
    """Random observations; near 0 if the space has no useful bounds."""
    if isinstance(space, spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        low, high = np.where(np.abs(low) < MAX_BOUND, low, -3.0), np.where(np.abs(high) < MAX_BOUND, high, 3.0)
        return random.uniform(low, np.maximum(low, high), (rows, *space.shape)).astype(space.dtype)
    space.seed(int(random.integers(2**31)))
    return np.stack([np.asarray(space.sample()) for _ in range(rows)])


def _random_masks(rows: int, size: int, random: np.random.Generator) -> np.ndarray:
    """Masks for one discrete action: about half of its values are allowed, and at least one."""
    certain = np.arange(size) == random.integers(size, size=(rows, 1))
    return certain | (random.random((rows, size)) < 0.5)


def _mask_sizes(space: spaces.Space) -> list[int]:
    """The number of values of each discrete action, which a mask allows or forbids."""
    tree = action_tree(space)
    if tree is not None and choices_in(space):
        return [size for part in tree.parts if part.choices for size in _mask_sizes(part.space)]
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec.ravel()]
    raise OptionError(f"action masks need Discrete or MultiDiscrete actions; these are {space}")


def _unused(name: str, taken: list[str]) -> str:
    return name if name not in taken else _unused(f"{name}_", taken)


def has_action_masks(trained: TrainedRun) -> bool:
    """Whether the run's envs gave action masks when the checkpoint was written."""
    space, envs = trained.agent.observation_space, trained.saved.get("envs")
    return (isinstance(space, spaces.Dict) and MASK_KEY in space.spaces) or (isinstance(envs, dict) and "masks" in envs)


def perturbed(model: PolicyModule) -> PolicyModule:
    """A copy whose weights differ in their last bit, to measure the effect of rounding."""
    other, signs = copy.deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1.0 + 2**-23 * (2.0 * torch.randint(2, weight.shape, generator=signs) - 1.0))
    return other


def outputs_match(expected: np.ndarray, perturbed: np.ndarray, actual: np.ndarray) -> bool:
    """Whether the outputs of a file are those of the policy: equal for discrete ones, otherwise within `TOLERANCE`, or
    within what rounding does (`perturbed` are the outputs of the perturbed policy)."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return False
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, actual))
    scale, rounding = np.abs(expected).max(initial=1.0), np.abs(expected - perturbed).max(initial=0.0)
    return bool(np.abs(expected - actual).max(initial=0.0) <= max(TOLERANCE * scale, ROUNDING_FACTOR * rounding))


def checked_path(out: str | Path, what: str, suffix: str, overwrite: bool) -> Path:
    """Where an export is written: `what` says why its name ends so. The user is asked before a file is overwritten."""
    path = Path(out)
    if path.suffix != suffix:
        raise OptionError(f"{what}: its name should end in {suffix}, got {path.name!r}")
    confirm_overwrite(path, overwrite)
    return path


def written(path: Path, contents: bytes) -> Path:
    """The path, to which the contents were written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [contents])
    return path


def confirm_overwrite(path: Path, overwrite: bool) -> None:
    """Ask the user before a file is overwritten; raise if there is no terminal to ask on."""
    if overwrite or not os.path.lexists(path):
        return
    answer = confirmed(f"{path} exists already. Overwrite it?")
    if answer is None:
        raise OptionError(f"{printable(path)} exists already; --force (overwrite=True in Python) overwrites it")
    if not answer:
        raise OptionError(f"{printable(path)} is not overwritten, as you did not answer yes")


def world_title(world: str) -> str:
    """A world's name without the folders of this machine.

    >>> world_title("/home/me/my_env.py:MyEnv"), world_title("ALE/Pong-v5")
    ('my_env.py:MyEnv', 'ALE/Pong-v5')
    """
    return Path(world).name if ".py:" in world else world
