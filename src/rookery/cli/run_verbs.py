"""The commands about runs that are there already: resume, eval, watch, export, runs. Like the others, each imports what
it needs when it runs, and the run is looked for before anything heavy is."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.console import meanwhile, say
from rookery.errors import OptionError, RunError
from rookery.training import check_installed
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir

Commands = argparse._SubParsersAction
Command = Callable[..., argparse.ArgumentParser]  # rookery.cli.main's own, with which every command begins
LOADING = "loading torch"  # which takes seconds


def shipped_help() -> str:
    """The agents that are installed with a world, for the help."""
    worlds = [spec.name for spec in registry.specs() if spec.agent is not None]
    return f"{' or '.join(worlds)} (the agent that comes with rookery)"


def add_commands(commands: Commands, command: Command) -> None:
    """Add all of them to the parser."""
    for add in (_add_resume, _add_eval, _add_watch, _add_runs, _add_export):
        add(commands, command)


def told(result: Any, as_json: bool) -> int:
    """The exit status of a run, its result printed if that is wanted."""
    if as_json:
        from rookery import printing

        printing.emit_json(result.as_json())
    return result.exit_code


def only_json(wanted: bool) -> contextlib.AbstractContextManager:
    """What a run says goes to standard error where standard output is for a program."""
    return contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext()


def _run_arguments(parser: argparse.ArgumentParser, others: str = "") -> None:
    parser.add_argument("name", metavar="RUN", help=f"a run's name, its folder, or latest{others}")
    _runs_dir_argument(parser)


def _runs_dir_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs-dir", default="runs", metavar="DIR", help="where runs are (runs)")


def _best_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--best", action="store_true", help="take the best checkpoint, not the latest")


def trust_argument(parser: argparse.ArgumentParser) -> None:
    """For commands that would run code which a run names."""
    parser.add_argument(
        "--trust", action="store_true",
        help="run the code that the run names without a question, even if you have not trained with it here",
    )  # fmt: skip


def _check_world(found: RunDir | None, options: argparse.Namespace, resuming: bool = False) -> dict[str, bool]:
    """Ask about the code of a run's world, and look the world up, before anything heavy is loaded. Returns what keeps
    the rest from asking again."""
    if found is None:
        return {}
    from rookery.config import gather, resolve
    from rookery.training.resolve import world_choice
    from rookery.training.storage import trust

    config = resolve(gather(found.read_config()))
    if resuming:
        trusted = trust.check_run(found, config, options.trust)
    else:
        trusted = trust.check_code(found, trust.world_code(config), options.trust)
    world_choice.find(config.world, config.takes_twin, config.learner, config.world_options)
    return {"trust": True} if trusted else {}


def _find(options: argparse.Namespace) -> RunDir:
    from rookery.training.storage.run_dir import RunDir

    return RunDir.find(options.name, Path(options.runs_dir))


def _find_or_shipped(options: argparse.Namespace) -> RunDir | None:
    """The run; None if there is none of this name, but an agent that comes with rookery."""
    try:
        return _find(options)
    except RunError:
        if options.name not in registry.names() or options.name not in registry.agents():
            raise
        return None


def _add_resume(commands: Commands, command: Command) -> None:
    parser = command(
        commands, "resume", _resume, "go on with a run that was ended or killed",
        "From its latest checkpoint, with the configuration in the run's folder. What --steps and --set change is "
        "written there, and holds for later resumes too.",
        "rookery resume latest --steps 2e6 --set evaluation.every=50_000",
    )  # fmt: skip
    from rookery.config import parse_value

    _run_arguments(parser)
    trust_argument(parser)
    parser.add_argument(
        "--steps", type=parse_value, metavar="N", help="train until there are so many steps in all (as before)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="change a key from now on: steps, episodes, workers, one of evaluation.*, checkpoints.* or monitor.*, or "
        "what a learner can change as it runs, such as ppo.learning_rate; can be repeated. Others are refused: they "
        "would make another run of it",
    )  # fmt: skip


def _resume(options: argparse.Namespace) -> int:
    from rookery.config import gather_changes, resumed_config

    changes = gather_changes(options.set, steps=options.steps)
    found = _find(options)
    resumed_config(found.read_config(), changes)
    found.refuse_links()
    trusted = _check_world(found, options, resuming=True)
    changes.pop("runs_dir", None)  # as it was, or it would have been refused
    # As a keyword, None would be no wish.
    wishes: dict[str, Any] = {key: "none" if value is None else value for key, value in changes.items()}
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.run.train import resume

    with only_json(options.json):
        result = resume(str(found.path), options.runs_dir, **trusted, **wishes)
    return told(result, options.json)


def _add_eval(commands: Commands, command: Command) -> None:
    parser = command(
        commands, "eval", _eval, "measure how well a trained agent does",
        "Plays whole episodes on one env with its own seed, so that figures compare across runs. With --opponent: "
        "games against others, sides alternating.",
        "rookery eval latest --opponent strong --games 1000 --best",
    )  # fmt: skip
    _run_arguments(parser, f"; {shipped_help()}; or my_agent.py:Agent")
    parser.add_argument(
        "--opponent", action="append", default=[], metavar="WHO", dest="opponents",
        help=f"play games against none (stands still), weak or strong (scripts), {shipped_help()}, a run, a "
        "checkpoint's folder or my_agent.py:Agent; can be repeated (for a run, the world as it was trained in; "
        "else weak and strong)",
    )  # fmt: skip
    parser.add_argument(
        "--episodes", "--games", type=int, default=100, metavar="N",
        help="how many to play, with --opponent against each of them (100)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of the env (that of the run's evaluations)")
    parser.add_argument("--world", metavar="WORLD", help="another world to play in (the one it was trained in)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", dest="settings",
        help="an option of the world, such as opponent=strong; can be repeated (as trained)",
    )  # fmt: skip
    parser.add_argument(
        "--stochastic", action="store_true",
        help="draw actions by chance instead of taking the likeliest (as in the run's evaluations)",
    )  # fmt: skip
    _best_argument(parser)
    trust_argument(parser)


def _eval(options: argparse.Namespace) -> int:
    _check_numbers(options, "episodes")
    check_seed(options.seed)
    from rookery.config import merge, parse_override

    world_options = merge(*(parse_override(text) for text in options.settings)) if options.settings else None
    wishes: dict[str, Any] = {
        "seed": options.seed, "best": options.best, "world": options.world,
        "world_options": world_options, **({"deterministic": False} if options.stochastic else {}),
    }  # fmt: skip
    lone = ".py:" in options.name or (Path(options.name) / "manifest.json").is_file()  # an agent without a run
    found = None if lone else _find_or_shipped(options)
    wishes |= {} if options.world else _check_world(found, options)
    if found is None or options.opponents:
        return _eval_games(options, wishes)
    from rookery import printing

    check_installed()
    with meanwhile(LOADING):
        from rookery.training.evaluation.evaluate_run import evaluate_run
        from rookery.training.evaluation.games_table import counting

    with only_json(options.json), counting(options.episodes, "episodes") as progress:
        figures = evaluate_run(
            str(found.path), options.runs_dir, episodes=options.episodes, progress=progress, **wishes
        )
    if options.json:
        printing.emit_json(figures)
    else:
        for name, value in figures.items():
            print(f"{name.removeprefix('eval/'):<12} {f'{value:,.4g}' if isinstance(value, float) else value}")
    return 0


def _eval_games(options: argparse.Namespace, wishes: dict[str, Any]) -> int:
    check_installed()
    from rookery import printing

    with meanwhile(LOADING):
        from rookery.training.evaluation.evaluate_run import evaluate_games
        from rookery.training.evaluation.games_table import counting, print_games

    with only_json(options.json), counting(options.episodes) as progress:
        figures = evaluate_games(
            options.name, options.opponents, options.runs_dir, options.episodes, progress=progress, **wishes
        )
    if options.json:
        printing.emit_json(figures)
    else:
        print_games(figures)
    return 0


def _add_watch(commands: Commands, command: Command) -> None:
    parser = command(
        commands, "watch", _watch, "see a trained agent play",
        "Writes a video, or opens a window.",
        "rookery watch latest --episodes 3 --out cartpole.gif",
    )  # fmt: skip
    _run_arguments(parser, f"; or {shipped_help()}")
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="how many to show (up to 5, until there are 10 seconds)"
    )
    parser.add_argument(
        "--out", metavar="FILE",
        help="the video, as .mp4, .gif or .webp (videos/step-N.mp4 in the run's folder; NAME.mp4 here for an agent "
        "that comes with rookery)",
    )  # fmt: skip
    parser.add_argument(
        "--opponent", metavar="WHO",
        help=f"the opponent, in a game for two: weak, strong, none (stands still), {shipped_help()}, a run, a "
        "checkpoint's folder, or my_agent.py:Agent (as trained, where that was one; else strong)",
    )  # fmt: skip
    parser.add_argument("--live", action="store_true", help="show it in a window instead of writing a file")
    parser.add_argument(
        "--grid", type=int, nargs="?", const=True, default=False, metavar="N",
        help="so many envs at once, each with --episodes of its own (as many as the run trained on, up to 16)",
    )  # fmt: skip
    parser.add_argument("--fps", type=int, metavar="N", help="frames in a second (as the world says)")
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of the env (that of the run's evaluations)")
    _best_argument(parser)
    trust_argument(parser)


def _watch(options: argparse.Namespace) -> int:
    _check_numbers(options, "episodes", "fps")
    if options.out and Path(options.out).suffix.lower() not in (".mp4", ".gif", ".webp"):
        raise OptionError(f"out should name a file ending in .mp4, .gif or .webp, got {options.out!r}")
    if options.out and options.live:
        raise OptionError("give --out for a file or --live for a window, not both")
    check_seed(options.seed)
    if options.out:
        check_file(options.out)
    found = _find_or_shipped(options)
    trusted = _check_world(found, options)
    check_installed()
    say(f"playing {options.name if found is None else found.name}" + ("" if options.live else ", to be filmed"))
    with meanwhile(LOADING):
        from rookery.training.show.watch import watch

    with only_json(options.json):
        path = watch(
            options.name if found is None else str(found.path), options.runs_dir, episodes=options.episodes,
            out=options.out, live=options.live, fps=options.fps, best=options.best, seed=options.seed,
            opponent=options.opponent, grid=options.grid, **trusted,
        )  # fmt: skip
    return _told_path(path, options.json)


def _add_export(commands: Commands, command: Command) -> None:
    parser = command(
        commands, "export", _export, "write a trained agent to a file for other programs",
        "Its normaliser and its masks are inside, and its answers are compared with the agent's own.",
        "rookery export latest --standalone agent.py",
    )  # fmt: skip
    _run_arguments(parser, f"; or {shipped_help()}, as --standalone")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--onnx", nargs="?", const="", metavar="FILE",
        help="as ONNX, to this file (policy.onnx in the run's folder); this is what is written unless told otherwise",
    )  # fmt: skip
    formats.add_argument(
        "--standalone", nargs="?", const="", metavar="FILE",
        help="as one Python file with a class Agent, which needs NumPy alone (agent.py in the run's folder; "
        "NAME_agent.py here for an agent that comes with rookery)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="write over a file that is there already")
    _best_argument(parser)


def _export(options: argparse.Namespace) -> int:
    if options.onnx or options.standalone:
        check_file(options.onnx or options.standalone)
    found = _find_or_shipped(options)
    if options.standalone is None:
        if found is None:
            raise OptionError(f"the agent {options.name} that comes with rookery is exported as --standalone")
        path = _export_onnx(found, options)
    else:
        path = _export_standalone(found, options)
    return _told_path(path, options.json)


def _export_onnx(found: RunDir, options: argparse.Namespace) -> Path:
    check_installed()
    say(f"exporting {found.name} to ONNX, which takes some seconds")
    with meanwhile(LOADING):
        from rookery.training.export.onnx_file import export_onnx

    with only_json(options.json):
        return export_onnx(
            str(found.path), options.runs_dir, out=options.onnx or None, best=options.best, **_overwriting(options)
        )


def _export_standalone(found: RunDir | None, options: argparse.Namespace) -> Path:
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.export.standalone_file import export_standalone

    run = options.name if found is None else str(found.path)
    with only_json(options.json):
        return export_standalone(
            run, options.runs_dir, out=options.standalone or None, best=options.best, **_overwriting(options)
        )


def _overwriting(options: argparse.Namespace) -> dict[str, bool]:
    return {"overwrite": True} if options.force else {}


def _told_path(path: Path | None, as_json: bool) -> int:
    if as_json:
        from rookery import printing

        printing.emit_json({"path": None if path is None else str(path)})
    elif path is not None:
        print(path)
    return 0


def check_seed(seed: int | None) -> None:
    """Refuse a seed that no generator takes."""
    from rookery.config.schema import SEEDS

    if seed is not None and seed < 0:
        raise OptionError(f"seed should be 0 or more, got {seed}")
    if seed is not None and seed >= SEEDS:
        raise OptionError(f"seed should be below {SEEDS}, got {seed}")


def check_file(name: str) -> None:
    """Refuse at once a file that could not be written in the end. Folders that are not there yet will be made."""
    path = Path(name).absolute()
    folder = next(place for place in path.parents if place.exists())
    if path.is_dir():
        raise OptionError(f"{name} is a folder: name a file")
    if not folder.is_dir():
        raise OptionError(f"{name} cannot be written: {folder} is a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise OptionError(f"{name} cannot be written: there is no permission to write to {folder}")


def _check_numbers(options: argparse.Namespace, *names: str) -> None:
    from rookery.engine.settings import positive_int

    for name in names:
        if getattr(options, name) is not None:
            positive_int(name, getattr(options, name))


def _add_runs(commands: Commands, command: Command) -> None:
    parser = command(
        commands, "runs", _runs, "list the runs there are",
        "The one that was started last comes first.",
        "rookery runs --json",
    )  # fmt: skip
    _runs_dir_argument(parser)


def _runs(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.storage.runs_table import print_table, table

    rows = table(options.runs_dir)
    if options.json:
        printing.emit_json({"runs": rows})
    elif rows:
        print_table(rows)
    else:
        print(f"there are no runs in {options.runs_dir}; `rookery train CartPole-v1` would start one")
    return 0
