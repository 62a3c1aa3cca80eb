"""The commands that go back into a run: `rewind`, `fork`, `diff`, `blame`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command, takes
from rookery.errors import OptionError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.training.rewind.rewind import Rewound
    from rookery.training.storage.run_dir import RunDir

WORDS = {
    "worst": "where the episode begins that is furthest below the mean of the hundred before it",
    "drop": "before the largest lasting fall of the evaluations",
    "nan": "just before the update after which a loss is not a number",
    "crash": "before the error that ended the run (if no moment is given)",
}


def add_rewind(commands: Commands) -> None:
    parser = add_command(
        commands, "rewind", _rewind, "go back to any moment of a run, bit for bit",
        "The run is trained again from its last checkpoint before the moment, in a scratch folder, and compared with "
        "what it recorded. The run itself is not changed.",
        "rookery rewind latest --at 812,340 --shell",
    )  # fmt: skip
    arguments.run_arguments(parser, ", or a crash report")
    moment_arguments(parser)
    takes(parser, "--watch FILE", "record a video of the agent as it was: .mp4, .gif or .webp")
    takes(parser, "--dump DIR", "write the batch, the weights, and the minibatch and gradients of the next update")
    takes(parser, "--shell", "open a Python prompt with learner, envs, agent and batch")
    arguments.trust_argument(parser)


def moment_arguments(parser: argparse.ArgumentParser) -> None:
    """Which moment of a run is meant."""
    takes(parser, "--at STEP", "the last moment with at most so many steps, such as 812,340")
    takes(parser, "--update N", "just before this update, with all that it learns from", type=int)
    takes(parser, "--episode N", "where this episode of episodes.jsonl begins", type=int)
    for word, text in WORDS.items():
        takes(parser, f"--{word}", text)


def moment_of(options: argparse.Namespace, found: RunDir) -> dict[str, Any]:
    """The moment that was requested, as keywords; without one, that before the error that ended the run."""
    words = [word for word in WORDS if getattr(options, word)]
    given = {"at": options.at, "update": options.update, "episode": options.episode}
    asked = len(words) + sum(value is not None for value in given.values())
    if not asked and "crash" in found.birth():
        return {"at": "crash"}
    if asked != 1:
        raise OptionError("give one moment: --at STEP, --update N, --episode N, " + ", ".join(f"--{w}" for w in WORDS))
    return {**given, "at": words[0] if words else options.at}


def _rewind(options: argparse.Namespace) -> int:
    found = arguments.find_run(options)
    moment = moment_of(options, found)
    moment |= arguments.check_run_world(found, options, resuming=True)
    check_installed()
    with arguments.loading():
        from rookery.training.rewind.rewind import rewind

    with arguments.stdout_to_stderr(options.json):
        live = rewind(str(found.path), runs_dir=options.runs_dir, **moment)
    with live:
        written = _write(live, options)
        arguments.show(options, lambda: live.as_json() | written, live.print)
        for name, path in () if options.json else written.items():
            print(f"{name}: {path}")
        if options.shell:
            _open_shell(live)
        return 0


def _write(live: Rewound, options: argparse.Namespace) -> dict[str, str]:
    made: dict[str, str] = {}
    with arguments.stdout_to_stderr(options.json):
        if options.watch:
            made["video"] = str(live.record(options.watch))
        if options.dump:
            made["dump"] = str(live.dump(options.dump))
    return made


def _open_shell(live: Rewound) -> None:
    import code

    import rookery

    names = {"live": live, "learner": live.learner, "envs": live.envs, "agent": live.agent, "batch": live.batch}
    text = f"{', '.join(names)} are those of this moment; live.forward() makes the next update. Ctrl-D ends."
    code.interact(banner=text, local={"rookery": rookery, **names}, exitmsg="")


def add_fork(commands: Commands) -> None:
    parser = add_command(
        commands, "fork", _fork, "train a run again from one of its moments, with other settings or another seed",
        "The fork is a run of its own, and equals RUN up to the moment. With nothing changed it ends as RUN did.",
        "rookery fork latest --at 500_000 --set ppo.clip=0.1",
    )  # fmt: skip
    arguments.run_arguments(parser)
    moment_arguments(parser)
    takes(parser, "--name NAME", "the fork's name (RUN-fork)", dest="fork_name")
    takes(parser, "--seed N", "another seed of all that follows (the parent's)", type=int)
    takes(
        parser, "--seeds N|A,B,...", "fork with N other seeds, or with the seeds A,B,..., side by side; prints how "
        "much was luck",
    )  # fmt: skip
    takes(parser, "--jobs N", "how many forks at a time (by cores and backend)", type=int)
    takes(
        parser, "--steps N", "train until the fork has this many steps in total (as RUN)", type=arguments.config_value
    )
    arguments.no_panel_argument(parser)
    arguments.set_argument(
        parser, "any that `rookery resume` can change, such as ppo.learning_rate; several numbers, ppo.clip=0.1,0.2, "
        "make several forks",
    )  # fmt: skip
    arguments.trust_argument(parser)


def _fork(options: argparse.Namespace) -> int:
    several = [text for text in options.set if len(_values(text)) > 1]
    if several or options.seeds is not None:
        return _fork_many(options)
    changes = arguments.changes_from(options, **{"monitor.panel": options.panel})
    found = arguments.find_run(options)
    moment = moment_of(options, found)
    trusted = arguments.check_run_world(found, options, resuming=True)
    keywords: dict[str, Any] = {key: "none" if value is None else value for key, value in changes.items()} | trusted
    keywords |= {"name": options.fork_name, "seed": options.seed, "steps": options.steps, **moment}
    check_installed()
    with arguments.loading():
        from rookery.training.rewind.fork import fork

    with arguments.stdout_to_stderr(options.json):
        result = fork(str(found.path), runs_dir=options.runs_dir, **keywords)
    return arguments.finish_run(result, options)


def _values(text: str) -> list[Any]:
    """The numbers that `KEY=0.1,0.2` gives; of anything else, the one value.

    >>> _values("ppo.clip=0.1,0.2"), _values("a.b=1"), _values("a.b=[1, 2]"), _values("a.b=c,d")
    ([0.1, 0.2], [1], [[1, 2]], ['c,d'])
    """
    value = arguments.config_value(text.partition("=")[2])
    parts = [arguments.config_value(part) for part in value.split(",")] if isinstance(value, str) else []
    return parts if len(parts) > 1 and not any(isinstance(part, str) for part in parts) else [value]


def _fork_many(options: argparse.Namespace) -> int:
    """One fork for each combination of values and seeds, and the table."""
    found = arguments.find_run(options)
    moment = moment_of(options, found)
    if moment["at"] is None or options.seed is not None:
        raise OptionError("several forks begin at a step or a word, --at STEP or --drop, and have --seeds, not --seed")
    trusted = arguments.check_run_world(found, options, resuming=True)
    check_installed()
    with arguments.loading():
        from rookery.training.rewind.fork_many import fork_many
        from rookery.training.seeds.train_seeds import seed_list

    first = found.read_config().get("seed")
    seeds = None if options.seeds is None else seed_list(options.seeds, first + 1 if isinstance(first, int) else 1)
    settings = {text.partition("=")[0].strip(): _values(text) for text in options.set}
    keywords: dict[str, Any] = {"name": options.fork_name, "steps": options.steps, "jobs": options.jobs, **trusted}
    with arguments.stdout_to_stderr(options.json):
        result = fork_many(
            str(found.path), moment["at"], settings=settings, seeds=seeds, runs_dir=options.runs_dir, **keywords
        )
    arguments.show(options, result.as_json, result.print)
    return 1 if any(fork["state"] != "finished" for fork in result.forks) else 0


def add_diff(commands: Commands) -> None:
    parser = add_command(
        commands, "diff", _diff, "find where two runs diverge: the first step, env and layer, and by how much",
        "Compares what both recorded, then plays both again between the last step at which they agree and the first at "
        "which they do not. The exit status is 1 if they differ.",
        "rookery diff first second",
    )  # fmt: skip
    takes(parser, "names RUN", "names of runs, their folders, or latest", nargs=2)
    takes(parser, "--no-replay", "only compare what the runs recorded")
    arguments.runs_dir_argument(parser)
    arguments.trust_argument(parser)


def _diff(options: argparse.Namespace) -> int:
    check_installed()
    with arguments.loading():
        from rookery.training.rewind.diff import diff

    keywords = {"replay": not options.no_replay, "runs_dir": options.runs_dir, "trust": options.trust}
    with arguments.stdout_to_stderr(options.json):
        found = diff(*options.names, **keywords)
    arguments.show(options, found.as_json, found.print)
    return 0 if found.equal else 1


def add_blame(commands: Commands) -> None:
    parser = add_command(
        commands, "blame", _blame, "find the update that made the return fall",
        "Plays parts of the run again, and tests the agent before and after each update on the same episodes. They are "
        "the three in which the evaluations fall most, unless one is given.",
        "rookery blame latest",
    )  # fmt: skip
    arguments.run_arguments(parser)
    takes(parser, "--first STEP", "where the part begins (before a fall)", type=arguments.config_value)
    takes(parser, "--last STEP", "where it ends (after the fall)", type=arguments.config_value)
    takes(parser, "--episodes N", "episodes of each test", 20)
    arguments.trust_argument(parser)


def _blame(options: argparse.Namespace) -> int:
    found = arguments.find_run(options)
    keywords: dict[str, Any] = {"first": options.first, "last": options.last, "episodes": options.episodes}
    keywords |= arguments.check_run_world(found, options, resuming=True)
    check_installed()
    with arguments.loading():
        from rookery.training.rewind.blame import blame

    with arguments.stdout_to_stderr(options.json):
        result = blame(str(found.path), runs_dir=options.runs_dir, **keywords)
    return arguments.show(options, result.as_json, result.print)
