"""Exploring by hand: the controls, a real terminal, a window, and the command line."""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import numpy as np
import pytest

from rookery.apps import gameboy_verbs
from rookery.apps.memory_explorer import explorer_files, explorer_terminal, window
from rookery.apps.memory_explorer.controls import FAST, TAP, ExplorerControls
from rookery.apps.memory_explorer.explorer_commands import Commands, Quit
from rookery.apps.memory_explorer.explorer_files import Store
from rookery.apps.memory_explorer.explorer_terminal import half_blocks
from rookery.cli.parser import add_command
from rookery.errors import OptionError

X = 0xC0A0


@pytest.fixture
def controls(tmp_path):
    with explorer_files.open_session(explorer_files.choose()) as session:
        yield ExplorerControls(Commands(session, Store(tmp_path / "states")))


def type_line(controls, line):
    for key in [":", *("space" if letter == " " else letter for letter in line), "enter"]:
        controls.press(key)


# --- controls -----------------------------------------------------------------------------------------------------


def test_buttons_are_held_as_long_as_their_keys_are_down(controls):
    controls.session.begin(0)
    before = controls.session.peek(X)[0]
    controls.press("right")
    for _ in range(20):
        controls.advance()
    controls.release("right")
    for _ in range(20):
        controls.advance()
    assert controls.session.peek(X)[0] - before == 20


def test_a_tapped_key_is_held_for_a_moment_and_one_with_shift_until_the_next(controls):
    before = controls.session.peek(X)[0]
    controls.tap("right")
    for _ in range(30):
        controls.advance()
    assert controls.session.peek(X)[0] - before == TAP
    controls.hold("left")
    for _ in range(30):
        controls.advance()
    assert controls.session.peek(X)[0] - before == TAP - 30
    controls.tap("down")
    for _ in range(30):
        controls.advance()
    assert controls.session.peek(X)[0] - before == TAP - 30


def test_pausing_single_frames_and_fast_forward(controls):
    controls.press("p")
    controls.advance()
    assert controls.session.frame == 0 and "paused" in controls.panel(30)[0].text
    controls.press(".")
    controls.advance()
    controls.advance()
    assert controls.session.frame == 1
    controls.press("p")
    controls.press("f")
    controls.advance()
    assert controls.session.frame == 1 + FAST and "fast" in controls.panel(30)[0].text


def test_the_line_for_commands(controls):
    type_line(controls, "watch C0A5 hears")
    assert controls.message == "hears is C0A5, now 3"
    type_line(controls, "wtach")
    assert "did you mean watch?" in controls.message
    for key in (":", "up", "up", "backspace", "t", "s", "enter"):  # the line before, put right
        controls.press(key)
    assert controls.session.findings[0].name == "hearts"
    frame = controls.session.frame
    controls.press(":")
    controls.advance()
    assert controls.session.frame == frame, "the game waits"
    controls.press("escape")
    assert controls.prompt is None


def test_keys_for_searching(controls):
    controls.press("m")
    controls.tap("right")
    for _ in range(12):
        controls.advance()
    controls.press("+")
    left = controls.session.search.count
    assert controls.message == f"{left:,} of 8,319 bytes left" and not controls.page
    assert any("->" in line.text for line in controls.panel(30))
    controls.press("u")
    assert controls.session.search.count > left


def test_a_long_answer_is_a_page_until_the_next_key(controls):
    controls.press("?")
    assert any("FILTER" in line for line in controls.page)
    controls.press("q")
    assert not controls.page
    with pytest.raises(Quit):
        controls.press("q")


def test_what_was_found_comes_first(controls):
    type_line(controls, "watch C0AE frames")
    texts = [line.text for line in controls.panel(20)]
    assert texts[3].startswith("  frames")
    assert any(re.fullmatch(r"  and \d+ more: `values`", text) for text in texts)
    assert len(texts) <= 20


# --- terminals ----------------------------------------------------------------------------------------------------


