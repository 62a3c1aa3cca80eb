"""From the weights of an SB3 policy, by their names there, to the arrays of a policy here."""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from rookery.console import printable
from rookery.errors import FileError
from rookery.learners.observations import MASK_KEY, Leaf

Arrays = dict[str, np.ndarray]
Layers = list[tuple[np.ndarray, np.ndarray]]  # weights and biases
NOTE = "its critics are not taken over: an agent is what acts; in training they start over"
ACTIVATIONS = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "GELU": "gelu", "SiLU": "silu"}
USUAL_ACTIVATION = {"ppo": "tanh", "sac": "relu", "dqn": "relu", "td3": "relu"}
FIRST_WEIGHTS = {  # by which an algorithm is known
    "ppo": "action_net.weight",
    "sac": "actor.mu.weight",
    "dqn": "q_net.q_net.0.weight",
    "td3": "actor.mu.0.weight",
}
ONLY_FOR_LEARNING = {
    "ppo": (),
    "sac": ("critic.", "critic_target."),
    "dqn": ("q_net_target.",),
    "td3": ("actor_target.", "critic.", "critic_target."),
}
NATURE_CNN = 512  # features, of the network for large images that both have


@dataclass
class ReadNetworks:
    """A policy's networks in the form of this house: options that decide its arrays, and the arrays."""

    learner: str
    options: dict[str, Any]
    policy: Arrays
    notes: list[str] = field(default_factory=list)


def read_networks(archive: SB3Archive, leaves: Sequence[Leaf]) -> ReadNetworks:
    """The networks of a model for observations with these leaves.

    Raises:
        FileError: The model is of another algorithm or has parts that no policy here has.
    """
    learner = _algorithm(archive)
    _check_facts(archive)
    rest = {name: part for name, part in archive.weights.items() if not name.startswith(ONLY_FOR_LEARNING[learner])}
    options: dict[str, Any] = {"activation": _activation(archive, learner)}
    policy = _images(archive, rest, leaves, options)
    networks = ReadNetworks(learner, options, policy)
    READERS[learner](archive, rest, networks, _columns(archive, leaves))
    if rest:
        raise FileError(f"{archive.name} has weights that no policy here has: {', '.join(sorted(rest))[:200]}")
    return networks


def _algorithm(archive: SB3Archive) -> str:
    found = [name for name, weights in FIRST_WEIGHTS.items() if weights in archive.weights]
    kind = archive.facts.get("policy_class")
    module = str(kind.get("__module__", "")) if isinstance(kind, dict) else ""
    if not module.startswith("stable_baselines3."):
        raise FileError(
            f"{archive.name} has a policy of its own ({module[:80] or 'unknown'}), whose code is not run: the policies "
            "of Stable-Baselines3 itself can be read"
        )
    if archive.facts.get("use_sde"):
        raise FileError(f"{archive.name} was trained with use_sde=True: agents here have no state-dependent noise")
    if len(found) != 1:
        raise FileError(f"{archive.name} is not a PPO, SAC, DQN or TD3 model: its weights have other names")
    return found[0]


def _check_facts(archive: SB3Archive) -> None:
    kwargs = archive.facts.get("policy_kwargs") or {}
    extractor = str(kwargs.get("features_extractor_class", "<class 'stable_baselines3."))
    if not extractor.startswith("<class 'stable_baselines3."):
        raise FileError(f"{archive.name} has a features extractor of its own, {extractor[:80]}, whose code is not run")
    if kwargs.get("normalize_images") is False:
        raise FileError(f"{archive.name} has normalize_images=False: bytes of images are divided by 255 here")


