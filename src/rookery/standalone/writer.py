"""A trained agent as one Python file: `runtime`'s own source, with the agent's description and weights at its end.

The description is made from a checkpoint, in plain values and arrays. Only what acts is kept: no critics, no target
networks, and not the half of a dueling network that estimates the value of the state. The file is tested in its own
process, which must not need more than Python and NumPy.
"""

from __future__ import annotations

import ast
import base64
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rookery.errors import OptionError, RunError
from rookery.learners.folding import folded
from rookery.learners.learner_spec import ActorLayout
from rookery.learners.registry import specs
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
MASK_KEY = "action_mask"
SECONDS = 120
CALLS = 2  # one after the other, so that what an agent remembers shows
ASK = """
import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import numpy as np
import agent

mine = agent.Agent()
with np.load(sys.argv[1] + "/asked.npz", allow_pickle=False) as file:
    asked = dict(file)
mask = asked.pop("mask", None)


def observation(rows):
    if not mine._leaves[0]["path"]:
        return asked["0"][rows]
    tree = {}
    for k, leaf in enumerate(mine._leaves):
        *folders, last = leaf["path"]
        branch = tree
        for folder in folders:
            branch = branch.setdefault(folder, {})
        branch[last] = asked[str(k)][rows]
    return tree


def answers(rows):
    mine.reset()
    allowed = None if mask is None else mask[rows]
    return np.stack([np.asarray(mine.act(observation(rows), mask=allowed)) for _ in range(int(sys.argv[2]))])


rows = len(asked["0"])
singles = np.stack([answers(row) for row in range(rows)], 1)
np.savez(sys.argv[1] + "/answers.npz", batch=answers(slice(None)), singles=singles)
foreign = {"rookery", "torch", "gymnasium"} & set(sys.modules)
sys.exit(f"it imports {', '.join(sorted(foreign))}" if foreign else 0)
"""


def standalone_text(description: dict[str, Any], arrays: dict[str, np.ndarray], module: str = "agent") -> str:
    """A Python file that contains the agent; `module` is the name by which its docstring imports it."""
    facts = "\n".join(f"    {harmless(name):<8} {harmless(value)}" for name, value in description["about"].items())
    top = TOP.format(facts=facts, module=harmless(module), sees=_sees(description), does=_does(description, arrays))
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