def test_half_blocks_show_two_dots_each():
    picture = np.zeros((144, 160, 3), np.uint8)
    picture[0] = 255
    rows = half_blocks(picture, 1)
    assert len(rows) == 72
    assert rows[0] == f"\x1b[38;5;255;48;5;232m{'▀' * 160}\x1b[0m"
    assert rows[1] == f"\x1b[38;5;232;48;5;232m{'▀' * 160}\x1b[0m"


@pytest.mark.few(5)
@pytest.mark.parametrize("size", [(200, 80), (124, 40), (80, 24), (40, 12), (3, 2)])
@pytest.mark.parametrize("doing", ["playing", "typing", "reading"])
def test_everything_fits_on_terminals_of_any_size(controls, size, doing):
    controls.press({"playing": "m", "typing": ":", "reading": "?"}[doing])
    rows = explorer_terminal.rows(controls, *size)
    assert len(rows) <= max(size[1], explorer_terminal.BELOW)
    if size[0] >= 40:
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", row)) for row in rows) <= size[0]


@contextmanager
def in_terminal(code: str, *arguments: str):
    """A process on a terminal of its own; gives it, the terminal's two ends, and what was there before."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 124))
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    try:
        yield process, ours, theirs, before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def seen_until(ours: int, text: str, seconds: float = 60.0) -> str:
    """What appears on a terminal, up to a text."""
    seen, end = "", time.monotonic() + seconds
    while text not in seen:
        ready, _, _ = select.select([ours], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{text!r} did not appear in {seen[-2000:]!r}"
        seen += os.read(ours, 65536).decode("utf-8", "replace")
    return seen


EXPLORE = """
import sys
from pathlib import Path
from rookery.apps.memory_explorer import explorer_files, explorer_terminal
from rookery.apps.memory_explorer.explorer_commands import Commands
from rookery.apps.memory_explorer.explorer_files import Store
with explorer_files.open_session(explorer_files.choose()) as session:
    commands = Commands(session, Store(Path(sys.argv[1])))
    if sys.argv[2] == "failing":
        commands.do = lambda line: 1 / 0
    explorer_terminal.explore(commands)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "status"), [("quit", 0), ("interrupt", -signal.SIGINT), ("end", 128 + signal.SIGTERM), ("failing", 1)]
)
def test_a_terminal_is_left_as_it_was(tmp_path, way, status):
    with in_terminal(EXPLORE, str(tmp_path), way) as (process, ours, theirs, before):
        seen_until(ours, "MEADOW")
        assert termios.tcgetattr(theirs) != before
        if way == "interrupt":
            process.send_signal(signal.SIGINT)
        elif way == "end":
            process.terminate()
        else:
            os.write(ours, b"m" if way == "failing" else b"q")
        seen = seen_until(ours, "\x1b[?1049l")
        assert "\x1b[?25h" in seen, "the cursor is back"
        assert process.wait(30) == status
        assert termios.tcgetattr(theirs) == before


@pytest.mark.slow
def test_keys_and_commands_on_a_terminal(tmp_path):
    with in_terminal(EXPLORE, str(tmp_path), "") as (process, ours, _, _):
        seen_until(ours, "MEADOW")
        os.write(ours, b":watch C0A5 lives\r")
        seen_until(ours, "lives is C0A5, now 3")
        os.write(ours, b"s")
        seen_until(ours, "moment-1.state")
        os.write(ours, b"\x1b[C\x1b[1;2Bq")
        seen_until(ours, "\x1b[?1049l")  # what it writes must be read, or it waits in the middle of a frame
        assert process.wait(30) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["moment-1.state"]


# --- windows ------------------------------------------------------------------------------------------------------


def test_a_window(controls, monkeypatch):
    pygame = window.load_pygame()
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    shown = window.Window(controls)
    try:
        before = controls.session.peek(X)[0]
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_RIGHT, unicode=""))
        for _ in range(5):
            assert shown.look()
            controls.advance()
            shown.draw()
        assert controls.session.peek(X)[0] - before == 5
        picture = pygame.surfarray.array3d(shown.surface).swapaxes(0, 1)
        assert (picture[: 144 * 4 : 4, : 160 * 4 : 4] == controls.session.screen).all()
        assert (picture[:, 160 * 4 :] != window.GROUND).any(), "values beside it"
        for letter in ":help\r":
            key = pygame.K_RETURN if letter == "\r" else ord(letter)
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key, unicode=letter))
        pygame.event.post(pygame.event.Event(pygame.KEYUP, key=pygame.K_RIGHT))
        assert shown.look()
        assert controls.page
        shown.draw()
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        assert not shown.look()
    finally:
        shown.close()


