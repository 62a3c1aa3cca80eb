"""`init_from`: the weights and normalisers of another run, with which a new run begins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rookery.config import RunConfig
from rookery.console import printable, say
from rookery.errors import CheckpointError, OptionError, RookeryError, RunError
from rookery.learners.learner import Learner, Tree
from rookery.learners.learner_spec import NET_OPTIONS, WIDTHS, Options
from rookery.learners.plain_spaces import from_tree
from rookery.learners.registry import option_classes
from rookery.training.resolve.engine_choice import MAX_ADAPTIVE_ENVS
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.seats import NO_STEP_LIMIT, all_opponents, with_opponents
from rookery.training.run.loop import Loop
from rookery.training.storage.checkpoint import Checkpoints, agents_of, load
from rookery.training.storage.checkpoint_files import MALFORMED, short_text
from rookery.training.storage.load_agent import check_agent
from rookery.training.storage.registry_folder import PREFIX, find_version
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import shipped_tree, shipped_world

PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".zip", ".ckpt", ".bin", ".h5")
MANIFEST = "manifest.json"
TAKEN_OVER = (*NET_OPTIONS, "normalise_rewards")


@dataclass(frozen=True)
class InitialWeights:
    """What a new run takes from another one. Nothing of it is a pickle, and none of its code is imported here."""

    name: str  # in messages
    place: str  # as the new run's config records it
    agent: Tree  # a checkpoint's part "agent"
    learner: Tree  # its part "learner"; {} if only an agent is there

    @property
    def note(self) -> str:
        """For the new run's log."""
        return f"the agent begins with the weights and normalisers of {self.name}"


def read_initial_weights(init_from: str, runs_dir: Path) -> InitialWeights:
    """Find them by the name or folder of a run, by a checkpoint's folder or a file in it, or by the name of an agent
    that comes with rookery."""
    path = Path(init_from).expanduser()
    if path.suffix.lower() in PICKLES:
        raise OptionError(
            f"`init_from` = {init_from!r}: weights of other trainers are not read, nor is any pickle; name a run, or a "
            "folder of its checkpoints (`rookery import-sb3 model.zip` makes one of a Stable-Baselines3 model)"
        )
    if path.is_file():
        path = path.parent
    if (path / MANIFEST).is_file():
        return InitialWeights(printable(path), str(path.resolve()), *_parts(path))
    if shipped_world(init_from, runs_dir) is not None:
        return InitialWeights(init_from, init_from, shipped_tree(init_from), {})
    try:
        run = RunDir.find(init_from, runs_dir)
    except RunError as error:
        raise RunError(f"`init_from` = {init_from!r}: no checkpoint is there, and {error}") from None
    step, tree = agents_of(run.name, run.checkpoints).load_latest(("agent", "learner"))
    return InitialWeights(f"{run.name} at step {step:,}", str(run.path.resolve()), tree["agent"], tree["learner"])


def _parts(folder: Path) -> tuple[Tree, Tree]:
    try:
        tree = load(folder, ("agent", "learner"))
    except CheckpointError:  # a folder with an agent alone
        return load(folder, ("agent",))["agent"], {}
    return tree["agent"], tree["learner"]


def with_nets_of(weights: InitialWeights, config: RunConfig) -> RunConfig:
    """The config with the learner and the networks of the weights, where the user did not give others."""
    learner, theirs = _described(weights)
    if config.learner not in ("auto", learner):
        raise OptionError(
            f"`init_from`: {weights.name} was trained with {learner}, and this run has `learner` = {config.learner!r}: "
            "weights fit the same learner only"
        )
    ours = getattr(config, learner)
    for name in NET_OPTIONS:
        then, now = getattr(theirs, name, None), getattr(ours, name, None)
        if name == "network" and then is not None and name not in ours.model_fields_set:
            raise OptionError(
                f"`init_from`: {weights.name} has a network of its own, {printable(then)}; to run this code, name it: "
                f"{learner}.network={printable(then)}"
            )
        if name in ours.model_fields_set and now != then and name != "network":
            raise OptionError(
                f"`{learner}.{name}` = {now!r}, and {weights.name} has {then!r}: weights fit the same networks only; "
                f"omit `{learner}.{name}`"
            )
    inherited = {
        name: getattr(theirs, name)
        for name in TAKEN_OVER
        if name in type(ours).model_fields and name not in ours.model_fields_set
    }
    changes: dict[str, Any] = {learner: ours.model_copy(update=inherited), "learner": learner}
    return config.model_copy(update={**changes, "init_from": weights.place})


