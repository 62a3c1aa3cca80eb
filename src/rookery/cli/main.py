"""The command `rookery`: words to calls. Each command imports what it needs when it runs, so that --help is quick."""

from __future__ import annotations

import argparse
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rookery.cli import convert_verb, league_verbs, train_verb
from rookery.cli.parser import Parser
from rookery.cli.run_verbs import check_file, check_seed
from rookery.console import meanwhile, printable_lines
from rookery.errors import BadValue, EnvError, OptionError, RestartLimit, RookeryError, WorkerDied
from rookery.version import __version__
from rookery.worlds import registry
from rookery.worlds.world_spec import PlayableGame, load_object

GOOD, BAD, USAGE, INTERRUPTED = 0, 1, 2, 130
ENV_FAILED = (BadValue, EnvError, RestartLimit, WorkerDied)
STEPPING = ("train", "tune", "profile", "bench")  # the commands that step an env of the user's
TRACE_LINES = 9
# Whose lines in a traceback say nothing about the user's own code.
OURS = (f'  File "{Path(__file__).parents[1]}', '  File "<frozen ')
LIBRARIES = ("site-packages", "dist-packages", str(Path(traceback.__file__).parent))
WORLD_HELP = (
    "a Gymnasium id, such as CartPole-v1; a class or function in a file, such as my_env.py:MyEnv; or "
    + " or ".join(registry.names())
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status: 0 good, 1 bad news or a failing env, 2 bad input, 130 interrupted."""
    parser, options = build_parser(), argparse.Namespace()
    try:
        options = parser.parse_args(argv)
        if options.command is None:
            parser.print_help(sys.stderr)
            return USAGE
        return options.run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        sys.stderr.close()
        return GOOD
    except ENV_FAILED as error:
        print(f"rookery: {printable_lines(error).rstrip()}{_hint(options, error)}", file=sys.stderr)
        return BAD
    except RookeryError as error:
        print(f"rookery: {printable_lines(error)}", file=sys.stderr)
        return USAGE
    except Exception as error:  # noqa: BLE001 - raised by the user's env: they want its place, not ours
        if _is_about_a_file(error):
            print(f"rookery: {printable_lines(error)}", file=sys.stderr)
            return USAGE
        print(f"{printable_lines(_failure_text(error))}{_hint(options, error)}", file=sys.stderr)
        return BAD


def _hint(options: argparse.Namespace, error: Exception) -> str:
    """What to do about an env of one's own that fails."""
    if isinstance(error, (SyntaxError, ImportError)):  # all has been said
        return ""
    world = getattr(options, "env", None) or getattr(options, "world", None) or ""
    if getattr(options, "command", None) not in STEPPING or ".py:" not in world:
        return ""
    return f"\n`rookery check {shlex.quote(world)}` looks for mistakes in it"


def _is_about_a_file(error: Exception) -> bool:
    """Whether a file or folder that was named cannot be used: no line of the user's own code was on the way."""
    if not isinstance(error, OSError) or getattr(error, "__notes__", []):
        return False
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    known = (str(Path(__file__).parents[1]), *LIBRARIES)
    return all(not Path(place).is_absolute() or any(part in place for part in known) for place in places)


def _failure_text(error: Exception) -> str:
    """One line, then the end of the traceback: the worker's own if there is one."""
    notes = getattr(error, "__notes__", [])
    raised_by = next((note.removeprefix("raised by ") for note in notes if note.startswith("raised by ")), None)
    what = f"{type(error).__name__}: {error}"
    heading = f"rookery: {raised_by} raised {what}" if raised_by else f"rookery: {what}"
    remote = next((note.partition("\n")[2] for note in notes if note.startswith("traceback in the worker")), None)
    lines = (remote or "".join(traceback.format_exception(error))).rstrip().splitlines()
    theirs = list(_without_ours(lines))
    shown = theirs if any(line.startswith("  File ") for line in theirs) else lines
    return "\n".join([heading, *(f"    {line}" for line in shown[-TRACE_LINES:])])


def _without_ours(lines: list[str]) -> Iterator[str]:
    """A traceback's lines without the frames of rookery and of Python's importer."""
    left_out = False
    for line in lines:
        if line.startswith("  File "):
            left_out = line.startswith(OURS)
        elif not line.startswith("    "):  # what was raised, or the beginning of another traceback
            left_out = False
        if not left_out:
            yield line


def build_parser() -> argparse.ArgumentParser:
    """The whole grammar."""
    parser = Parser(
        prog="rookery",
        description="Trains reinforcement-learning agents in many environments at once, as fast as the machine allows.",
        epilog="`rookery train CartPole-v1` is a first run. `rookery COMMAND --help` tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"rookery {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for module in (train_verb, league_verbs):
        module.add_commands(commands, _command)
    for add in (_add_play, _add_check, _add_tune, _add_profile, _add_bench, _add_doctor):
        add(commands)
    convert_verb.add_commands(commands, _command)
    for spec in registry.specs():
        if spec.commands is not None:
            load_object(f"{spec.commands}:add_commands")(commands, _command)
    return parser


def _command(
    commands: argparse._SubParsersAction, name: str, run: Callable, summary: str, more: str, example: str
) -> argparse.ArgumentParser:
    """A command with its help; all of them can speak JSON."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {more}",
        epilog=f"example: {example}",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, for programs")
    parser.set_defaults(run=run)
    return parser


def _world(options: argparse.Namespace) -> str:
    """The world that was named, by a name that the engine knows."""
    name = options.env
    if name.endswith(".py") and Path(name).is_file():
        raise OptionError(f"{name!r}: name the class in the file as well, such as {name}:MyEnv")
    known = registry.get(name)
    return name if known is None else known.source


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip() and word.strip() != "none")


def _add_bench(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands, "bench", _bench, "compare rookery's speed with that of other libraries",
        "All sides run the same env with the same random actions, in turns of a fraction of a second, so that a noisy "
        "machine treats them alike. The ratios are medians over the turns.",
        "rookery bench CartPole-v1 --num-envs 8 --against gymnasium,sb3 --seconds 3",
    )  # fmt: skip
    parser.add_argument("env", metavar="ENV", help=WORLD_HELP)
    parser.add_argument(
        "--num-envs", "--n-envs", type=int, default=8, metavar="N", help="how many envs each side runs (8)"
    )
    parser.add_argument(
        "--against", type=_words, default=("gymnasium", "sb3", "envpool"), metavar="LIST",
        help="the peers: some of gymnasium, sb3, envpool, with commas between, or none (all three; those that are not "
        "installed are left out)",
    )  # fmt: skip
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="how long each side is measured (3)")
    parser.add_argument(
        "--backend", type=_words, default=None, metavar="LIST",
        help="rookery's own backends to run: some of process, serial, thread, kernel; peers are compared with the "
        "first (process,serial, and kernel before them for a kernel world)",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, metavar="N", help="how many workers rookery uses (found by measuring)")
    parser.add_argument("--plot", metavar="FILE", help="also draw the figures, as .png, .svg or .pdf")


def _bench(options: argparse.Namespace) -> int:
    if options.plot:
        from rookery.tools.bench_plot import check_plot_file, draw

        check_plot_file(options.plot)
        check_file(options.plot)
    from rookery import printing
    from rookery.tools import bench

    result = bench.bench(
        _world(options), options.num_envs, options.against, options.seconds, options.backend, options.workers
    )
    if options.json:
        printing.emit_json(bench.as_json(result))
    else:
        bench.print_table(result)
    if options.plot:
        draw(result, options.plot)
    return GOOD


def _add_tune(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands, "tune", _tune, "find out how many envs and workers to use",
        "Tries the serial loop and worker processes with a few numbers of envs each, for real, and prints the call to "
        "copy: the one with the fewest envs within 5 % of the best rate.",
        "rookery tune my_env.py:MyEnv",
    )  # fmt: skip
    parser.add_argument("env", metavar="ENV", help=WORLD_HELP)
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="how long each try is measured (1)")


def _tune(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.tools import tune

    result = tune.tune(_world(options), options.seconds)
    if options.json:
        printing.emit_json(tune.as_json(result))
    else:
        tune.print_table(result)
    return GOOD


def _add_profile(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands, "profile", _profile, "see where a step's time goes and what to change first",
        "Profiles one env function by function, resets apart, then measures how the speed grows with more workers.",
        "rookery profile my_env.py:MyEnv",
    )  # fmt: skip
    parser.add_argument("env", metavar="ENV", help=WORLD_HELP)
    parser.add_argument("--steps", type=int, metavar="N", help="how many steps to profile (up to 2,000 or 2 seconds)")


def _profile(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.tools import profile

    result = profile.profile(_world(options), options.steps)
    if options.json:
        printing.emit_json(profile.as_json(result))
    else:
        profile.print_report(result)
    return GOOD


def _add_check(commands: argparse._SubParsersAction) -> None:
    parser = _command(
        commands, "check", _check, "look for mistakes in an env before training on it",
        "Steps it with random actions and checks spaces, values, determinism, buffers, pickling and speed; of a kernel "
        "world also every index, for thousands of steps, and that compiled code and plain Python agree. The exit "
        "status is 1 if there are problems. The same as rookery.testing.check_world.",
        "rookery check my_env.py:MyEnv --steps 1000",
    )  # fmt: skip
    parser.add_argument("env", metavar="ENV", help=WORLD_HELP)
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="how many steps to look at (200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of env and actions (0)")


def _check(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.testing import check_world

    check_seed(options.seed)
    with meanwhile(f"checking {options.env} by {options.steps:,} steps, several times over"):
        report = check_world(_world(options), steps=options.steps, seed=options.seed)
    if options.json:
        printing.emit_json(report.as_dict())
    else:
        print(report)
    return GOOD if report.ok else BAD


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    _command(
        commands, "doctor", _doctor, "look at this machine: cores, limits, memory, GPU, packages",
        "Says what is missing and how to get it, and really starts a worker process in each way there is. The exit "
        "status is 1 if none can be started.",
        "rookery doctor --json",
    )  # fmt: skip


def _doctor(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.tools import doctor

    findings = doctor.examine()
    if options.json:
        printing.emit_json(doctor.as_json(findings))
    else:
        doctor.print_findings(findings)
    return GOOD if doctor.healthy(findings) else BAD


def _games() -> dict[str, PlayableGame]:
    return {spec.name: spec.game for spec in registry.specs() if spec.game is not None}


def _add_play(commands: argparse._SubParsersAction) -> None:
    games = _games()
    keys = " ".join(game.keys if len(games) == 1 else f"{name}: {game.keys}" for name, game in games.items())
    modes = list(dict.fromkeys(mode for game in games.values() for mode in game.modes))
    parser = _command(
        commands, "play", _play, "play a game yourself, or watch others play",
        "Opens a window. A player is human, a script (weak or strong), agent (the one that comes with rookery), a run, "
        f"a checkpoint's folder, or an agent of your own with act(obs), such as my_agent.py:Agent. {keys}",
        f"rookery play {next(iter(games))} --opponent weak",
    )  # fmt: skip
    parser.add_argument("world", metavar="WORLD", choices=list(games), help=f"the game: {' or '.join(games)}")
    parser.add_argument("--player", metavar="WHO", default="human", help="who plays on the left (human)")
    parser.add_argument("--opponent", metavar="WHO", default="agent", help="who plays on the right (agent)")
    parser.add_argument("--runs-dir", default="runs", metavar="DIR", help="where runs are (runs)")
    parser.add_argument(
        "--mode", choices=modes, default=modes[0], help=f"what is played: {', '.join(modes)} ({modes[0]})",
    )  # fmt: skip
    parser.add_argument("--fps", type=int, default=50, metavar="N", help="steps in a second; fewer are easier (50)")
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of the games (another each time)")
    parser.add_argument("--games", type=int, metavar="N", help="stop after so many games (play on until Esc)")
    parser.add_argument("--record", metavar="FILE", help="write the last half minute to a .gif file")


def _play(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.players.numpy_opponents import find_opponent

    check_seed(options.seed)
    game = _games()[options.world]
    player, opponent = (
        who if who in game.players else find_opponent(who, options.runs_dir, registry.get(options.world))
        for who in (options.player, options.opponent)
    )
    play = load_object(game.function)
    tally = play(player, opponent, options.mode, options.fps, options.seed, options.games, options.record)
    if options.json:
        printing.emit_json(tally.as_json())
    else:
        print(tally)
    return GOOD
