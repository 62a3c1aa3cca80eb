"""The end of a run, however it comes: a report, a video, a summary, a plot, and the result."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rookery.console import meanwhile, printable, say, silent
from rookery.errors import FolderLost, RookeryError
from rookery.files import own_folder
from rookery.lazy import load_object
from rookery.learners.agent import Agent
from rookery.monitor.plot_process import plot_run_early
from rookery.monitor.plots import learning_plot
from rookery.training.curriculum.curriculum import Curriculum
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.callbacks import Result
from rookery.training.run.crash import report_error, report_nan
from rookery.training.run.loop import Loop
from rookery.training.run.out_of_memory import explained_shortage
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.load_agent import load_agent
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import remember
from rookery.user_code import OBJECT
from rookery.user_dirs import state_folder
from rookery.worlds import registry
from rookery.worlds.world_spec import AgentReport, WorldSpec


def run_to_end(run: ResolvedRun, folder: RunDir, loop: Loop, observations: Any, infos: dict[str, Any]) -> Result:
    """Run the loop from these observations, and write the run's summary, also if it fails."""
    with rescued_if_lost(folder, loop):
        try:
            with explained_shortage(run):
                reason = loop.run(observations, infos)
        except BaseException as error:
            continues = getattr(error, "lower", None)  # with less memory
            if not continues and not loop.outputs.why_lost():
                write_failure(folder, loop, error)
            raise
        return finish_run(run, folder, loop, reason)


def finish_run(run: ResolvedRun, folder: RunDir, loop: Loop, reason: str) -> Result:
    """Write the summary of a run whose loop has ended for this reason, with the pictures that the config wants. The
    plot comes after it: a caller who waits for the result does not wait for Matplotlib."""
    report_nan(folder, loop)
    agent = _best_agent(folder, loop)
    made = _report_and_video(run, folder, loop, reason, agent)
    plot = {"plot": str(learning_plot(folder.path))} if run.config.monitor.plot and find_spec("matplotlib") else {}
    summary = _write_summary(folder, loop, reason, **plot, **made)
    result = Result(
        run_name=folder.name,
        path=folder.path,
        agent=agent,
        total_steps=loop.steps,
        episodes=loop.episodes.count,
        mean_reward=loop.episodes.mean_return(),
        evaluation=loop.state.last_evaluation,
        best_evaluation=loop.state.best_evaluation,
        seconds=loop.clock.elapsed,
        steps_per_second=loop.clock.steps_per_second(loop.steps),
        num_envs=loop.num_envs,
        reason=reason,
        exit_code=loop.stop.exit_code if reason == "interrupted" else 0,
    )
    if run.config.monitor.plot:
        with meanwhile("drawing the plot"):
            drawn = plot_run_early(folder.path)
        if drawn is None and plot:
            folder.write_summary({key: value for key, value in summary.items() if key != "plot"})
    loop.callbacks.call("on_end", result)
    return result


def write_failure(folder: RunDir, loop: Loop, error: BaseException) -> None:
    """Write the summary of a run that an error ends, and its crash report."""
    _write_summary(folder, loop, f"failed: {type(error).__name__}: {error}")
    report_error(folder, loop, error)


def _best_agent(folder: RunDir, loop: Loop) -> Agent:
    """The best agent by evaluation, as `rookery.load` gives it; the last one if that is the best or nothing else can be
    read. The summary tells which."""
    agent = loop.learner.agent
    agent.steps, agent.run = loop.steps, folder.path
    best = Checkpoints(folder.checkpoints).best()
    if best is None or best[0].step == loop.steps:
        return agent
    try:
        with silent():
            return load_agent(folder, device=str(agent.device), trust=True)
    except (RookeryError, OSError) as error:
        say(f"the result has the last agent, as the best one cannot be read: {error}")
        return agent


def _report_and_video(run: ResolvedRun, folder: RunDir, loop: Loop, reason: str, agent: Agent) -> dict[str, str]:
    """The report and the video, if the config wants them and they can be made, and nobody asked to stop."""
    options = run.config.monitor
    made: dict[str, Any] = {}
    if loop.stop.asked:
        return {}
    if options.report:
        made |= _report(run, folder, loop)
    if options.video:
        from rookery.training.show.watch import record_end

        loop.outputs.event("doing", text="recording a video")
        file = own_folder(folder.videos, parents=folder.outputs != folder.path) / "agent.mp4"
        made["video"] = record_end(run.world, agent, file, loop.components.evaluator.seed)
    return {name: str(path) for name, path in made.items() if path is not None}