def harmless(value: Any) -> str:
    """Names come from folders and files, and must not end the docstring that they stand in.

    >>> harmless('a"b' + chr(10) + 'c')
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
    parts = ", ".join(f"{harmless(leaf['name'])} {tuple(leaf['shape'])}" for leaf in leaves)
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


Arrays = dict[str, np.ndarray]


def describe(saved: dict[str, Any], about: dict[str, Any], table: np.ndarray | None = None) -> tuple[dict, Arrays]:
    """Description and arrays of the agent that a checkpoint's part "agent" holds.

    Args:
        saved: That part: the learner's name and options, the policy's arrays, both spaces.
        about: What a reader may want to know of it, such as run and world.
        table: What each of its choices stands for, [choices, numbers], if the env is to be given that instead.
    """
    spec, policy = specs()[saved["learner"]], saved["policy"]
    if spec.actor is None:
        raise OptionError(
            f"agents of {spec.title} cannot be written as a file for NumPy alone: its spec names no actor"
        )
    if saved["action_space"]["kind"] in ("Dict", "Tuple"):
        raise OptionError(
            f"an agent with {saved['action_space']['kind']} actions cannot be written as a file for NumPy alone: "
            "--onnx writes one for onnxruntime"
        )
    if any(name.startswith("encoder.images.") for name in policy):
        raise OptionError(
            "an agent that sees images cannot be written as a file for NumPy alone: --onnx writes one for onnxruntime"
        )
    steps, own, whole = _own_network(saved)
    layers = [] if whole else _layers(spec.actor, policy)
    arrays = {f"{k}.{name}": part for k, layer in enumerate(layers) for name, part in layer.items()}
    arrays |= _normaliser(policy)
    arrays |= {name: policy[name] for name in policy if name.startswith("core.")} | own
    if "head.log_std" in policy:
        arrays["log_std"] = policy["head.log_std"]
    if table is not None:
        arrays["table"] = np.asarray(table)
    description = {
        "about": about,
        "leaves": _leaves(saved["observation_space"], ()),
        "activation": saved["options"]["activation"],
        "layers": len(layers),
        **({"layer_norm": True} if spec.actor.layer_norm else {}),
        **({"own": steps} if steps else {}),
        **_shared_columns(saved),
        "head": _head(saved, spec.actor),
    }
    return description, {name: np.asarray(part, np.float32) for name, part in arrays.items()}


def _own_network(saved: dict[str, Any]) -> tuple[list[dict[str, Any]], Arrays, bool]:
    if not saved["options"].get("network"):
        return [], {}, False
    from rookery.standalone.own_network import steps_of_network  # it imports torch

    return steps_of_network(saved)


def _shared_columns(saved: dict[str, Any]) -> dict[str, Any]:
    """With `share_weights`: the columns that the actor reads for each asset."""
    options = saved["options"]
    if not options.get("share_weights"):
        return {}
    from rookery.learners.shared_nets import columns_by_asset  # it imports torch

    (inputs,) = _shape(saved["observation_space"])
    return {"columns": columns_by_asset(options["asset_columns"], inputs).tolist()}


def _layers(actor: ActorLayout, policy: Arrays) -> list[Arrays]:
    """The actor as a plain perceptron: weights and biases, layer by layer."""
    if actor.norms is not None:
        return _without_norms(actor, policy)
    count = sum(name.startswith(actor.layers) and name.endswith(".weight") for name in policy)
    layers = [_layer(policy, f"{actor.layers}{k}.") for k in range(count)]
    if actor.value is not None and f"{actor.value}weight" in policy:
        # The first half of the last hidden layer is for the value of the state, on which no action depends.
        half = policy[f"{actor.value}weight"].shape[1]
        layers[-1] = {name: part[half:] for name, part in layers[-1].items()}
    return layers if actor.last is None else [*layers, _layer(policy, actor.last)]


def _without_norms(actor: ActorLayout, policy: Arrays) -> list[Arrays]:
    """Of a net with batch norms, with the first axis of its weights for members, of which an actor has one."""
    count = sum(name.startswith(actor.layers) for name in policy)
    weights = [policy[f"{actor.layers}{k}"][0] for k in range(count)]
    norms = [_named(policy, f"{actor.norms}{k}.") for k in range(count)]
    layers = folded(weights, norms, policy[f"{actor.last}bias"][0, 0])
    return [{"weight": weight, "bias": bias} for weight, bias in layers]


def _named(policy: Arrays, start: str) -> Arrays:
    return {name.removeprefix(start): part for name, part in policy.items() if name.startswith(start)}


def _layer(policy: Arrays, start: str) -> Arrays:
    return {name: policy[start + name] for name in ("weight", "bias")}


def _normaliser(policy: Arrays) -> Arrays:
    """As `learners.normalize.RunningNorm` shifts and scales."""
    if "encoder.norm.mean" not in policy:
        return {}
    return {"shift": policy["encoder.norm.mean"], "scale": (policy["encoder.norm.variance"] + 1e-8) ** -0.5}


def _leaves(space: dict[str, Any], path: tuple[str | int, ...]) -> list[dict[str, Any]]:
    """The arrays of an observation, in the order in which nets read them."""
    kind = space["kind"]
    if kind in ("Dict", "Tuple"):
        keys = space["keys"] if kind == "Dict" else range(len(space["parts"]))
        parts = [(key, space["parts"][str(k)]) for k, key in enumerate(keys)]
        return [leaf for key, part in parts if path or key != MASK_KEY for leaf in _leaves(part, (*path, key))]
    sizes = _choices(space) if kind in ("Discrete", "MultiDiscrete") else None
    return [
        {
            "name": ".".join(map(str, path)) or "observation",
            "path": list(path),
            "shape": _shape(space),
            "sizes": sizes and sizes[0],
            "starts": sizes and sizes[1],
        }
    ]


def _shape(space: dict[str, Any]) -> list[int]:
    if space["kind"] == "Discrete":
        return []
    if space["kind"] == "MultiBinary":
        return space["n"] if isinstance(space["n"], list) else [space["n"]]
    return list(np.shape(space["nvec"] if space["kind"] == "MultiDiscrete" else space["low"]))


def _choices(space: dict[str, Any]) -> tuple[list[int], list[int]]:
    """How many values each number has, and where they begin."""
    sizes, starts = (space["n"] if "n" in space else space["nvec"]), space["start"]
    return np.ravel(sizes).tolist(), np.ravel(starts).tolist()


def _head(saved: dict[str, Any], actor: ActorLayout) -> dict[str, Any]:
    """How outputs of the network become actions."""
    space, options = saved["action_space"], saved["options"]
    if space["kind"] == "MultiBinary":
        return {"kind": "switches", "shape": _shape(space)}
    if space["kind"] == "Box":
        bounds = {name: np.ravel(space[name]).tolist() for name in ("low", "high")}
        std = {"std": options[actor.noise]} if actor.noise is not None else {}
        return {"kind": actor.continuous, "shape": _shape(space), "dtype": space["dtype"], **bounds, **std}
    sizes, starts = _choices(space)
    epsilon = options[actor.epsilon] if actor.epsilon is not None else None
    return {"kind": "choices", "shape": _shape(space), "sizes": sizes, "starts": starts, "epsilon": epsilon}


def answers(text: str, leaves: list[np.ndarray], mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """What the agent in `text` does when it sees a batch of observations, given as one array for each of their parts,
    and when it sees them one by one: both [calls, rows, ...]."""
    with TemporaryDirectory(prefix="rookery-") as place:
        folder = Path(place)
        (folder / "agent.py").write_text(text, encoding="utf-8")
        asked = {str(k): leaf for k, leaf in enumerate(leaves)} | ({} if mask is None else {"mask": mask})
        np.savez(folder / "asked.npz", **asked)  # type: ignore[arg-type]
        # Isolated: neither the user's folders nor PYTHONPATH count.
        ended = subprocess.run(
            [sys.executable, "-I", "-c", ASK, place, str(CALLS)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=place,
        )
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
            raise RunError(f"the standalone agent is not written: on its own it fails: {reason}")
        with np.load(folder / "answers.npz", allow_pickle=False) as file:
            return file["batch"], file["singles"]
