"""`rookery export --card`: what a run's agent is, in Markdown with the front matter that Hugging Face reads. Everything
on it is from the run's own files; what they do not say is not on it."""

from __future__ import annotations

import html
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from rookery.config import RunConfig, build_config
from rookery.console import printable
from rookery.errors import OptionError
from rookery.files import replace_file
from rookery.learners.registry import specs
from rookery.monitor import jsonl
from rookery.training.export.policy_module import confirm_overwrite, world_title
from rookery.training.resolve.resolved_run import evaluation_seed
from rookery.training.storage.run_dir import RunDir
from rookery.version import __version__

PACKAGES = ("gymnasium", "numpy", "torch")


def export_card(run: RunDir, out: str | Path | None = None, overwrite: bool = False) -> Path:
    """Write the card of a run's agent to a Markdown file (`README.md` in the run's folder). Returns its path."""
    path = Path(out or run.outputs / "README.md")
    if path.suffix != ".md":
        raise OptionError(f"an agent card is a Markdown file: its name should end in .md, got {path.name!r}")
    confirm_overwrite(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [card_text(run).encode()])
    return path


def card_text(run: RunDir) -> str:
    """The card."""
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
        value = f"{evaluations[-1]['eval/return']:.2f} +/- {evaluations[-1].get('eval/return_std', 0.0):.2f}"
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
    last, best = evaluations[-1], max(evaluations, key=lambda line: line["eval/return"])
    how = "deterministic" if config.evaluation.deterministic else "sampled"
    rows = ["| checkpoint | step | episodes | return, mean ± std |", "|---|---|---|---|"]
    for name, line in (("last", last), ("best", best)):
        spread, step, count = line.get("eval/return_std", 0.0), line.get("step", 0), line.get("eval/episodes", "")
        rows.append(f"| {name} | {step:,} | {count} | {line['eval/return']:.2f} ± {spread:.2f} |")
    return "\n".join(rows) + (
        f"\n\nComplete episodes with {how} actions, in envs of their own; their seeds follow from the evaluation seed "
        f"{evaluation_seed(config)}. The standard deviation is that of the episodes' returns. The best of "
        f"{len(evaluations)} evaluations is chosen by the same numbers that it reports."
    )


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
        config.learner: getattr(config, config.learner).model_dump(mode="json"),
    }
    return f"```json\n{json.dumps(chosen, indent=2, default=str)}\n```"


def _versions() -> str:
    found = {"rookery": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return "\n".join(f"- {name} {number}" for name, number in found.items()) + "\n\nThese wrote the card."


def _plain(text: str) -> str:
    """A text from a run: never HTML, on one line."""
    return html.escape(printable(text))


def _code(text: str) -> str:
    return f"`{printable(text).replace('`', chr(39))}`"
