"""What a repository says of itself agrees: its version, its extras, what CI runs, what is run before a commit."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

import rookery
from docs.pages import PAGES, ROOT
from rookery.cli.main import build_parser

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_version_is_written_once(capsys):
    """The package has it. The command and pyproject read it there; the citation and the newest notes are of it."""
    assert PROJECT["project"]["dynamic"] == ["version"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "rookery.version.__version__"}
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--version"])
    assert capsys.readouterr().out == f"rookery {rookery.__version__}\n"
    newest, date = re.findall(r"^## (\d\S+) \((\S+)\)$", CHANGELOG, re.MULTILINE)[0]
    assert newest == CITATION["version"] == rookery.__version__
    assert date == str(CITATION["date-released"])


def test_urls_are_of_one_place():
    """A host that is filled in is filled in everywhere."""
    home = CITATION["repository-code"]
    assert all(url.startswith(home) for url in PROJECT["project"]["urls"].values())


def test_classifiers_are_what_ci_runs():
    """No Python more or less than in the matrix."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert pythons == jobs["linux"]["strategy"]["matrix"]["python"]
    assert f">={pythons[0]}" == PROJECT["project"]["requires-python"]


def test_every_extra_is_in_the_table():
    """Of the page on installation."""
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGES["docs/install.md"].split("## Extras")[1], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w[\w-]*)`", row)} == set(
        PROJECT["project"]["optional-dependencies"]
    )


def test_what_runs_before_a_commit_is_what_ci_checks():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert {"run": hook["entry"]} in jobs["check"]["steps"]


def test_every_page_is_in_the_list_of_pages():
    """At the end of the tour."""
    listed = set(re.findall(r"\]\(([\w/-]+\.md)\)", PAGES["docs/tour.md"].split("## All pages")[1]))
    pages = {name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")}
    assert {name for name in pages if "/" not in name} - {"tour.md"} <= listed
