"""The pages on training, docs/learners.md and docs/configuration.md say what is true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs import configuration_page
from docs.pages import PAGES, ROOT, blocks, section
from rookery.config import check, collect_config, read_config
from rookery.learners.registry import option_classes
from rookery.training.resolve.recipes import all_recipes


def shortened(code):
    """The same for a few steps only, most of them before the first update if that is an option."""
    return re.sub(r'"start_steps": \d+', '"start_steps": 500', re.sub(r"\bsteps=[\d_]+", "steps=512", code))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A reader's folder, with the files of both pages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for block in (*blocks("docs/training.md", "python"), *blocks("docs/own-code.md", "python")):
        if name := re.match(r"# (\w+\.py)\n", block):
            Path(name[1]).write_text(block)
    return tmp_path


def test_the_tutorial_in_python(folder):
    """Train, resume, load and play, then a world of one's own."""
    first, second, _, own = blocks("docs/training.md", "python")
    scope = {}
    exec(shortened(first), scope)
    assert scope["actions"].shape == (1,) and scope["result"].num_envs == 8
    exec(shortened(second).replace("steps=512", "steps=2_048"), scope)
    assert scope["result"].total_steps == 2_048 and scope["total"] >= 8
    exec(shortened(own), scope)
    assert scope["result"].run_name.startswith("my_env-Corridor-ppo") and scope["result"].episodes > 0


@pytest.mark.slow
def test_your_own_code_in_python(folder):
    """Callbacks, networks, notebooks, envs that are built, and tensors."""
    _, called, _, trained, layers, notebook, built, tensors = blocks("docs/own-code.md", "python")
    scope = {}
    exec(shortened(called).replace("num_envs=4", 'num_envs=4, backend="serial"'), scope)
    assert "evaluations" in (scope["result"].path / "metrics.jsonl").read_text()
    exec(shortened(trained), scope)
    assert "encoder.net.layers.0.weight" in scope["result"].agent.policy.state_dict()
    exec(shortened(layers), scope)
    assert scope["result"].agent.policy.options.critic_hidden == [128]
    exec(shortened(notebook).replace("num_envs=4", 'num_envs=4, backend="serial"'), scope)
    assert scope["again"].path == scope["result"].path and scope["again"].total_steps == 512
    exec(shortened(built), scope)
    assert scope["result"].num_envs == 64
    exec(shortened(tensors), scope)
    assert scope["result"].total_steps >= 512


@pytest.mark.few(1)
@pytest.mark.parametrize("code", blocks("docs/learners.md", "python"))
def test_learners_in_python(code, tmp_path, monkeypatch):
    """Each example runs."""
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(shortened(code), scope)
    if "learner" in scope:
        assert scope["learner"].updates > 100
    else:
        assert scope["result"].total_steps >= 512


def test_the_run_folder_is_as_shown(tmp_path, monkeypatch):
    """What the page says a run leaves is there."""
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(shortened(blocks("docs/training.md", "python")[0]), scope)
    (shown,) = re.findall(r"    runs/\S+\n((?:      .*\n)+)", PAGES["docs/runs.md"])
    names = re.findall(r"^      ([\w./]+)", shown, re.MULTILINE)
    on_request = {"videos/", "report/"}  # the second of worlds that have reports
    assert len(names) > 6
    assert not [name for name in names if name not in on_request and not (scope["result"].path / name).exists()]


def test_configs_are_valid():
    """Those in `configs/`, and the one on the page."""
    import tomllib

    for path in (ROOT / "configs").iterdir():
        collect_config(read_config(path))
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGES["docs/runs.md"], re.DOTALL)
    check(tomllib.loads(shown))


def test_every_key_is_listed():
    """`python tests/docs/configuration_page.py > docs/configuration.md` brings the page up to date."""
    assert (ROOT / "docs/configuration.md").read_text() == configuration_page.page()


def test_recipes_are_listed():
    """The table of recipes is the code's."""
    table = re.search(r"<!-- recipes: begin -->\n(.*?)<!-- recipes: end -->", PAGES["docs/learners.md"], re.DOTALL)
    assert table.group(1) == recipes()


def recipes():
    """The table, to be pasted."""
    rows = ["| world | learner | envs | steps | options |\n|---|---|---|---|---|\n"]
    for world, learners in all_recipes().items():
        for learner, recipe in learners.items():
            sections = {key: value for key, value in recipe.items() if isinstance(value, dict)}
            others = {key for key in recipe if key not in ("num_envs", "steps", *sections)}
            options = [f"`{key}={json.dumps(recipe[key])}`" for key in sorted(others)]
            options += [f"`{s}.{k}={json.dumps(v)}`" for s, keys in sections.items() for k, v in keys.items()]
            envs, steps = (f"{recipe[key]:,}" if key in recipe else "" for key in ("num_envs", "steps"))
            rows.append(f"| {world} | {learner} | {envs} | {steps} | {', '.join(options)} |\n")
    return "".join(rows)


def test_what_a_phase_can_change_is_listed():
    """The options that a learner can change, in docs/curriculum.md."""
    table = section("docs/curriculum.md", "## What a phase can change")
    listed = {learner: set() for learner in ("all", *option_classes())}
    for learners, options in re.findall(r"^\| ([\w, ]+) \| (`.*) \|$", table, re.MULTILINE):
        for learner in learners.lower().split(", "):
            listed[learner] |= set(re.findall(r"`(\w+)`", options))
    for learner, options in option_classes().items():
        assert listed[learner] | listed["all"] == options.adjustable, learner
