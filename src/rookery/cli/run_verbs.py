"""The commands about stored runs: `resume`, `runs`, `compare`, `plot`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import confirmed, size_text
from rookery.errors import OptionError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.runs_table import Deleted, Runs


def add_resume(commands: Commands) -> None:
    parser = add_command(
        commands, "resume", _resume, "continue a run that ended or was killed",
        "It starts from the latest checkpoint, with the configuration in the run's folder. The values of flags and "
        "--set are stored there and hold for later resumes too.",
        "rookery resume latest --steps 2e6 --set evaluation.every=50_000",
    )  # fmt: skip
    arguments.run_arguments(parser)
    arguments.trust_argument(parser)
    takes(
        parser, "--steps --total-timesteps N",
        "train until the run has this many steps in total (as before), or, as in +1e6, so many more than now",
        type=_length,
    )  # fmt: skip
    takes(
        parser, "--num-episodes --episodes N", "train until the run has this many episodes in total (as before)",
        type=arguments.config_value,
    )  # fmt: skip
    arguments.no_panel_argument(parser)
    arguments.quiet_argument(parser)
    arguments.set_argument(
        parser,
        "steps, episodes, workers, on_failure, max_restarts, bad_values, on_out_of_memory, devices, one of "
        "cluster.*, evaluation.*, checkpoints.* (but not checkpoints.dir) or monitor.*, or an option that the learner "
        "can change while it runs, such as ppo.learning_rate. Other keys are rejected, because the checkpoint depends "
        "on them",
    )


class MoreSteps(NamedTuple):
    """A length that counts from the latest checkpoint on."""

    steps: Any

    def after(self, run: RunDir) -> int:
        """The total that this makes."""
        from rookery.training.storage.checkpoint import Checkpoints

        more = int(self.steps) if isinstance(self.steps, int | float) else 0
        if more < 1:
            raise OptionError(f"--steps +{self.steps}: a number of further steps is expected, such as +1e6")
        return max(Checkpoints(run.checkpoints).steps(), default=0) + more


def _length(text: str) -> Any:
    """A number of steps in total, or with a plus of further ones."""
    if text.strip().startswith("+"):
        return MoreSteps(arguments.config_value(text.strip().removeprefix("+")))
    return arguments.config_value(text)


def _resume(options: argparse.Namespace) -> int:
    from rookery.config import resumed_config
    from rookery.config.run_size import check_run_size

    found = arguments.find_run(options)
    steps = options.steps.after(found) if isinstance(options.steps, MoreSteps) else options.steps
    lengths = {"steps": steps, "episodes": options.num_episodes}
    shown = {"monitor.panel": options.panel, "monitor.verbose": getattr(options, "monitor.verbose")}
    changes = arguments.changes_from(options, **lengths, **shown)
    config, _ = resumed_config(found.read_config(), changes)
    if config.on_out_of_memory == "raise":  # else the run lowers what does not fit
        check_run_size(config)
    found.refuse_links()
    trusted = arguments.check_run_world(found, options, resuming=True)
    changes.pop("runs_dir", None)  # the same as before, or it would have been rejected
    # As a keyword, None would mean that the key is not given.
    keywords: dict[str, Any] = {key: "none" if value is None else value for key, value in changes.items()} | trusted
    check_installed()
    from rookery.monitor.plot_process import imported_early

    with imported_early(config.monitor.plot):
        with arguments.loading():
            from rookery.training.run.train import resume

        with arguments.stdout_to_stderr(options.json):
            result = resume(str(found.path), options.runs_dir, **keywords)
        return arguments.finish_run(result, options)


def add_runs(commands: Commands) -> None:
    parser = add_command(
        commands, "runs", _runs, "list runs, or delete them",
        "The run that was started last comes first. A run that is in use is never deleted.",
        "rookery runs --world CartPole-v1 --delete",
    )  # fmt: skip
    takes(parser, "names RUN", "only these runs: names, folders, or latest", nargs="*")
    takes(parser, "--world WORLD", "only runs of this world")
    takes(
        parser, "--sort KEY", "sort by a key of --json, such as best_eval or steps: the largest first",
        type=lambda text: text.replace("-", "_"),
    )  # fmt: skip
    takes(parser, "--delete", "delete the runs that RUN and --world select, with their checkpoints, after a question")
    takes(parser, "--yes", "with --delete: do not ask")
    arguments.runs_dir_argument(parser)


def _runs(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.storage.runs_table import runs

    names: list[str] = options.names
    if names and names[0] in ("rm", "remove", "delete") and not (Path(options.runs_dir) / names[0]).exists():
        raise OptionError(f"runs are deleted by an option: rookery runs {' '.join(names[1:]) or 'RUN'} --delete")
    rows = runs(*options.names, world=options.world, sort=options.sort, runs_dir=options.runs_dir)
    if options.delete:
        return _delete(options, rows)
    if options.yes:
        raise OptionError("--yes answers the question of --delete, which is not given")
    if options.json:
        printing.emit_json({"runs": rows})
    elif rows:
        rows.print()
    elif options.world:
        print(f"there are no runs of {options.world} in {options.runs_dir}; `rookery runs` lists all")
    else:
        print(f"there are no runs in {options.runs_dir}; `rookery train CartPole-v1` starts one")
    return 0


def _delete(options: argparse.Namespace, rows: Runs) -> int:
    from rookery import printing
    from rookery.training.storage.runs_table import delete_runs, disk_usage

    if not options.names and options.world is None:
        raise OptionError("--delete needs a selection: name the runs, or give their --world")
    paths = [Path(row["path"]) for row in rows]
    if paths and not options.yes:
        with arguments.stdout_to_stderr(options.json):
            rows.print()
        size = size_text(sum(map(disk_usage, paths)))
        answer = confirmed(f"delete {'this run' if len(paths) == 1 else f'these {len(paths)} runs'} ({size})?")
        if answer is None:
            raise OptionError("there is no terminal to ask on: --yes deletes without a question")
        if not answer:
            print("nothing was deleted", file=sys.stderr)
            return 1
    done = delete_runs(*paths, runs_dir=options.runs_dir)
    if options.json:
        printing.emit_json({"deleted": done.names, "bytes": done.freed, "kept": done.kept, "notes": done.notes})
    else:
        _print_deleted(done)
    return 1 if done.kept else 0


def _print_deleted(done: Deleted) -> None:
    for name in done.names:
        print(f"deleted {name}")
    for name, why in done.kept.items():
        print(f"kept {name}: {why}")
    for note in done.notes:
        print(note)
    print(f"{len(done.names)} run{'' if len(done.names) == 1 else 's'} deleted, {size_text(done.freed)} freed")


AXES = ("steps", "time", "episodes")


def add_compare(commands: Commands) -> None:
    parser = add_command(
        commands, "compare", _compare, "compare runs: evaluations, time, speed, and what differs in their configs",
        "Runs that differ only in the seed are one row: the interquartile mean over the seeds, with a 95 % bootstrap "
        "interval. The interval of a single run is that of the mean over the episodes of its last evaluation.",
        "rookery compare CartPole-v1-ppo-s0_vec16 CartPole-v1-dqn-s0_vec8",
    )  # fmt: skip
    _curve_arguments(parser)


def add_plot(commands: Commands) -> None:
    parser = add_command(
        commands, "plot", _plot, "draw the curves of runs in one plot",
        "Runs that differ only in the seed are one band: the interquartile mean over the seeds, with a 95 % bootstrap "
        "interval. With one run, and neither --x nor --metric, it is the run's own plot: returns, losses and speed.",
        "rookery plot first second --x time --output curves.svg",
    )  # fmt: skip
    _curve_arguments(parser)


def _curve_arguments(parser: argparse.ArgumentParser) -> None:
    takes(parser, "names RUN", "names of runs, their folders, or latest", nargs="+")
    takes(parser, "--x", "the horizontal axis (steps)", choices=AXES)
    takes(parser, "--metric NAME", "the vertical axis: a metric of metrics.jsonl, such as episode/return (eval/return)")
    takes(parser, "--each", "do not join the seeds of one configuration")
    takes(
        parser, "--output FILE", "the plot: .png, .svg or .pdf (in plots/ of the runs folder, named after what it "
        "shows)",
    )  # fmt: skip
    arguments.runs_dir_argument(parser)


def _compare(options: argparse.Namespace) -> int:
    from rookery.training.show.comparison import compare

    compared = compare(*options.names, **_curves(options))
    return arguments.show(options, compared.as_json, compared.print)


def _plot(options: argparse.Namespace) -> int:
    from rookery.training.show.comparison import plot

    return arguments.print_path(plot(*options.names, **_curves(options)), options)


def _curves(options: argparse.Namespace) -> dict[str, Any]:
    names = ("runs_dir", "x", "metric", "each")
    return {"out": options.output, **{name: getattr(options, name) for name in names}}