def _activation(archive: SB3Archive, learner: str) -> str:
    """Weights do not tell it: SB3 writes its class into the JSON if it is not the usual one."""
    given = (archive.facts.get("policy_kwargs") or {}).get("activation_fn")
    if given is None:
        return USUAL_ACTIVATION[learner]
    name = re.fullmatch(r"<class 'torch\.nn\.modules\.activation\.(\w+)'>", str(given))
    if name is None or name[1] not in ACTIVATIONS:
        raise FileError(f"{archive.name} has the activation {str(given)[:80]}; there are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name[1]]


# --- observations -----------------------------------------------------------------------------------------------------


def _images(archive: SB3Archive, rest: Arrays, leaves: Sequence[Leaf], options: dict[str, Any]) -> Arrays:
    """The convolutions of CnnPolicy, taken out of `rest`. Several names may hold one network."""
    found: dict[str, Arrays] = {}
    for name in [name for name in rest if "features_extractor." in name]:
        owner, _, inner = name.partition("features_extractor.")
        found.setdefault(owner, {})[inner] = rest.pop(name)
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    if images and len(leaves) > 1:
        raise FileError(f"{archive.name}: images among other observations are read by other networks here")
    if not found:
        if not images:
            return {}
        options["images"] = "flat"
        return {"encoder.images.0.flat": np.ones(1, np.float32)}
    first, *others = found.values()
    if any(
        other.keys() != first.keys() or not all(map(np.array_equal, first.values(), other.values())) for other in others
    ):
        raise FileError(f"{archive.name} has share_features_extractor=False: actor and critic share one here")
    if not images or first.get("linear.0.bias", np.empty(0)).shape != (NATURE_CNN,):
        raise FileError(f"{archive.name} has convolutions other than SB3's NatureCNN with {NATURE_CNN} features")
    options["images"] = "cnn"
    renamed = {re.sub("^cnn", "convolutions", re.sub("^linear", "project", name)): part for name, part in first.items()}
    return {f"encoder.images.0.{name}": part for name, part in renamed.items()}


def _columns(archive: SB3Archive, leaves: Sequence[Leaf]) -> tuple[np.ndarray, float]:
    """Where the features of a policy here are among SB3's, which has all leaves in the order of the space, and what
    they are multiplied by. Here vectors come first, then choices."""
    if any(leaf.path == (MASK_KEY,) for leaf in leaves):
        raise FileError(f"{archive.name}: `{MASK_KEY}` is a mask here, and an observation there")
    if any(start for leaf in leaves for start in leaf.starts):
        raise FileError(f"{archive.name}: discrete observations of Stable-Baselines3 start at 0")
    starts = np.cumsum([0, *(leaf.width for leaf in leaves)])
    ranges = [np.arange(start, start + leaf.width) for start, leaf in zip(starts[:-1], leaves, strict=True)]
    ordered = [k for kind in ("vector", "choice", "image") for k, leaf in enumerate(leaves) if leaf.kind == kind]
    factor = 1.0
    for leaf in leaves:
        if leaf.kind == "image" and (not leaf.byte or leaf.levels):
            raise FileError(
                f"{archive.name}: boards and images of numbers that are not bytes are read differently here"
            )
        if leaf.kind == "image" and len(leaf.shape) == 2:
            factor = 255.0  # no image for SB3, which takes the bytes as they are
    return np.concatenate([ranges[k] for k in ordered]), factor


# --- algorithms -------------------------------------------------------------------------------------------------------


def _ppo(archive: SB3Archive, rest: Arrays, networks: ReadNetworks, columns: tuple[np.ndarray, float]) -> None:
    actor = [*_sequence(rest, "mlp_extractor.policy_net."), _layer(rest, "action_net.")]
    critic = [*_sequence(rest, "mlp_extractor.value_net."), _layer(rest, "value_net.")]
    networks.options["hidden"] = _widths(actor)
    if _widths(critic) != _widths(actor):
        networks.options["critic_hidden"] = _widths(critic)
    _put(networks, "actor.layers.", actor, columns)
    _put(networks, "critic.layers.", critic, columns)
    if "log_std" in rest:
        networks.policy["head.log_std"] = rest.pop("log_std")


def _sac(archive: SB3Archive, rest: Arrays, networks: ReadNetworks, columns: tuple[np.ndarray, float]) -> None:
    mean, log_std = _layer(rest, "actor.mu."), _layer(rest, "actor.log_std.")
    last = (np.concatenate([mean[0], log_std[0]]), np.concatenate([mean[1], log_std[1]]))
    _put_actor(networks, [*_sequence(rest, "actor.latent_pi."), last], columns)


def _td3(archive: SB3Archive, rest: Arrays, networks: ReadNetworks, columns: tuple[np.ndarray, float]) -> None:
    _put_actor(networks, _sequence(rest, "actor.mu."), columns)


def _dqn(archive: SB3Archive, rest: Arrays, networks: ReadNetworks, columns: tuple[np.ndarray, float]) -> None:
    layers = _sequence(rest, "q_net.q_net.")
    if len(layers) < 2:
        raise FileError(f"{archive.name} has no hidden layer, and a DQN agent here has at least one")
    networks.options |= {"hidden": _widths(layers), "dueling": False}
    _put(networks, "net.hidden.", layers[:-1], columns)
    networks.policy["net.advantage.weight"], networks.policy["net.advantage.bias"] = layers[-1]


READERS = {"ppo": _ppo, "sac": _sac, "dqn": _dqn, "td3": _td3}


def _put_actor(networks: ReadNetworks, layers: Layers, columns: tuple[np.ndarray, float]) -> None:
    """The actor of a learner whose critics are not part of its policy."""
    networks.options["hidden"] = _widths(layers)
    networks.notes.append(NOTE)
    _put(networks, "net.layers.", layers, columns)


def _put(networks: ReadNetworks, prefix: str, layers: Layers, columns: tuple[np.ndarray, float]) -> None:
    """Add layers, the first of which reads features in another order; after convolutions the order is the same."""
    order, factor = columns
    for k, (weight, bias) in enumerate(layers):
        if k == 0 and networks.options.get("images") != "cnn" and weight.shape[1:] == order.shape:
            weight = weight[:, order] * np.float32(factor)
        networks.policy |= {f"{prefix}{k}.weight": weight, f"{prefix}{k}.bias": bias}


def _sequence(rest: Arrays, prefix: str) -> Layers:
    """The linear layers of an `nn.Sequential`, in which activations are between them."""
    layer = re.compile(re.escape(prefix) + r"(\d{1,4})\.weight")
    numbers = sorted(int(found[1]) for name in rest if (found := layer.fullmatch(name)))
    return [_layer(rest, f"{prefix}{number}.") for number in numbers]


def _layer(rest: Arrays, prefix: str) -> tuple[np.ndarray, np.ndarray]:
    weight, bias = (rest.pop(f"{prefix}{part}", np.empty(0, np.float32)) for part in ("weight", "bias"))
    if weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise FileError(
            f"the model's layer {prefix[:-1]} should have weights and biases, got {weight.shape}, {bias.shape}"
        )
    return weight, bias


def _widths(layers: Layers) -> list[int]:
    return [len(bias) for _, bias in layers[:-1]]


MOST_JSON = 1 << 26  # bytes
MOST_WEIGHTS = 1 << 30
MOST_MEMBERS = 1000
MOST_RATIO = 100  # of a member's size to its compressed size; JSON shrinks to a twentieth, weights hardly at all
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
WEIGHTS = "policy.pth"


@dataclass(frozen=True)
class SB3Archive:
    """What is read of a model's zip file."""

    name: str  # in messages
    facts: dict[str, Any]  # the JSON in `data`; what is pickled inside stays the text it is
    weights: dict[str, np.ndarray]  # the policy's, by SB3's names


def read_sb3_archive(path: Path) -> SB3Archive:
    """Read the zip file that `model.save(path)` of Stable-Baselines3 wrote.

    Raises:
        FileError: It is not such a file, or one that no honest program wrote.
    """
    name = printable(path)
    if not path.is_file():
        raise FileError(f"there is no file {name}")
    if path.suffix.lower() in (".pkl", ".pickle"):
        raise FileError(f"{name} is a pickle, which is never loaded; name the zip file that model.save() wrote")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, name)
            facts = _facts(_member(archive, "data", MOST_JSON, name), name)
            weights = _weights(_member(archive, WEIGHTS, MOST_WEIGHTS, name), name)
    except FileError:
        raise
    except UNREADABLE as error:
        raise FileError(f"{name} is not a readable zip file: {printable(str(error))[:200]}") from None
    return SB3Archive(name, facts, weights)