def with_initial_nets(config: RunConfig) -> RunConfig:
    """The config with the place and the networks of what `init_from` names: for several runs "latest" would be another
    run each time."""
    if config.init_from is None:
        return config
    return with_nets_of(read_initial_weights(config.init_from, Path(config.runs_dir)), config)


def _described(weights: InitialWeights) -> tuple[str, Options]:
    """The learner's name and options, which somebody else may have written."""
    try:
        learner = weights.agent["learner"]
        return learner, option_classes()[learner].model_validate(weights.agent["options"])
    except (*MALFORMED, ValidationError) as error:
        raise CheckpointError(f"`init_from`: {weights.name} describes no agent: {short_text(error)}") from error


def check_initial_weights(weights: InitialWeights, run: ResolvedRun) -> None:
    """Refuse weights for other spaces than those of the run, or that are not what they say."""
    assert run.seat is not None
    for name in ("observation_space", "action_space"):
        then, now = from_tree(weights.agent[name]), getattr(run.seat, name)
        if then != now:
            raise OptionError(
                f"`init_from`: the {name.replace('_', ' ')} of {weights.name} is {then}, and that of "
                f"{run.world.name} is {now}; they should be the same"
            )
    network = run.config.learner_options.network  # the user's own: the other run's code is not imported
    options = {**weights.agent["options"], "network": network}
    check_agent({**weights.agent, "options": options})


def load_initial_weights(weights: InitialWeights, learner: Learner) -> None:
    """Give them to a new learner."""
    try:
        learner.load_weights({**weights.learner, "policy": weights.agent["policy"]})
    except CheckpointError as error:
        raise CheckpointError(f"`init_from`: of {weights.name}, {error}") from None


def load_latest(folder: RunDir, config: RunConfig) -> Any:
    """The latest valid checkpoint, with later metrics removed; None to start over."""
    checkpoints = Checkpoints(folder.checkpoints, config.checkpoints.keep)
    if checkpoints.latest() is None:
        say(f"{folder.name} has no checkpoint yet; starting from the beginning")
        folder.truncate_after(-1)
        return None
    step, saved = checkpoints.load_latest(check=partial(_check_saved, config))
    folder.truncate_after(step)
    return saved


def _check_saved(config: RunConfig, saved: Any) -> None:
    """Refuse a checkpoint that is not of this config, before nets are made for it."""
    agent, loop = saved.get("agent"), saved.get("loop")
    check_agent(agent)
    widths = [(getattr(config.learner_options, name, None), agent["options"].get(name)) for name in WIDTHS]
    if config.learner != agent["learner"] or any(now != then for now, then in widths):
        raise CheckpointError(f"a checkpoint's agent, of {agent['learner']}, has other nets than the run's config")
    steps = loop.get("steps") if isinstance(loop, dict) else None
    if type(steps) is not int or not 0 <= steps < NO_STEP_LIMIT:
        raise CheckpointError(f"a checkpoint has {steps!r:.40} steps, which is not possible")
    num_envs = loop.get("num_envs")
    if config.num_envs == "adaptive" and (type(num_envs) is not int or not 1 <= num_envs <= MAX_ADAPTIVE_ENVS):
        raise CheckpointError(
            f"a checkpoint has {num_envs!r:.40} envs, and adaptive runs have up to {MAX_ADAPTIVE_ENVS}"
        )


def load_into(loop: Loop, saved: Any) -> tuple[Any, dict[str, Any]]:
    """Continue from a checkpoint. One that is complete but was not written by rookery may fail in any way."""
    try:
        return loop.load(saved)
    except RookeryError:
        raise
    except MALFORMED as error:
        if getattr(error, "__notes__", None):  # of the user's env
            raise
        raise CheckpointError(f"the run cannot continue from its checkpoint: {short_text(error)}") from error


def with_fixed_versions(config: RunConfig) -> RunConfig:
    """Opponents such as "registry:agents@champion" as the folders of the versions that these are now, so that a resumed
    run plays against the same ones."""
    named = [opponent.who for opponent in all_opponents(config)]
    if not any(who.startswith(PREFIX) for who in (*named, *config.evaluation.opponents, *config.league.baselines)):
        return config

    def folder(who: str) -> str:
        version = find_version(who)
        return who if version is None else str(version.resolve())

    return with_opponents(config, folder)
