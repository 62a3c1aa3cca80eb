"""The guide's own process: it answers one question after another, and ends when the process that asks has ended.

python -c START FD SETTINGS

The guide is a class of the user's, or a language model at any endpoint that speaks OpenAI's chat completions: a server
on this machine, such as Ollama, llama.cpp or vLLM. Its key is read from the environment, and is never written anywhere.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import sys
import threading
import urllib.error
import urllib.request
import zlib
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from rookery.gate import follow_parent
from rookery.user_code import find_in_file
from rookery.worlds.gameboy.guide_client import receive_frame, send_frame
from rookery.worlds.gameboy.guide_settings import KEY_VARIABLE, OPENAI, GuideSettings
from rookery.worlds.gameboy.profile_schema import HEIGHT, WIDTH


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


LARGEST_ANSWER = 1 << 20  # bytes
PROMPT = """You help an agent that learns to play the Game Boy game {title}. {description}
From the values of its memory{screen}, name the next goal that it should reach.
Answer with one JSON object and nothing else:
{{"target": CONDITION, "bonus": NUMBER, "terms": {{NAME: NUMBER}}, "text": WHY}}
CONDITION compares values, such as "{example} == 1", with ==, !=, <, <=, >, >=, joined by "and".
bonus, from 0 to 2, is the reward for reaching it. terms is optional: how many times more a reward should count.
The values are: {values}. The rewards are: {terms}."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to another machine, with the key."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class OpenAIGuide:
    """Turns values and screen into a question, and the model's answer into a hint."""

    def __init__(self, settings: GuideSettings, about: dict[str, Any]) -> None:
        self._settings = settings
        self._prompt = PROMPT.format(
            title=about["title"],
            description=about["description"],
            screen=" and the screen" if settings.guide_screen else "",
            example=about["values"][0] if about["values"] else "room",
            values=", ".join(about["values"]),
            terms=", ".join(about["terms"]),
        )
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)

    def hint(self, state: dict[str, int], screen: np.ndarray) -> dict[str, Any] | None:
        """The model's answer, unchanged: the caller checks it."""
        answer = json.loads(self._post(self._body(state, screen)))
        text = answer["choices"][0]["message"]["content"]
        return json_object(text)

    def _body(self, state: dict[str, int], screen: np.ndarray) -> bytes:
        question: Any = json.dumps(state)
        if self._settings.guide_screen:
            picture = f"data:image/png;base64,{base64.b64encode(png(screen)).decode()}"
            question = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": picture}}]
        messages = [{"role": "system", "content": self._prompt}, {"role": "user", "content": question}]
        return json.dumps({"model": self._settings.model, "messages": messages, "temperature": 0}).encode()

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(KEY_VARIABLE):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self._settings.endpoint, body, headers)  # noqa: S310 - http(s), checked
        with self._opener.open(request, timeout=self._settings.guide_timeout) as response:
            content = response.read(LARGEST_ANSWER + 1)
        if len(content) > LARGEST_ANSWER:
            raise ValueError(f"the endpoint's answer has more than {LARGEST_ANSWER:,} bytes")
        return content.replace(key.encode(), b"***") if key else content  # a server may repeat it, and hints are stored


def json_object(text: Any) -> dict[str, Any]:
    """The first JSON object in a text: models like to write more.

    >>> json_object('Sure! ```json {"target": "room == 2"} ```')
    {'target': 'room == 2'}
    """
    if not isinstance(text, str) or "{" not in text:
        raise ValueError(f"the answer holds no JSON object: {text!r:.80}")
    found, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return found


def png(image: np.ndarray) -> bytes:
    """An RGB image as a PNG file."""
    height, width, _ = image.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1)  # each without a filter

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows.tobytes())), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