def test_exploring_in_a_window_until_it_is_closed(controls, monkeypatch):
    pygame = window.load_pygame()
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_q, unicode="q"))
    window.explore(controls.commands)
    assert not pygame.display.get_init()


def test_where_no_window_can_be_the_terminal_is_named(controls, monkeypatch):
    window.load_pygame().display.quit()
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")
    with pytest.raises(OptionError, match=r"no window can be opened .*use --terminal"):
        window.explore(controls.commands)
    for name in window.SCREENS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(window.sys, "platform", "linux")
    with pytest.raises(OptionError, match=r"there is no display .*use --terminal"):
        window.explore(controls.commands)


# --- the command line ---------------------------------------------------------------------------------------------


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    gameboy_verbs.add_commands(parser.add_subparsers(), add_command)
    options = parser.parse_args(["gameboy", *words])
    return options.run(options)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOKERY_ROM_DIR", raising=False)


def test_a_script_on_the_command_line(capsys, tmp_path):
    script = "right*20; mark; a*4; diff changed; watch C0A5 hearts2; save start.state; write profile.toml"
    assert run("explore", "--script", script) == 0
    told = capsys.readouterr().out.splitlines()
    assert "hearts2 is C0A5, now 3" in told
    assert sorted(file.name for file in tmp_path.iterdir()) == ["profile.toml", "states"]
    assert (tmp_path / "states" / "start.state").is_file()


def test_a_script_s_result_as_json(capsys):
    assert run("explore", "--json", "--profile", "none", "--script", "wait*150; diff = 3; watch C0A5 hearts") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["found"] == {"hearts": "C0A5"} and result["values"] == {"hearts": 3}
    assert {"address": "C0A5", "was": 0, "now": 3} in result["candidates"]
    assert result["left"] == len(result["candidates"])


def test_commands_from_a_pipe(capsys, monkeypatch):
    with open("commands", "w") as stream:
        stream.write("mark\nright*4; peek C0A5\nquit\n")
    with open("commands") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert run("explore") == 0
    assert "  C0A5  03" in capsys.readouterr().out.splitlines()


def test_about_roms(capsys, tmp_path):
    assert run("rom", "mine.gb") == 0
    assert run("info", "--rom", "mine.gb", "--json") == 0
    told = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert (told["title"], told["size"], told["profiles"]) == ("MEADOW", 32768, ["meadow"])
    assert run("info", "--rom", "mine.gb") == 0
    assert re.search(r"profile\s+meadow", capsys.readouterr().out)
    assert run("info") == 0
    told = capsys.readouterr().out
    assert re.search(r"meadow\s+MEADOW\s+comes with rookery", told) and "ROOKERY_ROM_DIR" in told
    assert [file.name for file in tmp_path.iterdir()] == ["mine.gb"]


def test_how_to_give_a_rom_is_told(capsys):
    """Of the one game that rookery knows and cannot bring along."""
    assert run("info") == 0
    told = capsys.readouterr().out
    assert re.search(r"oracle_of_seasons\s+ZELDA DIN\s+no ROM yet", told)
    assert "needs your own ROM of 'ZELDA DIN'" in told and "--rom PATH" in told


def test_where_no_rom_can_be_written(tmp_path):
    (tmp_path / "folder.gb").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="exists and has other content"):
        run("rom", "folder.gb")
    with pytest.raises(OptionError, match=r"cannot be written \("):
        run("rom", "file/mine.gb")


def test_a_rom_is_not_written_over_something_else(tmp_path):
    (tmp_path / "mine.gb").write_bytes(b"precious")
    with pytest.raises(OptionError, match="other content"):
        run("rom", "mine.gb")
    with pytest.raises(OptionError, match=r"end in \.gb"):
        run("rom", "mine.txt")
    assert (tmp_path / "mine.gb").read_bytes() == b"precious"
