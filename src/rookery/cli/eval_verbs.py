"""The commands `eval` and `watch`: evaluate a trained agent, in its env or against opponents; record a video of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import say
from rookery.errors import OptionError, RookeryError
from rookery.files import check_file
from rookery.lazy import load_object
from rookery.training import check_installed
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir
    from rookery.worlds.world_spec import AgentReport

EPISODES = 100
SETTABLE = ("episodes", "seed", "deterministic", "opponents")  # in the section `evaluation`


def add_eval(commands: Commands) -> None:
    parser = add_command(
        commands, "eval", _eval, "evaluate a trained agent",
        "Plays complete episodes, each with a seed of its own, so that returns can be compared between runs. "
        "With --opponent it plays games, and changes sides after each one.",
        "rookery eval latest --opponent strong --games 1000",
    )  # fmt: skip
    arguments.run_arguments(parser, f"; {arguments.shipped_help()}; or my_agent.py:Agent")
    takes(
        parser, "--opponent WHO",
        f"play games against none (stands still), weak or strong (scripts), {arguments.shipped_help()}, a run, a "
        "checkpoint's folder or my_agent.py:Agent; can be repeated (for a run: the world that it was "
        "trained in; else weak and strong)", action="append", dest="opponents",
    )  # fmt: skip
    takes(
        parser, "--episodes --games N", f"number of episodes, or of games against each opponent ({EPISODES})", type=int
    )
    takes(parser, "--seed N", "seed of the episodes (as in the run's evaluations)", type=int)
    takes(parser, "--world WORLD", "play in another world (the one that it was trained in)")
    takes(
        parser, "--stochastic", "sample actions instead of taking the deterministic ones (as in the run's evaluations)"
    )
    arguments.set_argument(
        parser,
        "world, an option of the world such as world_options.opponent=strong, or one of "
        f"{', '.join(f'evaluation.{name}' for name in SETTABLE)}",
    )
    arguments.last_argument(parser)
    arguments.trust_argument(parser)


def _eval(options: argparse.Namespace) -> int:
    arguments.check_positive(options, "episodes")
    arguments.check_seed(options.seed)
    flags = {
        "world": options.world,
        "evaluation.episodes": options.episodes,
        "evaluation.seed": options.seed,
        "evaluation.deterministic": False if options.stochastic else None,
        "evaluation.opponents": options.opponents,
    }
    _refuse_bare_options(options.set)
    changes = arguments.changes_from(options, **flags)
    _refuse_others(changes)
    chosen = changes.get("evaluation", {})
    keywords = {key: chosen[key] for key in ("seed", "deterministic") if chosen.get(key) is not None}
    keywords |= {key: changes[key] for key in ("world", "world_options") if key in changes}
    keywords |= {"best": options.best, "episodes": chosen.get("episodes", EPISODES)}
    has_no_run = ".py:" in options.name or _is_folder_of_agent(options.name)
    found = None if has_no_run else arguments.find_run_or_shipped(options)
    keywords |= {} if "world" in changes else arguments.check_run_world(found, options)
    opponents = chosen.get("opponents") or []
    if opponents or (found is None and not _is_for_one(options.name, keywords.get("world"))):
        return _eval_games(options, opponents, keywords)
    return _eval_episodes(options, found, keywords)


def _is_folder_of_agent(name: str) -> bool:
    return (Path(name) / "manifest.json").is_file()


def _is_for_one(name: str, world: str | None) -> bool:
    """Whether episodes are played with the agent in this folder, as the world has one seat."""
    if world is None or not _is_folder_of_agent(name):
        return False
    from rookery.training.resolve.world_choice import find, num_agents

    found = find(world)
    spec = registry.by_source(found.source)
    return num_agents(found) == 1 and (spec is None or spec.two_player is None)


def _refuse_bare_options(overrides: list[str]) -> None:
    """Say how an option of the world is written to those who give its name alone."""
    from rookery.config.fields import keys_of
    from rookery.config.layers import OLD_NAMES

    for text in overrides:
        key, equals, _ = text.partition("=")
        if equals and key.isidentifier() and key not in keys_of("") and key not in OLD_NAMES:
            raise OptionError(f"--set {text}: unknown key `{key}`; an option of the world is `world_options.{key}`")


def _refuse_others(changes: Mapping[str, Any]) -> None:
    """Refuse keys that decide about training only."""
    found = {*changes, *(f"evaluation.{key}" for key in changes.get("evaluation", {}))}
    allowed = {"world", "world_options", "evaluation", *(f"evaluation.{name}" for name in SETTABLE)}
    for key in sorted(found - allowed):
        raise OptionError(
            f"`{key}` has no effect on an evaluation; these have: world, world_options.*, "
            f"{', '.join(f'evaluation.{name}' for name in SETTABLE)}"
        )


def _eval_episodes(options: argparse.Namespace, found: RunDir | None, keywords: dict[str, Any]) -> int:
    from rookery import printing

    check_installed()
    with arguments.loading():
        from rookery.training.evaluation.evaluate import counting, evaluate

    with arguments.stdout_to_stderr(options.json), counting(keywords["episodes"], "episodes") as progress:
        agent = options.name if found is None else str(found.path)
        metrics = evaluate(agent, options.runs_dir, progress=progress, **keywords)
    with arguments.stdout_to_stderr(options.json):
        _say_restarts(metrics)
        report = None if found is None else _report(found, keywords)
    if options.json:
        printing.emit_json(dict(metrics) | ({} if report is None else {"report": report.summary}))
        return 0
    metrics.print()
    if report is not None and found is not None:
        print()
        report.print()
        print(f"\nreport: {report.write(found.report)}")
    return 0


def _report(found: RunDir, keywords: Mapping[str, Any]) -> AgentReport | None:
    """The report of a run's world, if it has one and no other world was requested."""
    from rookery.config import build_config
    from rookery.training.resolve import world_choice

    config = build_config(found.read_config())
    if "world" in keywords or config.world.startswith(world_choice.OBJECT):
        return None
    spec = registry.by_source(
        world_choice.find(config.world, config.takes_compiled, config.learner, config.world_options).source
    )
    if spec is None or spec.report is None:
        return None
    try:
        return load_object(spec.report)(
            found.path,
            checkpoint="best" if keywords["best"] else "latest",
            deterministic=keywords.get("deterministic", True),
            world_options=keywords.get("world_options"),
            trust=True,  # it was requested with the evaluation
        )
    except RookeryError as error:  # the evaluation is worth showing without it
        say(f"there is no report: {error}")
        return None


