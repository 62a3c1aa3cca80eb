"""`rookery import-sb3`: an agent from the zip file of a Stable-Baselines3 model."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.console import printable
from rookery.errors import CheckpointError, FileError, OptionError
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.learners.normalize import CLIP
from rookery.learners.observations import Leaf
from rookery.learners.plain_spaces import BOX_TYPES, to_tree
from rookery.learners.policy import make_leaves
from rookery.learners.registry import specs
from rookery.training.resolve.world_choice import find
from rookery.training.sb3_models.sb3_networks import ReadNetworks, SB3Archive, read_networks, read_sb3_archive
from rookery.training.storage.load_agent import agent_from


@dataclass(frozen=True)
class ImportedAgent:
    """The agent, and what a user should know about how it differs from the model."""

    agent: Agent
    learner: str
    notes: tuple[str, ...]


def import_sb3(path: str | Path, env: str | None = None, vecnormalize: str | Path | None = None) -> ImportedAgent:
    """The agent of a PPO, SAC, DQN or TD3 model that Stable-Baselines3 saved, which need not be installed.

    Nothing in the file is unpickled: weights are read by torch's `weights_only=True`, the rest from JSON.

    Args:
        path: The zip file that `model.save(path)` wrote.
        env: The env that it was trained in, for the spaces of observations and actions; if omitted, they are read from
            the file, which is possible unless observations are a Dict.
        vecnormalize: An .npz or .json file with the statistics of its VecNormalize, if it was trained with that.

    Raises:
        FileError: The file is damaged, holds something else, or a model that no agent here can be.
    """
    allow_given(env)
    archive = read_sb3_archive(Path(path))
    observation_space, action_space = _spaces(archive, env)
    leaves = make_leaves(observation_space)
    networks = read_networks(archive, leaves)
    if vecnormalize is not None:
        _normalise(networks, leaves, Path(vecnormalize))
    return ImportedAgent(
        _agent(archive, networks, observation_space, action_space), networks.learner, tuple(networks.notes)
    )


def _spaces(archive: SB3Archive, env: str | None) -> tuple[spaces.Space, spaces.Space]:
    if env is not None:
        return find(env, compiled=False).spaces
    observed, acted = (space_from_facts(archive.facts.get(f"{what}_space"), what) for what in ("observation", "action"))
    return observed, acted


def _normalise(networks: ReadNetworks, leaves: list[Leaf], path: Path) -> None:
    if len(leaves) != 1 or leaves[0].kind != "vector":
        raise OptionError("--vecnormalize is for observations that are one vector")
    networks.options["normalise_observations"] = True
    statistics = read_vecnormalize(path, leaves[0].width)
    networks.policy |= {f"encoder.norm.{name}": part for name, part in statistics.items()}


def _agent(archive: SB3Archive, networks: ReadNetworks, observed: spaces.Space, acted: spaces.Space) -> Agent:
    spec = specs()[networks.learner]
    if not spec.supports(acted) or np.any(getattr(acted, "start", 0)):
        raise FileError(f"{archive.name} cannot act in {acted}: {spec.needs}, and discrete actions start at 0")
    saved: dict[str, Any] = {
        "learner": networks.learner,
        "options": spec.options.model_validate(networks.options).model_dump(mode="json"),
        "policy": networks.policy,
        "observation_space": to_tree(observed),
        "action_space": to_tree(acted),
    }
    try:
        return agent_from(saved)
    except CheckpointError as error:
        text = str(error).removeprefix("a checkpoint describes another agent than it holds: ")
        raise FileError(
            f"the weights of {archive.name} do not fit observations {observed} and actions {acted}: {text}"
        ) from None


MOST_NUMBERS = 1 << 24
NUMBER = re.compile(r"-?(?:inf|nan|\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)", re.IGNORECASE)


def space_from_facts(facts: Any, what: str) -> spaces.Space:
    """The space that SB3's JSON describes beside its pickle.

    Args:
        facts: Such as {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": "2", "start": "0", ...}.
        what: "observation" or "action", for messages.

    Raises:
        FileError: The plain facts do not suffice.
    """
    kind = re.search(r"\b(\w{1,100})'>$", str(facts.get(":type:", ""))) if isinstance(facts, dict) else None
    reader = READERS.get(kind[1]) if kind else None
    if reader is None:
        name = f" {kind[1]}" if kind else ""
        raise FileError(
            f"the model's {what} space{name} is only there as a pickle, which is not loaded: {NAME_THE_ENV}"
        )
    try:
        return reader(facts)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileError(
            f"the model's {what} space cannot be read from its plain facts ({error}): {NAME_THE_ENV}"
        ) from None


NAME_THE_ENV = "name the env that it was trained in, such as --env CartPole-v1"


def _box(facts: dict[str, Any]) -> spaces.Box:
    shape, kind = tuple(int(size) for size in facts["_shape"]), str(facts["dtype"])
    if kind not in BOX_TYPES or min(shape, default=1) < 1 or np.prod(shape, dtype=float) > MOST_NUMBERS:
        raise ValueError(f"a Box of {kind} with shape {shape}")
    low, high = (_bound(facts[name], shape) for name in ("low", "high"))
    return spaces.Box(low.astype(kind), high.astype(kind), dtype=np.dtype(kind).type)


def _bound(text: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers as NumPy prints them. Of more than 1,000 it prints the first and last ones: enough if all are equal."""
    numbers = [float(number) for number in NUMBER.findall(str(text))]
    if "..." in str(text) and len(set(numbers)) == 1:
        return np.full(shape, numbers[0])
    if len(numbers) != np.prod(shape, dtype=int):
        raise ValueError(f"{len(numbers)} bounds for shape {shape}")
    return np.array(numbers).reshape(shape)


def _discrete(facts: dict[str, Any]) -> spaces.Discrete:
    return spaces.Discrete(int(facts["n"]), start=int(facts.get("start") or 0))


def _multi_discrete(facts: dict[str, Any]) -> spaces.MultiDiscrete:
    nvec = [int(number) for number in re.findall(r"\d+", str(facts["nvec"]))]
    if tuple(facts["_shape"]) != (len(nvec),) or re.search(r"[1-9]", str(facts.get("start", "0"))):
        raise ValueError("a MultiDiscrete of several axes, or that does not start at 0")
    return spaces.MultiDiscrete(nvec)


def _multi_binary(facts: dict[str, Any]) -> spaces.MultiBinary:
    if len(shape := facts["_shape"]) != 1:
        raise ValueError(f"a MultiBinary of shape {shape}")
    return spaces.MultiBinary(int(shape[0]))


READERS = {"Box": _box, "Discrete": _discrete, "MultiDiscrete": _multi_discrete, "MultiBinary": _multi_binary}

FLOOR = 1e-8  # added to variances here; SB3's epsilon may be another
MOST_BYTES = 1 << 26
PICKLE = """\
{name} is a pickle, which could run any code: it is not loaded. If you trust it, write its numbers to a file with

    import numpy as np
    from stable_baselines3.common.save_util import load_from_pkl
    v = load_from_pkl({path!r})
    np.savez("vecnormalize.npz", mean=v.obs_rms.mean, var=v.obs_rms.var, count=v.obs_rms.count,
             epsilon=v.epsilon, clip_obs=v.clip_obs)

in Python, and name that file: --vecnormalize vecnormalize.npz"""


def read_vecnormalize(path: Path, width: int) -> dict[str, np.ndarray]:
    """The buffers of `learners.normalize.RunningNorm` for vectors of this width.

    Args:
        path: An .npz or .json file with `mean` and `var`, and perhaps `count`, `epsilon` and `clip_obs`.
    """
    name = printable(path)
    if path.suffix.lower() not in (".npz", ".json"):
        raise FileError(PICKLE.format(name=name, path=str(path)))
    if not path.is_file():
        raise FileError(f"there is no file {name}")
    if path.stat().st_size > MOST_BYTES:
        raise FileError(f"{name} is larger than statistics of observations can be: it is not read")
    try:
        found = {key: np.asarray(value, np.float64) for key, value in _read(path).items()}
    except (ValueError, TypeError, OSError, OverflowError, MemoryError, zipfile.BadZipFile, RecursionError) as error:
        raise FileError(f"{name} cannot be read: {printable(str(error))[:200]}") from None
    return _checked(found, width, name)


def _read(path: Path) -> dict[str, Any]:
    if path.suffix.lower() == ".json":
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it should be a JSON object")
    else:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                raise ValueError("it is larger inside than statistics of observations can be")
        with np.load(path, allow_pickle=False) as arrays:
            found = dict(arrays)
    return {key: value for key, value in found.items() if key in ("mean", "var", "count", "epsilon", "clip_obs")}


def _checked(found: dict[str, np.ndarray], width: int, name: str) -> dict[str, np.ndarray]:
    for key in ("mean", "var"):
        if key not in found or found[key].size != width or not np.isfinite(found[key]).all():
            shape = found[key].shape if key in found else "none"
            raise FileError(f"{name}: `{key}` should have {width} finite numbers, one for each observed, got {shape}")
    scalars = {
        key: float(found[key]) for key in ("count", "epsilon", "clip_obs") if key in found and not found[key].ndim
    }
    if scalars.get("clip_obs", CLIP) != CLIP:
        raise FileError(
            f"{name}: `clip_obs` is {scalars['clip_obs']:g}, and normalised observations are cut at {CLIP:g} here"
        )
    variance = found["var"].ravel() + scalars.get("epsilon", FLOOR) - FLOOR
    if (variance + FLOOR <= 0).any():
        raise FileError(f"{name}: `var` should not be negative")
    count = np.array(scalars.get("count", 1.0), np.float64)
    return {"mean": found["mean"].ravel(), "variance": variance, "count": count}
