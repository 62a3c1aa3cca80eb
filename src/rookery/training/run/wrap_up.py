"""The end of a run, however it comes: a summary, a plot, a video, and the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rookery.config import RunConfig
from rookery.files import own_folder
from rookery.monitor.events import Event
from rookery.training.curriculum.curriculum import Curriculum
from rookery.training.resolve.world_choice import World
from rookery.training.run.loop import Loop
from rookery.training.run.result import Result
from rookery.training.storage.run_dir import RunDir


def wrap_up(run: RunDir, config: RunConfig, world: World, loop: Loop, work: Callable[[], str]) -> Result:
    """Do the work and leave the run's folder in order, also if it fails."""
    try:
        reason = work()
    except BaseException as error:
        _end(run, loop, f"failed: {type(error).__name__}: {error}")
        raise
    _end(run, loop, reason, **_pictures(run, config, world, loop, reason))
    return Result(
        run_name=run.name,
        path=run.path,
        agent=loop.learner.agent,
        total_steps=loop.steps,
        episodes=loop.episodes.count,
        mean_reward=loop.episodes.mean_return(),
        evaluation=loop.last_evaluation,
        best_evaluation=loop.best_evaluation,
        seconds=loop.elapsed,
        steps_per_second=loop.speed,
        num_envs=loop.envs.num_envs,
        reason=reason,
        exit_code=loop.stop.exit_code,
    )


def _pictures(run: RunDir, config: RunConfig, world: World, loop: Loop, reason: str) -> dict[str, str]:
    """The plot and the video, if they were asked for and could be made."""
    made: dict[str, Path | None] = {}
    if config.monitor.plot:
        from rookery.monitor.run_plot import plot_run

        made["plot"] = plot_run(run.path)
    if config.monitor.video and reason != "interrupted":
        from rookery.training.show.watch import record

        loop.crew.sinks.write(Event("doing", loop.steps, {"text": "recording a video"}))
        file = own_folder(run.videos) / "agent.mp4"
        made["video"] = record(world, loop.learner.agent, file, loop.crew.evaluator.seed)
    return {name: str(path) for name, path in made.items() if path is not None}


def _end(run: RunDir, loop: Loop, reason: str, **pictures: str) -> None:
    summary: dict[str, Any] = {
        "run": run.name,
        "path": str(run.path),
        "steps": loop.steps,
        "episodes": loop.episodes.count,
        "seconds": loop.elapsed,
        "return_last_10": _number(loop.episodes.mean_return(10)),
        "return_last_100": _number(loop.episodes.mean_return()),
        **{f"{name}_last_10": value for name, value in loop.episodes.last_outcomes(10).items()},
        "num_envs": loop.envs.num_envs,
        "steps_per_second": loop.speed,
        "eval/return": loop.last_evaluation,
        "eval/best_return": loop.best_evaluation,
        "reason": reason,
        **(_led(loop.lead) if isinstance(loop.lead, Curriculum) else {}),
        **pictures,
    }
    run.write_summary(summary)
    loop.crew.sinks.write(Event("end", loop.steps, summary))


def _led(lead: Curriculum) -> dict[str, bool]:
    return {"phases_done": lead.finished, "league": lead.course.opponents is not None}


def _number(value: float) -> float | None:
    return None if value != value else value
