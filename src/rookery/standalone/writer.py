"""The text of a standalone agent: `runtime`'s own source, with an agent's description and weights at its end."""

from __future__ import annotations

import ast
import base64
import inspect
import json
import re
from typing import Any

import numpy as np

from rookery.standalone import runtime

WIDTH = 120
PLACE = 'DESCRIPTION = ""\nWEIGHTS = ""\n'  # what is filled in
TOP = '''"""A trained agent in one file. It needs Python 3.9 or later, NumPy, and nothing else.

{facts}

    from {module} import Agent

    agent = Agent()
    action = agent.act(observation)                         # one observation, or a batch of them
    action = agent.act(observation, deterministic=False)    # sampled, as in training
    numbers = agent.get_step(observation)                   # the action as a list of floats
    agent.reset()                                           # an episode begins

{sees}
{does}

Written by `rookery export --standalone`. The normaliser and the meaning of actions are inside. The weights are the text
at the end, which is read as numbers and never as code.
"""
'''


def standalone_text(description: dict[str, Any], arrays: dict[str, np.ndarray], module: str = "agent") -> str:
    """A Python file that holds the agent; `module` is the name by which its docstring imports it."""
    facts = "\n".join(f"    {_harmless(name):<8} {_harmless(value)}" for name, value in description["about"].items())
    top = TOP.format(facts=facts, module=_harmless(module), sees=_sees(description), does=_does(description, arrays))
    description = {**description, "arrays": {name: list(part.shape) for name, part in arrays.items()}}
    numbers = b"".join(part.astype("<f4").tobytes() for part in arrays.values())
    filled = f'DESCRIPTION = r"""{_json(description)}"""\nWEIGHTS = """\n{_block(numbers)}\n"""\n'
    return top + _source().replace(PLACE, filled)


def _source() -> str:
    """The runtime without its docstring."""
    source = inspect.getsource(runtime)
    docstring = ast.parse(source).body[0]
    source = "".join(source.splitlines(keepends=True)[docstring.end_lineno :])
    assert source.count(PLACE) == 1
    return source


def _harmless(value: Any) -> str:
    """Names come from folders and files, and must not end the docstring that they stand in.

    >>> _harmless('a"b' + chr(10) + 'c')
    'a b c'
    """
    return re.sub(r"[^\w.,:;+=@/()<> -]", " ", str(value))


def _json(description: dict[str, Any]) -> str:
    """One line for each of its parts. JSON never has three quotes in a row, so that it can stand in a Python text."""
    parts = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in description.items())
    return "{\n" + ",\n".join(parts) + "\n}"


def _block(numbers: bytes) -> str:
    text = base64.b85encode(numbers).decode()  # without quotes and backslashes
    return "\n".join(text[k : k + WIDTH] for k in range(0, len(text), WIDTH))


def _sees(description: dict[str, Any]) -> str:
    leaves = description["leaves"]
    if len(leaves) == 1 and not leaves[0]["path"]:
        return f"An observation has the shape {tuple(leaves[0]['shape'])}."
    parts = ", ".join(f"{_harmless(leaf['name'])} {tuple(leaf['shape'])}" for leaf in leaves)
    return f"An observation is a dict or tuple, as the world gives it, with: {parts}."


def _does(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    head = description["head"]
    if "table" in arrays:
        choices, numbers = arrays["table"].shape
        return f"An action is one of {choices} sets of {numbers} numbers."
    if head["kind"] == "switches":
        return f"An action has the shape {tuple(head['shape'])}, of zeros and ones."
    if head["kind"] != "choices":
        return f"An action has the shape {tuple(head['shape'])}, of {head['dtype']} within its bounds."
    if not head["shape"]:
        return f"An action is an integer from {head['starts'][0]} to {head['starts'][0] + head['sizes'][0] - 1}."
    return f"An action has the shape {tuple(head['shape'])}, of integers."
