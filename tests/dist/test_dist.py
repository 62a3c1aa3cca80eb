"""What is built and how it is tried, as far as that takes no time: `make test-dist` builds and tries it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dist.check_wheel import NOT_RUN, SHORTER, as_run, commands
from rookery.cli.main import build_parser

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMANDS = commands()


@pytest.mark.parametrize("command", [short for line in COMMANDS if (short := as_run(line))])
def test_shorter_commands_are_understood(command, tmp_path, monkeypatch):
    """What is run in place of a command of the pages is a command too."""
    monkeypatch.chdir(tmp_path)
    assert shlex.split(command)[0] == "rookery"
    build_parser().parse_args(shlex.split(command)[1:])


def test_every_exception_is_needed():
    """A command that left the pages leaves this list too."""
    for name in (*SHORTER, *NOT_RUN):
        assert any(command.startswith(name) for command in COMMANDS), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_exist(path):
    """And files that exist."""
    lines = [
        step["run"]
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    makefile = (ROOT / "Makefile").read_text()
    for line in lines:
        if line.startswith("make "):
            assert all(re.search(rf"^{target}\b.*:", makefile, re.MULTILINE) for target in line.split()[1:]), line
        assert all((ROOT / path).exists() for path in re.findall(r"tests/[\w./]+", line)), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_fit_their_schema(path):
    """GitHub's, as check-jsonschema has it; `make test-docs` checks the same."""
    program = shutil.which("check-jsonschema") or shutil.which(
        "check-jsonschema", path=f"{Path(sys.executable).parent}:{ROOT / '.venv-docs' / 'bin'}"
    )
    if program is None:
        pytest.skip("check-jsonschema is not installed: the extra `dist` has it")
    schema = [program, "--builtin-schema", "vendor.github-workflows", path]
    done = subprocess.run(schema, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_pure_wheel_has_no_compiled_part():
    """What setup.py asks for by the environment."""
    code = (
        "import runpy, setuptools; setuptools.setup = lambda **given: print(len(given['ext_modules']));"
        "runpy.run_path('setup.py')"
    )
    for variables, parts in (({}, "1"), ({"ROOKERY_PURE": "1"}, "0")):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True)
        assert done.stdout.strip() == parts, done.stderr
