"""The commands that put agents to use: `deploy` to a registry, `serve` over HTTP, `schedule` both every day."""

from __future__ import annotations

import argparse
import json
import os
import signal
from typing import TYPE_CHECKING, Any

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import say
from rookery.errors import OptionError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.deploy.promotion import Deployment
    from rookery.deploy.registry import Registry

SHOWN = 5  # entries of the log
REFUSED = 1  # the exit status if the gate does not hold


def add_deploy(commands: Commands) -> None:
    parser = add_command(
        commands, "deploy", _deploy, "register the best agent of a study or run, if it beats the current one",
        "Takes the best verified trial of a study, or a run, compares it with the champion of a registry on data that "
        "neither has seen, and promotes it if the gate of the world holds. Without X it shows the registry.",
        "rookery deploy cartpole-ppo --to agents/cartpole --watch",
    )  # fmt: skip
    takes(parser, "name X", "the name or folder of a study or of a run", nargs="?")
    takes(parser, "--to DIR", "the folder of the registry; made if it is missing", required=True)
    what = parser.add_mutually_exclusive_group()
    takes(what, "--watch", "follow the study, and promote whenever there is a better one")
    takes(what, "--rollback", "swap the champion and the previous version")
    takes(what, "--dry-run", "compare, print what would happen and why, and change nothing")
    takes(parser, "--every S", "seconds between looks with --watch", 60.0)
    _comparison_arguments(parser)
    takes(parser, "--studies-dir DIR", "the folder that contains the studies", "studies")
    takes(parser, "--storage URL", "the database of the study, if it is not in the study's folder")
    takes(parser, "--mlflow MODEL", "show the registry as this registered model of MLflow as well")
    arguments.runs_dir_argument(parser)
    arguments.trust_argument(parser)


def _comparison_arguments(parser: argparse.ArgumentParser) -> None:
    takes(
        parser, "--margin M", "by how much it must be better: of the mean return, of the share of decided games or of "
        "the Sharpe ratio a year (0)", type=float,
    )  # fmt: skip
    takes(parser, "--episodes --games N", "how many new episodes (200) or games (400) decide", type=int)
    takes(
        parser, "--checkpoint", "which agent of the run (the one that the study compared)", choices=("best", "latest")
    )
    takes(parser, "--last", argparse.SUPPRESS, dest="checkpoint", action="store_const", const="latest")
    takes(parser, "--first", "take the first champion without a comparison")
    takes(parser, "--again", "compare a candidate again even if it was compared before")
    takes(parser, "--seed N", "seed of the new episodes (a random one, never used before)", type=int)


def _deploy(options: argparse.Namespace) -> int:
    arguments.check_positive(options, "episodes")
    if options.every <= 0:
        raise OptionError(f"every should be a number of seconds above 0, got {options.every:g}")
    if options.rollback and options.name:
        raise OptionError(
            f"--rollback takes no study or run, got {options.name!r}: it makes the previous version champion"
        )
    if options.name is None and (options.watch or options.dry_run):
        raise OptionError(
            f"{'--watch' if options.watch else '--dry-run'} needs a study or run: `rookery deploy X --to DIR`"
        )
    if options.watch and (options.first or options.again):
        raise OptionError("--first and --again are about one decision: deploy once with them, then --watch without")
    check_installed()
    from rookery.deploy.registry import Registry

    registry = Registry(options.to)
    if options.rollback:
        version = registry.rollback({"why": "rollback"})
        _export(registry, options)
        return _print(options, registry, f"version {version.number} is the champion again")
    if options.name is None:
        return _print(options, registry, "")
    with arguments.loading():
        from rookery.deploy import promotion  # noqa: F401 - loads torch
    return _watch(options, registry) if options.watch else _decide(options, registry)


def _decide(options: argparse.Namespace, registry: Registry) -> int:
    from rookery.deploy.promotion import deploy

    with arguments.stdout_to_stderr(options.json):
        decision = deploy(
            options.name, options.to, margin=options.margin, episodes=options.episodes, first=options.first,
            again=options.again, dry_run=options.dry_run, seed=options.seed, trust=options.trust, **_where(options),
        )  # fmt: skip
    if not options.dry_run:
        _export(registry, options)
    text = f"{'dry run: ' if options.dry_run else ''}{decision.action}: {decision.text}"
    arguments.show(options, decision.as_json, lambda: print(text))
    return REFUSED if decision.action == "refused" else 0


def _watch(options: argparse.Namespace, registry: Registry) -> int:
    """Ends with status 0 when it is told to by SIGTERM, as systemd does."""
    from rookery import printing
    from rookery.deploy.comparison import ComparisonOptions
    from rookery.deploy.promotion import Watcher

    def report(decision: Deployment) -> None:
        if options.json:
            printing.emit_json(decision.as_json())
        if decision.action == "promoted":
            _export(registry, options)

    how = ComparisonOptions(options.margin, options.episodes, options.seed, options.trust)
    tell = (lambda line: None) if options.json else (lambda line: print(line, flush=True))
    watcher = Watcher(options.name, options.to, how, where=_where(options), tell=tell, on_decision=report)
    before = signal.signal(signal.SIGTERM, lambda number, frame: watcher.stop())
    try:
        watcher.run(options.every)
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _where(options: argparse.Namespace) -> dict[str, Any]:
    names = ("studies_dir", "runs_dir", "storage", "checkpoint")
    return {name: getattr(options, name) for name in names}


