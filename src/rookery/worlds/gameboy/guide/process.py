"""The guide's own process: it answers one question after another, and ends when the process that asks has ended.

python -c START FD SETTINGS
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from rookery.gate import follow_parent
from rookery.user_code import find_in_file
from rookery.worlds.gameboy.emulator import HEIGHT, WIDTH
from rookery.worlds.gameboy.guide.frames import receive_frame, send_frame
from rookery.worlds.gameboy.guide.settings import OPENAI, GuideSettings


class Guide(Protocol):
    """What a guide is: a class of your own with this method, made without arguments.

    ```python
    class Guide:
        def hint(self, state, screen):
            return {"target": "has_key == 1", "bonus": 0.5} if not state["has_key"] else {"target": "mode == 2"}
    ```
    """

    def hint(self, state: dict[str, int], screen: np.ndarray) -> dict[str, Any] | None:
        """A hint for a game with these values and this screen, (144, 160, 3); None for none."""


def main() -> None:
    """Answer until the other side is gone."""
    follow_parent()
    sock = socket.socket(fileno=int(sys.argv[1]))
    questions: SimpleQueue[tuple[Any, bytes]] = SimpleQueue()
    threading.Thread(target=_listen, args=(sock, questions), daemon=True).start()
    try:
        guide = _make(*json.loads(sys.argv[2]))
    except BaseException as error:  # noqa: BLE001 - the guide's own code can fail in any way
        send_frame(sock, {"fatal": _describe(error)})
        return
    while True:
        state, pixels = questions.get()
        screen = np.frombuffer(pixels, np.uint8).reshape(HEIGHT, WIDTH, 3)
        send_frame(sock, _answer(guide, state, screen))


def _listen(sock: socket.socket, questions: SimpleQueue[tuple[Any, bytes]]) -> None:
    """Also while the guide thinks: if the run has ended, nobody waits for its answer."""
    try:
        while True:
            questions.put(receive_frame(sock))
    except BaseException:  # noqa: BLE001
        os._exit(0)


def _make(settings: dict[str, Any], about: dict[str, Any]) -> Guide:
    given = GuideSettings(**settings)
    if given.guide == OPENAI:
        from rookery.worlds.gameboy.guide.openai import OpenAIGuide

        return OpenAIGuide(given, about)
    guide = find_in_file(given.guide, "guide")()
    if not callable(getattr(guide, "hint", None)):
        raise TypeError(f"{given.guide} has no method hint(state, screen)")
    return guide


def _answer(guide: Guide, state: dict[str, int], screen: np.ndarray) -> dict[str, Any]:
    try:
        hint = guide.hint(state, screen)
        return {"hint": json.loads(json.dumps(hint, default=_plain))}
    except Exception as error:  # noqa: BLE001 - the guide's own code can fail in any way
        return {"error": _describe(error)}


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"a hint holds a {type(value).__name__}, which is not plain JSON")


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
