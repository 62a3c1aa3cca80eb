"""The files in `deploy/`: their commands exist, their variables are explained, and systemd understands the units."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from rookery.cli.main import build_parser

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy"
UNITS = sorted((FOLDER / "systemd").glob("*.service"))
TIMERS = sorted((FOLDER / "systemd").glob("*.timer"))
PROGRAM = "/opt/rookery/.venv/bin/rookery"


def example() -> dict[str, str]:
    """The variables of the example of settings."""
    lines = (FOLDER / "services.env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def entries(path: Path) -> list[tuple[str, str]]:
    """The assignments of a unit, in order."""
    lines = [line for line in path.read_text().splitlines() if line and line[0] not in "#["]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def command(path: Path) -> list[str]:
    """The command of a unit, with the example's values."""
    (text,) = [value for key, value in entries(path) if key == "ExecStart"]
    words = shlex.split(re.sub(r"\$\{(\w+)\}", lambda found: example()[found[1]], text))
    assert words[0] == PROGRAM and "$" not in " ".join(words)
    return words[1:]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_run_commands_that_exist(unit: Path) -> None:
    """With settings that the example has; and they save what they have when they are stopped."""
    build_parser().parse_args(command(unit))
    settings = dict(entries(unit))
    assert (
        settings["KillSignal"] == "SIGTERM" and settings["User"] == "rookery" and settings["NoNewPrivileges"] == "yes"
    )
    assert ("EnvironmentFile", "/etc/rookery/services.env") in entries(unit)


def test_there_is_a_unit_for_each_part() -> None:
    verbs = {unit.stem.removeprefix("rookery-"): command(unit) for unit in UNITS}
    assert {name: words[0] for name, words in verbs.items()} == {
        "search": "search", "deploy": "deploy", "serve": "serve", "paper": "paper", "schedule": "schedule",
        "parity": "paper",
    }  # fmt: skip
    assert "--watch" in verbs["deploy"] and "--once" in verbs["schedule"] and "--check" in verbs["parity"]
    assert {timer.stem for timer in TIMERS} == {"rookery-schedule", "rookery-parity"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_them(tmp_path: Path) -> None:
    """With a program that is there."""
    for path in (*UNITS, *TIMERS):
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr
    for timer in TIMERS:
        (when,) = [value for key, value in entries(timer) if key == "OnCalendar"]
        subprocess.run(["systemd-analyze", "calendar", when], capture_output=True, check=True)


def test_the_example_has_no_secrets_and_nothing_that_is_not_used() -> None:
    used = {name for unit in UNITS for name in re.findall(r"\$\{(\w+)\}", unit.read_text())}
    assert used == example().keys()
    assert not [name for name in example() if re.search("TOKEN|SECRET|KEY|PASSWORD|WEBHOOK", name)]


def test_records_are_not_rotated() -> None:
    """Audit logs and accounts are read from their beginning."""
    patterns = re.findall(r"(/\S+\*\S*)", (FOLDER / "logrotate" / "rookery").read_text())
    assert patterns
    for record in ("agents/crypto/audit.jsonl", "agents/crypto/paper/log.jsonl", "studies/a/runs/b/metrics.jsonl"):
        assert not any(fnmatch.fnmatch(f"/var/lib/rookery/{record}", pattern) for pattern in patterns)
    assert any(fnmatch.fnmatch("/var/lib/rookery/studies/a/workers/0.log", pattern) for pattern in patterns)


def test_the_container_copies_what_is_there_and_installs_extras_that_exist() -> None:
    text = (FOLDER / "Containerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert copied and all((ROOT / name).exists() for name in copied)
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= known.keys()
    for line in re.findall(r"^#\s+podman run .* rookery (.*)$", text, re.MULTILINE):
        build_parser().parse_args(shlex.split(line))
    assert 'ENTRYPOINT ["rookery"]' in text and re.search(r"^USER rookery$", text, re.MULTILINE)
