"""Names of runs and worlds, which may be anybody's, are shown without moving a cursor or beginning a line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rookery.cli.main import main
from rookery.console import printable, say
from rookery.errors import RunError
from rookery.gate import allow_given
from rookery.monitor.events import Event
from rookery.monitor.live_panel import LivePanel
from rookery.monitor.log_lines import LogLines
from rookery.training.resolve.world_choice import find
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import print_table, table

NASTY = "a\x1b[2J\nrookery: all is well\u202e[/red]"


def is_clean(text: str) -> bool:
    return not any(character in text for character in ("\x1b[2J", "\nrookery: all", "\u202e"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("plain", "plain"), ("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e"), ("ü 日本", "ü 日本")],
)
def test_what_cannot_be_printed_is_written_as_its_code(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_a_table_of_runs_shows_names_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Neither codes of a terminal nor rich's own marks have an effect."""
    run = RunDir(tmp_path / NASTY.replace("/", "|"))
    run.path.mkdir()
    run.write_config({"world": NASTY, "learner": NASTY})
    (run.path / "metrics.jsonl").write_text(json.dumps({"kind": "start", "step": 0, "world": NASTY}) + "\n")
    print_table(table(tmp_path))
    assert is_clean(shown := capsys.readouterr().out)
    assert "[/red]" in shown and "\\x1b[2J\\nrookery" in shown


def test_messages_name_runs_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Of the library, of the command, and those that are said on the way."""
    run = RunDir(tmp_path / NASTY.replace("/", "|"))
    run.path.mkdir()
    run.config.write_text("[]")
    with pytest.raises(RunError) as caught:
        run.read_config()
    assert is_clean(str(caught.value))
    assert main(["eval", str(run.path)]) == 2
    say(f"{NASTY}")
    captured = capsys.readouterr()
    assert "\x1b[2J" not in captured.err and "\u202e" not in captured.err


def test_a_world_in_a_file_of_any_name(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[2J\nb.py"
    file.write_text("from gymnasium.envs.classic_control import CartPoleEnv as Env")
    allow_given(f"{file}:Env")
    assert find(f"{file}:Env").name == "a\\x1b[2J\\nb-Env"


def test_lines_and_panel_show_no_codes() -> None:
    """Whatever an event names."""
    start = Event("start", 0, {"run": NASTY, "world": NASTY, "path": NASTY, "learner": "ppo"})
    events = [start, Event("note", 1, {"text": NASTY}), Event("end", 2, {"run": NASTY, "path": NASTY, "reason": NASTY})]
    stream = io.StringIO()
    lines = LogLines(10, stream)
    panel = LivePanel(10, console=Console(file=io.StringIO(), width=100, height=30))
    for event in events[:2]:
        lines.write(event)
        panel.write(event)
    shown = stream.getvalue()
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "\nrookery" not in shown.partition("note:")[0]
    assert is_clean(panel.state.facts["run"])
    panel.close()
