"""A run whose folder is lost: what it has learned is saved elsewhere, as a run that can be resumed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rookery.config import RunConfig
from rookery.console import printable, say
from rookery.errors import FolderLost, RookeryError
from rookery.training.run.loop import Loop
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import remember
from rookery.user_dirs import state_folder

LONGEST_NAME = 90  # characters of the lost run's name


@contextmanager
def rescued_if_lost(folder: RunDir, loop: Loop) -> Iterator[None]:
    """If the block ends by an error because the run's folder is lost, save what there is, and raise a FolderLost that
    says where."""
    try:
        yield
    except BaseException as error:
        lost = rescue(folder, loop, error)
        if lost is None:
            raise
        if not isinstance(error, Exception):  # such as a KeyboardInterrupt
            say(str(lost))
            raise
        raise lost from error


def rescue(folder: RunDir, loop: Loop, error: BaseException) -> FolderLost | None:
    """The error to raise instead, after what the run has learned was saved; None if its folder is where it was."""
    why = str(error) if isinstance(error, FolderLost) else loop.components.why_lost()
    if not why:
        return None
    saved = _save(folder, loop)
    if saved is None:
        return FolderLost(f"{why}; the agent could not be saved elsewhere either")
    place = printable(saved.path.absolute())
    return FolderLost(
        f"{why}; the run ends at step {loop.steps}, and its agent is saved in {place}: `rookery resume {place}` "
        "continues it"
    )


def _save(folder: RunDir, loop: Loop) -> RunDir | None:
    """A new run with a checkpoint of this moment: beside the lost folder, among the user's own files, or among the
    temporary ones."""
    tree = _tree(loop)
    for base in _places(folder):
        try:
            return _save_in(base, f"{folder.name[:LONGEST_NAME]}-rescued", loop, tree)
        except (OSError, RookeryError) as error:
            say(f"the agent cannot be saved in {printable(base)}: {error}")
    return None


def _places(folder: RunDir) -> Iterator[Path]:
    parent = Path(folder.path).absolute().parent
    if parent.is_dir():  # it is not made again either
        yield parent
    own = state_folder("rescued")
    if own is not None:
        yield own
    yield Path(tempfile.mkdtemp(prefix="rookery-rescued-"))


def _save_in(base: Path, name: str, loop: Loop, tree: dict[str, Any]) -> RunDir:
    rescued = RunDir.create(base, name)
    try:
        config = _with_own_checkpoints(loop.config)
        rescued.write_config(config.model_dump(mode="json"))
        Checkpoints(rescued.path / "checkpoints", run=rescued.id).save(loop.steps, tree)
        remember(rescued, config)  # the user's own run, as the lost one was
    except BaseException:
        rescued.discard()
        raise
    return rescued


def _with_own_checkpoints(config: RunConfig) -> RunConfig:
    return config.model_copy(update={"checkpoints": config.checkpoints.model_copy(update={"dir": None})})


def _tree(loop: Loop) -> dict[str, Any]:
    """All of a checkpoint, or the agent alone if the run is in the middle of something."""
    try:
        tree = loop.state.tree() | loop.callbacks.tree()
        # Other processes of the run may be anywhere: they are not asked for their envs.
        return tree if loop.learner.processes == 1 else {**tree, "envs": {}}
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent is worth more
        say(f"only the agent can be saved: {error or type(error).__name__}")
        return {"agent": loop.state.agent_tree()}