def _eval_games(options: argparse.Namespace, opponents: list[str], keywords: dict[str, Any]) -> int:
    check_installed()

    with arguments.loading():
        from rookery.training.evaluation.evaluate import counting, evaluate_games

    games = keywords.pop("episodes")
    with arguments.stdout_to_stderr(options.json), counting(games) as progress:
        played = evaluate_games(options.name, opponents, options.runs_dir, games, progress=progress, **keywords)
    with arguments.stdout_to_stderr(options.json):
        _say_restarts(played)
    return arguments.show(options, played.as_json, played.print)


def _say_restarts(metrics: Mapping[str, Any]) -> None:
    """Say that an env has failed: the results are of what was played to its end."""
    if metrics.get("restarts"):
        times = "once" if metrics["restarts"] == 1 else f"{metrics['restarts']} times"
        say(
            f"envs failed {times} and were restarted, and the episodes that this cut short were played again; a run "
            "with `on_failure` = raise and `bad_values` = raise shows the error"
        )


VIDEO_FILES = (".mp4", ".gif", ".webp")


def add_watch(commands: Commands) -> None:
    parser = add_command(
        commands, "watch", _watch, "record a video of a trained agent",
        "With --live it opens a window instead.",
        "rookery watch latest --episodes 3 --out cartpole.gif",
    )  # fmt: skip
    arguments.run_arguments(parser, f"; or {arguments.shipped_help()}")
    takes(parser, "--episodes N", "number of episodes (up to 5, until the video lasts 10 seconds)", type=int)
    takes(
        parser, "--out FILE", "the video file, .mp4, .gif or .webp (videos/step-N.mp4 in the run's folder; for an "
        "agent that comes with rookery: NAME.mp4 in the current folder)",
    )  # fmt: skip
    takes(
        parser, "--opponent WHO",
        f"the opponent, in a game for two: weak, strong, none (stands still), {arguments.shipped_help()}, a run, "
        "a checkpoint's folder, or my_agent.py:Agent (the opponent of the training, if there was only one; else "
        "strong)",
    )  # fmt: skip
    takes(parser, "--live", "show it in a window instead of writing a file")
    takes(
        parser, "--grid N", "show N envs at once, each with its own --episodes (without N: as many as the run trained "
        "on, up to 16)", type=int, nargs="?", const=True, default=False,
    )  # fmt: skip
    takes(parser, "--fps N", "frames per second (as the world declares)", type=int)
    takes(parser, "--seed N", "seed of the env (as in the run's evaluations)", type=int)
    arguments.last_argument(parser, default=None)  # the best, or the newest of a run that is still training
    arguments.trust_argument(parser)


def _watch(options: argparse.Namespace) -> int:
    arguments.check_positive(options, "episodes", "fps")
    if options.out and Path(options.out).suffix.lower() not in VIDEO_FILES:
        raise OptionError(f"out should name a file ending in .mp4, .gif or .webp, got {options.out!r}")
    if options.out and options.live:
        raise OptionError("give --out for a file or --live for a window, not both")
    arguments.check_seed(options.seed)
    if options.out:
        check_file(options.out)
    found = arguments.find_run_or_shipped(options)
    trusted = arguments.check_run_world(found, options)
    check_installed()
    say(f"{'showing' if options.live else 'recording'} {options.name if found is None else found.name}")
    with arguments.loading():
        from rookery.training.show.watch import watch

    with arguments.stdout_to_stderr(options.json):
        path = watch(
            options.name if found is None else str(found.path), options.runs_dir, episodes=options.episodes,
            out=options.out, live=options.live, fps=options.fps, best=options.best, seed=options.seed,
            opponent=options.opponent, grid=options.grid, **trusted,
        )  # fmt: skip
    return arguments.print_path(path, options)