def _report(run: ResolvedRun, folder: RunDir, loop: Loop) -> dict[str, Any]:
    """The report of a world that has one, about the best checkpoint; if that fails, the reason is printed."""
    spec = registry.by_source(run.world.source)
    if spec is None or spec.report is None:
        return {}
    loop.outputs.event("doing", text="writing the report")
    try:
        report: AgentReport = load_object(spec.report)(folder.path, trust=True, **_session_options(run, spec))
        return {"report": report.write(folder.report), "report_verdict": report.summary["verdict"]}
    except Exception as error:  # noqa: BLE001 - a report must never end a run
        say(f"the report was not written: {error or type(error).__name__}")
        return {}


def _session_options(run: ResolvedRun, spec: WorldSpec) -> dict[str, Any]:
    """What the configuration of a run does not hold: options that are objects, such as bars in memory."""
    if not run.config.world.startswith(OBJECT):
        return {}
    options = {name: value for name, value in run.world.env_kwargs.items() if name != "split"}
    return {"world": spec.name, "world_options": options}


def _write_summary(folder: RunDir, loop: Loop, reason: str, **pictures: str) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "run": folder.name,
        "path": str(folder.path),
        "steps": loop.steps,
        "episodes": loop.episodes.count,
        "seconds": loop.clock.elapsed,
        "return_last_10": _without_nan(loop.episodes.mean_return(10)),
        "return_last_100": _without_nan(loop.episodes.mean_return()),
        **{f"{name}_last_10": value for name, value in loop.episodes.last_outcomes(10).items()},
        "num_envs": loop.num_envs,
        **({"restarts": loop.state.restarts} if loop.state.restarts else {}),
        "steps_per_second": loop.clock.steps_per_second(loop.steps),
        "start_seconds": loop.clock.start_seconds(loop.steps),
        "evaluation_seconds": loop.clock.evaluation_seconds,
        "eval/return": loop.state.last_evaluation,
        **dict(zip(("eval/return_low", "eval/return_high"), loop.state.last_interval, strict=False)),
        "eval/best_return": loop.state.best_evaluation,
        **_best_of(folder, loop),
        "reason": reason,
        **({} if _can_be_shown(loop.envs) else {"no_picture": True}),
        **({"no_checkpoint": True} if Checkpoints(folder.checkpoints).latest() is None else {}),
        **({"session_world": True} if loop.config.world.startswith(OBJECT) else {}),
        **({"num_episodes": loop.config.episodes} if loop.config.episodes is not None else {}),
        **({"stop_at": loop.config.evaluation.stop_at} if loop.config.evaluation.stop_at is not None else {}),
        **_curriculum_summary(loop),
        **pictures,
    }
    folder.write_summary(summary)
    loop.outputs.event("end", **summary)
    return summary


def _can_be_shown(envs: Any) -> bool:
    """By its own pictures, or by those of the env whose compiled version it is."""
    spec = registry.by_source(getattr(getattr(envs, "spec", None), "id", None))  # a curriculum's envs have none
    return bool(envs.metadata.get("render_modes") or (spec is not None and spec.original is not None))


def _best_of(folder: RunDir, loop: Loop) -> dict[str, Any]:
    """Where the best evaluation was, and whether the last one is worse, if the checkpoint of the best is there."""
    best = Checkpoints(folder.checkpoints).best()
    if best is None or best[1] != loop.state.best_evaluation:
        return {}
    return {"eval/best_step": best[0].step, **({"eval/last_is_worse": True} if loop.state.last_is_worse else {})}


def _curriculum_summary(loop: Loop) -> dict[str, bool]:
    if not isinstance(loop.curriculum, Curriculum):
        return {}
    return {"phases_done": loop.curriculum.finished, "league": loop.curriculum.envs.opponents is not None}


def _without_nan(value: float) -> float | None:
    return None if value != value else value


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
    why = str(error) if isinstance(error, FolderLost) else loop.outputs.why_lost()
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
        checkpoints = loop.config.checkpoints.model_copy(update={"dir": None})
        config = loop.config.model_copy(update={"checkpoints": checkpoints})
        rescued.write_config(config.model_dump(mode="json"))
        Checkpoints(rescued.path / "checkpoints", run=rescued.id).save(loop.steps, tree)
        remember(rescued, config)  # the user's own run, as the lost one was
    except BaseException:
        rescued.discard()
        raise
    return rescued


def _tree(loop: Loop) -> dict[str, Any]:
    """All of a checkpoint, or the agent alone if the run is in the middle of something."""
    try:
        tree = loop.state.tree() | loop.callbacks.tree()
        # Other processes of the run may be anywhere: they are not asked for their envs.
        return tree if loop.learner.processes == 1 else {**tree, "envs": {}}
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent is worth more
        say(f"only the agent can be saved: {error or type(error).__name__}")
        return {"agent": loop.state.agent_tree()}