def _export(registry: Registry, options: argparse.Namespace) -> None:
    if options.mlflow and registry.exists:
        from rookery.deploy.registry import export_to_mlflow

        export_to_mlflow(registry, options.mlflow)


def _print(options: argparse.Namespace, registry: Registry, text: str) -> int:
    """Show who is champion, and the last changes."""
    from rookery import printing
    from rookery.training.storage.registry_folder import read_state

    read_state(registry.folder)  # says so if there is no registry
    aliases, log = registry.aliases(), registry.audit()
    if options.json:
        versions = {version.number: version.about for version in registry.versions()}
        printing.emit_json({"aliases": aliases, "versions": versions, "audit": log})
        return 0
    if text:
        print(text)
    for alias, number in aliases.items():
        print(f"{alias:<11} version {number}")
    for entry in log[-SHOWN:]:
        change = f" {entry['from']} -> {entry['to']}" if "to" in entry else ""
        print(f"{entry['time']}  {entry['what']}{change}  by {entry['who']}")
    return 0


def add_serve(commands: Commands) -> None:
    parser = add_command(
        commands, "serve", _serve, "answer requests for actions over HTTP",
        "POST /act takes observations and returns actions; GET /health and /version tell about the server. The agent "
        "is the champion of a registry, and a newly promoted one takes over without a restart. The token is read from "
        "the environment variable ROOKERY_SERVE_TOKEN; it is needed for any --host but this machine's own.",
        "rookery serve agents/ --port 8000",
    )  # fmt: skip
    takes(parser, "name DIR", "the folder of a registry; or the name of a run, its folder, or a saved agent")
    arguments.runs_dir_argument(parser)
    takes(parser, "--host", "the address to listen on", "127.0.0.1")
    takes(parser, "--port", "the port to listen on; 0 is any free one", 8000)
    takes(
        parser, "--allow-host NAME[:PORT]", "another name by which clients reach it, through a proxy or a tunnel; may "
        "be given several times", action="append",
    )  # fmt: skip
    takes(parser, "--device", "where the agent computes: cpu or cuda", "cpu")
    takes(
        parser, "--max-waiting N", "requests that may wait at the same time; further ones are rejected with status 503",
        1024,
    )  # fmt: skip
    takes(parser, "--max-body MB", "largest size of a request body, in MB", 16)
    arguments.last_argument(parser)
    arguments.trust_argument(parser)


def _serve(options: argparse.Namespace) -> int:
    arguments.check_positive(options, "max_waiting", "max_body")
    check_installed()
    with arguments.loading():
        from rookery.deploy.serving.server import AgentServer
    server = AgentServer(
        options.name, host=options.host, port=options.port, runs_dir=options.runs_dir, best=options.best,
        device=options.device, trust=options.trust, most_waiting=options.max_waiting,
        most_body_bytes=options.max_body << 20, allow_hosts=options.allow_host or (),
    )  # fmt: skip
    if options.json:
        print(json.dumps({"url": server.url, "version": server.version, "pid": os.getpid()}), flush=True)
    else:
        say(f"version {server.version} of {options.name} answers at {server.url}; Ctrl-C ends it")
    server.run()
    return 0


FAILED = 1  # the exit status if a step of the last period has failed


def add_schedule(commands: Commands) -> None:
    parser = add_command(
        commands, "schedule", _schedule, "update data, search again and promote better agents, every day",
        "Runs `rookery data update`, `rookery search` and `rookery deploy` one after the other, and with --paper "
        "`rookery paper` and its --check. The study of a period is called NAME-DATE. A step that fails is attempted "
        "three times, then an alert is sent. After a restart, what was finished in the same period is not repeated.",
        "rookery schedule crypto.toml --to agents/crypto --data data/5m --every 24h",
    )  # fmt: skip
    takes(parser, "config CONFIG", "what to search: a config file or a world, as for `search`")
    takes(parser, "--to DIR", "the folder of the registry", required=True)
    takes(parser, "--data PATH", "the file or folder of bars to update first")
    takes(parser, "--every TIME", "length of a period, such as 24h or 7d", "24h")
    takes(parser, "--at HH:MM", "when a period begins, in UTC", "00:00")
    takes(parser, "--once", "do what is left of this period, then exit; for timers")
    takes(parser, "--study-name NAME", "the beginning of the studies' names (that of the config)")
    takes(parser, "--studies-dir DIR", "the folder that contains the studies (studies)")
    takes(parser, "--margin M", "as for `rookery deploy`", type=float)
    takes(parser, "--paper PATH", "bars on which the champion then trades on paper, to their end")
    takes(parser, "--max-drawdown X", "the part that the paper account may lose (0.2)", type=float)
    arguments.set_argument(parser, "as for `rookery search`, such as search.n_trials=50")
    arguments.trust_argument(parser)


def _schedule(options: argparse.Namespace) -> int:
    from rookery.deploy.schedule import ATTEMPTS, schedule

    names = ("data", "every", "at", "study_name", "studies_dir", "margin", "trust", "paper", "max_drawdown")
    chosen = {name: getattr(options, name) for name in names}
    made = schedule(
        options.config, options.to, overrides=options.set, attempts=1 if options.once else ATTEMPTS, **chosen
    )
    before = {name: signal.signal(name, lambda *_: made.stop()) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        state = made.run(options.once)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    arguments.show(options, lambda: state)
    return FAILED if any(step["state"] == "failed" for step in state["steps"].values()) else 0
