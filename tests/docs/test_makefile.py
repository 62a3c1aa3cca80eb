"""`make test` runs all its parts, and fails if one of them does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
ROOT = Path(__file__).parents[2]
CHOICES = ("ROOKERY_PLAIN", "ROOKERY_PORTABLE")
PROGRAMS = ("ruff", "mypy", "lint-imports", "python", "biome")
STAND_IN = r"""#!/bin/sh
echo "ROOKERY_PLAIN=$ROOKERY_PLAIN ROOKERY_PORTABLE=$ROOKERY_PORTABLE $(basename $0) $*" >> {log}
cache=$(echo "$*" | sed -n 's/.*cache_dir=\([^ ]*\).*/\1/p')
case "$*" in {failing}) mkdir -p "$cache/v/cache"; cp {failed} "$cache/v/cache/lastfailed"; exit 1;; esac
"""


def run(folder, target, failing="nothing", failed=0, **more):
    """What a target calls, with programs that do nothing in place of the real ones, how it ends, and what it prints: as
    if so many tests had failed."""
    log, programs, caches = folder / "log", folder / "bin", folder / "caches"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(STAND_IN.format(log=log, failing=failing, failed=folder / "failed"))
        (programs / name).chmod(0o755)
    for made in (".made", ".ready"):
        (folder / made).touch()
    (folder / "failed").write_text("".join(f'"test.py::test_{k}": true\n' for k in range(failed)))
    old = caches / "test-together/v/cache/lastfailed"
    old.parent.mkdir(parents=True, exist_ok=True)
    old.write_text("".join(f'"test.py::test_of_long_ago_{k}": true\n' for k in range(9)))
    given = {"VENV": folder, "CACHES": caches, "TIMES": folder / "times"}
    given |= {"NPM": "true", "BIOME": programs / "biome"} | more
    variables = [f"{name}={value}" for name, value in given.items()]
    quiet = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", *CHOICES)}
    done = subprocess.run(
        ["make", target, *variables], cwd=ROOT, capture_output=True, text=True, check=False, env=quiet
    )
    return done.returncode, [line for line in log.read_text().splitlines() if "-m pytest" in line], done.stdout


@pytest.mark.parametrize("failing", ["*not?alone*", "*-m?alone*", "*test_loops*", "*test_contract*-k*kernel?and*"])
def test_every_part_runs_whatever_fails(tmp_path, failing):
    """And the whole has failed."""
    status, parts, _ = run(tmp_path, "test", failing, failed=6)
    assert status != 0 and len(parts) == 4


@pytest.mark.parametrize("part", ["together", "alone", "plain", "portable-main"])
@pytest.mark.parametrize(("failed", "repeated"), [(3, 1), (4, 0)])
def test_a_few_that_fail_run_again_alone(tmp_path, part, failed, repeated):
    """Of that part only, in the same form; what fails again has failed."""
    status, parts, _ = run(tmp_path, "test", f"*/test-{part}*", failed)
    assert status != 0 and sum("--last-failed" in part for part in parts) == repeated
    assert len({tuple(words.split()[:2]) for words in parts if f"/test-{part}" in words}) == 1
    assert not any("-n " in part for part in parts if "--last-failed" in part)


def test_what_passes_alone_is_no_failure(tmp_path):
    """The first part fails, and what it repeats does not; both are told at the very end, and kept."""
    status, _, printed = run(tmp_path, "test", "*--dist?worksteal?-m?not?alone?and?not?slow?and?not?web", 2)
    assert status == 0 and printed.splitlines()[-2:] == ['"test.py::test_0"', '"test.py::test_1"']
    assert (tmp_path / "caches/test-together/flaky").read_text().splitlines() == printed.splitlines()[-2:]


def test_nothing_is_told_where_nothing_failed(tmp_path):
    """Whatever an earlier run has left."""
    flaky = tmp_path / "caches/test-alone/flaky"
    flaky.parent.mkdir(parents=True)
    flaky.write_text('"test.py::test_of_long_ago"\n')
    status, _, printed = run(tmp_path, "test")
    assert status == 0 and "test.py" not in printed and not flaky.exists()


def test_times_are_reported_whatever_fails(tmp_path):
    """Of all parts, as a file too."""
    status, parts, printed = run(tmp_path, "test-times", "*-m?alone*")
    assert status == 0 and len(parts) == 4 and printed.endswith(f"in {tmp_path / 'times'}/report.txt\n")


def test_the_last_parts_are_without_compiled_loops_and_over_portable_workers(tmp_path):
    """Only those; and slow tests are left out of all."""
    status, parts, _ = run(tmp_path, "test")
    assert status == 0
    forms = [tuple(part.split()[:2]) for part in parts]
    assert forms[:2] == [("ROOKERY_PLAIN=", "ROOKERY_PORTABLE=")] * 2
    assert {*forms[2:]} == {("ROOKERY_PLAIN=1", "ROOKERY_PORTABLE="), ("ROOKERY_PLAIN=", "ROOKERY_PORTABLE=1")}
    assert all("and not slow" in part for part in parts)


def test_slow_ones_are_in_test_all(tmp_path):
    """In each part."""
    status, parts, _ = run(tmp_path, "test-all")
    assert status == 0 and len(parts) == 5 and not any("not slow" in part for part in parts)


def test_portable_workers_are_in_test_all(tmp_path):
    """With the suites of the engine."""
    _, parts, _ = run(tmp_path, "test-all")
    together, alone = [part for part in parts if "ROOKERY_PORTABLE=1" in part]
    assert "tests/conformance" in together and "tests/faults/test_12_main_killed.py" in together
    assert "-m not alone" in together and "-m alone" in alone


def test_checks_that_fail_are_a_failure_of_the_whole(tmp_path):
    """They run beside the first tests, which run in any case."""
    status, parts, _ = run(tmp_path, "test", "check?src*")
    assert status != 0 and len(parts) == 4


@pytest.mark.parametrize(
    ("more", "linted"),
    [({}, True), ({"NPM": "no-such-program"}, False), ({"NPM": "false", "BIOME": "no-such-program"}, False)],
)
def test_scripts_are_linted_where_npm_is(tmp_path, more, linted):
    """A machine without npm, or where npm finds no network, passes all other checks and says what was not checked."""
    status, _, printed = run(tmp_path, "check", **more)
    assert status == 0 and ("JavaScript not linted" in printed) != linted
    assert ("biome lint" in (tmp_path / "log").read_text()) == linted


def test_scripts_with_mistakes_fail(tmp_path):
    assert run(tmp_path, "check", "lint?--error*")[0] != 0