def _check_members(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse what no honest model has, even if it would not be read."""
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise FileError(f"{name} holds {len(members):,} files, and a model of Stable-Baselines3 about six")
    for member in members:
        inner = PurePosixPath(member.filename.replace("\\", "/"))
        if inner.is_absolute() or ".." in inner.parts or ":" in member.filename:
            raise FileError(
                f"{name} names a file outside of itself, {printable(member.filename)[:80]!r}: it is not read"
            )
    if len({member.filename for member in members}) < len(members):
        raise FileError(f"{name} holds two files of one name: it is not read")


def _member(archive: zipfile.ZipFile, member: str, most: int, name: str) -> bytes:
    """One file inside, unless it is larger than it can be."""
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise FileError(f"{name} is not a model of Stable-Baselines3: there is no {member!r} inside") from None
    if info.file_size > most or info.file_size > MOST_RATIO * max(info.compress_size, 1 << 14):
        raise FileError(
            f"{name} is not read: {member!r} would grow from {info.compress_size:,} to {info.file_size:,} bytes"
        )
    with archive.open(info) as file:  # reads no more than the size that was checked
        return file.read(most)


def _facts(text: bytes, name: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name}: its 'data' is not valid JSON: {printable(str(error))[:200]}") from None
    if not isinstance(facts, dict):
        raise FileError(f"{name}: its 'data' should be a JSON object, got a {type(facts).__name__}")
    return facts


def _weights(contents: bytes, name: str) -> dict[str, np.ndarray]:
    """The arrays of a state dict; torch itself refuses pickles that do more than hold tensors."""
    _check_torch_file(contents, name)
    try:
        state = torch.load(io.BytesIO(contents), map_location="cpu", weights_only=True)
    except (*UNREADABLE, pickle.UnpicklingError, LookupError, TypeError, AttributeError, struct.error) as error:
        reason = printable(str(error).partition("\n")[0])[:200]
        raise FileError(
            f"{name}: its {WEIGHTS} holds more than weights, or is damaged, so that torch does not load it with "
            f"weights_only=True, and nothing else is tried: {reason}"
        ) from None
    if not isinstance(state, dict):
        raise FileError(f"{name}: its {WEIGHTS} should hold a dict of tensors, got a {type(state).__name__}")
    return {_checked_name(key, name): _array(key, value, name) for key, value in state.items()}


def _check_torch_file(contents: bytes, name: str) -> None:
    """torch's files are zip files too, whose members are not compressed."""
    if not zipfile.is_zipfile(io.BytesIO(contents)):
        raise FileError(f"{name}: its {WEIGHTS} is not a file of torch 1.6 or later: load and save it with a newer SB3")
    with zipfile.ZipFile(io.BytesIO(contents)) as inner:
        if any(member.compress_type != zipfile.ZIP_STORED for member in inner.infolist()):
            raise FileError(f"{name}: its {WEIGHTS} is compressed inside, as torch never writes it: it is not read")
        if sum(member.file_size for member in inner.infolist()) > len(contents):
            raise FileError(f"{name}: its {WEIGHTS} holds more than its own size: it is not read")


def _checked_name(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise FileError(f"{name}: its {WEIGHTS} should have names of weights, got {key!r:.60}")
    return key


def _array(key: str, value: Any, name: str) -> np.ndarray:
    """A tensor as an array: only a dense one of float32 whose numbers are all in the file."""
    dense = isinstance(value, torch.Tensor) and value.layout is torch.strided and value.dtype is torch.float32
    if not dense or not value.is_contiguous() or value.numel() * 4 > MOST_WEIGHTS:
        kind = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise FileError(f"{name}: the weights {key!r:.80} should be a dense float32 tensor, got {kind}")
    array = value.detach().numpy()
    if not np.isfinite(array).all():
        raise FileError(f"{name}: the weights {key!r:.80} are not all finite")
    return array
