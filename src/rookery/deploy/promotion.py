"""`deploy`: put an agent to use if it is better than the one in use, on data that neither has seen; once, or whenever a
study has something new."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rookery.console import printable, say
from rookery.deploy.comparison import Candidate, ComparisonOptions, History, compare, find_candidate
from rookery.deploy.gates import GateResult
from rookery.deploy.market_gate import last_segment
from rookery.deploy.registry import Registry, Version
from rookery.errors import CheckpointError, DataError, FileError, OptionError, RegistryError, RunError, StudyError
from rookery.files import own_folder
from rookery.monitor.alerts import Alerts
from rookery.studies.trials.plans import is_market
from rookery.training.backtest.joined_account import write_account
from rookery.training.storage.checkpoint import agents_of
from rookery.training.storage.registry_folder import outputs_folder

ATTEMPTS = 3  # comparisons, if others promote in the meantime
CHECKPOINTS = ("best", "latest")
GATE = "gate"  # the folder in the outputs of a version
EVERY = 60.0  # seconds between two looks at the study
PASSING = (StudyError, RegistryError, RunError, CheckpointError, FileError, DataError, OSError)  # may be over soon


@dataclass(frozen=True)
class Deployment:
    """What `deploy` decided. `action` is "promoted", "refused" or "nothing"; in a dry run, what it would be."""

    action: str
    text: str  # the decision as a sentence
    version: int | None = None  # of the candidate; None in a dry run
    champion: int | None = None  # after the decision
    previous: int | None = None
    gate: GateResult | None = None
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        gate = None if self.gate is None else self.gate.as_json()
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "gate": gate}


def deploy(
    study: str | Path,
    to: str | Path,
    *,
    margin: float | None = None,
    episodes: int | None = None,
    checkpoint: str | None = None,
    first: bool = False,
    again: bool = False,
    dry_run: bool = False,
    studies_dir: str | Path = "studies",
    runs_dir: str | Path = "runs",
    storage: str | None = None,
    seed: int | None = None,
    trust: bool = False,
    alerts: Alerts | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Deployment:
    """Promote the best verified trial of a study, or a run, if it beats the champion of a registry.

    Args:
        study: A study or run, by its name or path.
        to: The folder of the registry; made if it does not exist.
        margin: By how much the candidate must be better: of the mean return, of the share of decided games, or of the
            Sharpe ratio a year; if omitted 0.
        episodes: How many new episodes or games are played; if omitted 200 and 400. Markets have their last segment.
        checkpoint: "best" or "latest" of the run; if omitted, the one whose value the study compared.
        first: Take the candidate as the first champion without a comparison.
        again: Compare a candidate again that was decided about before.
        dry_run: Compare, and change nothing. A look at a market's last segment is logged all the same, as it counts.
        storage: The study's database, if it is not in the study's folder.
        seed: Of the new episodes, one that no comparison has used; if omitted, a random one.
        trust: Run the code of the run's world without a question, even if this user has not trained with it here.
        alerts: Where a promotion is reported; if omitted, as the environment variables say.
    """
    if checkpoint not in (None, *CHECKPOINTS):
        raise OptionError(f"checkpoint should be one of {', '.join(CHECKPOINTS)}, got {checkpoint!r}")
    where = {"studies_dir": studies_dir, "runs_dir": runs_dir, "storage": storage, "checkpoint": checkpoint}
    candidate = find_candidate(study, **where)  # type: ignore[arg-type]
    if candidate is None:
        return Deployment("nothing", f"no trial of {printable(study)} is verified yet", dry_run=dry_run)
    options = ComparisonOptions(margin, episodes, seed, trust, stop)
    deployer = Deployer(Registry(to), options, dry_run=dry_run, alerts=alerts or Alerts.from_environment())
    return deployer.decide(candidate, first=first, again=again)


class Deployer:
    """Decides about candidates for one registry."""

    def __init__(self, registry: Registry, options: ComparisonOptions, *, dry_run: bool, alerts: Alerts) -> None:
        self.registry, self.options, self.dry_run, self.alerts = registry, options, dry_run, alerts

    def decide(self, candidate: Candidate, *, first: bool = False, again: bool = False) -> Deployment:
        """Compare a candidate with the champion, and promote it if the gate holds."""
        step = _step(candidate)
        for _ in range(ATTEMPTS):
            history, champion = History(self.registry), self.registry.champion
            if first and champion is not None:
                raise OptionError(
                    f"--first: {printable(self.registry.folder)} has a champion already, version {champion.number}"
                )
            version = history.version_of(candidate, step)
            known = None if version is None else self._known(candidate, version, champion, history, again or first)
            if known is not None:
                return known
            made = self._compare(candidate, version, champion, history, first)
            if made is not None:
                return made
        raise RegistryError(
            f"the champion of {printable(self.registry.folder)} changed {ATTEMPTS} times while {candidate.name} was "
            "compared with it: try again"
        )

    def _known(
        self, candidate: Candidate, version: Version, champion: Version | None, history: History, again: bool
    ) -> Deployment | None:
        """The answer if the candidate needs no comparison."""
        name = f"version {version.number} ({candidate.name})"
        if champion is not None and champion.number == version.number:
            return self._answer("nothing", f"{name} is the champion already", version)
        decision = history.decision(version.number, None if champion is None else champion.number)
        if decision is None or again:
            return None
        against = "the floor" if champion is None else f"champion {champion.number}"
        then = f"{name} was compared with {against} at {decision['time']}"
        if decision["what"] == "promote":
            return self._answer("refused", f"{then}, promoted and rolled back; --again compares it again", version)
        reasons = "; ".join(decision["evidence"].get("reasons", ()))
        return self._answer("refused", f"{then} and refused: {reasons}; --again compares it on new data", version)

    def _compare(
        self, candidate: Candidate, version: Version | None, champion: Version | None, history: History, first: bool
    ) -> Deployment | None:
        """The decision of the gate; None if the champion changed in the meantime."""
        if self.dry_run:
            run = candidate.run
        else:
            version = version or self._add(candidate)
            run = version.run
        gate: GateResult | None = GateResult(True, ("it is the first one, and was taken without a comparison",))
        if not first:
            log = partial(self._log, candidate, version, champion)
            gate = compare(candidate, run, None if champion is None else champion.run, history, self.options, log)
        if gate is None:
            return self._answer("nothing", f"the comparison of {candidate.name} was stopped", version)
        return self._conclude(candidate, version, champion, gate)

    def _conclude(
        self, candidate: Candidate, version: Version | None, champion: Version | None, gate: GateResult
    ) -> Deployment | None:
        before = None if champion is None else champion.number
        reasons = "; ".join(gate.reasons)
        if version is None or self.dry_run:
            would = "would be promoted" if gate.passed else "would be rejected"
            action = "promoted" if gate.passed else "refused"
            return self._answer(action, f"{candidate.name} {would}: {reasons}", None, gate)
        name = f"version {version.number} ({candidate.name})"
        write_compared(version, gate)
        if not gate.passed:
            self.registry.note("refuse", gate.as_json(), version=version.number, champion=before)
            return self._answer("refused", f"{name} is rejected: {reasons}", version, gate)
        try:
            self.registry.promote(version.number, gate.as_json(), instead_of=before)
        except RegistryError:
            if self.registry.champion_number() == before:
                raise
            return None
        text = f"{name} is the champion{'' if before is None else f' instead of version {before}'}: {reasons}"
        self.alerts.send("promotion", text, {"registry": str(self.registry.folder), **gate.as_json()})
        return self._answer("promoted", text, version, gate)

    def _log(
        self, candidate: Candidate, version: Version | None, champion: Version | None, evidence: dict[str, Any]
    ) -> None:
        """Log that a comparison begins, so that one that is killed counts too."""
        if self.dry_run and "segment" not in evidence:
            return
        number, before = (None if found is None else found.number for found in (version, champion))
        facts = {**evidence, "candidate": candidate.name, "dry_run": self.dry_run}
        Registry.create(self.registry.folder).note("compare", facts, version=number, champion=before)

    def _add(self, candidate: Candidate) -> Version:
        config = candidate.config
        about = {
            "world": config.world,
            **candidate.source,
            "run_path": str(candidate.run.path.resolve()),
            "data_hash": last_segment(candidate.run).data_hash if is_market(config) else None,
            "evaluation": _evaluation(candidate),
        }
        registry = Registry.create(self.registry.folder)
        return registry.add(candidate.run, about, checkpoint=candidate.checkpoint)

    def _answer(self, action: str, text: str, version: Version | None, gate: GateResult | None = None) -> Deployment:
        aliases = self.registry.aliases()
        number = None if version is None else version.number
        return Deployment(action, text, number, aliases.get("champion"), aliases.get("previous"), gate, self.dry_run)


def _step(candidate: Candidate) -> int:
    """The step of the checkpoint that a version is made from."""
    checkpoints = agents_of(candidate.run.name, candidate.run.checkpoints)
    step, _ = checkpoints.load_best(()) if candidate.checkpoint == "best" else checkpoints.load_latest(())
    return step


def _evaluation(candidate: Candidate) -> dict[str, Any]:
    """What the study and the run itself have measured."""
    summary = candidate.run.read_summary() or {}
    found: dict[str, Any] = {name: summary[name] for name in ("eval/return", "eval/best_return") if name in summary}
    if candidate.study is not None and candidate.trial is not None:
        verified = candidate.study.verified[candidate.trial]
        found |= {"verified": verified.iqm, "interval": verified.interval, "values": dict(verified.values)}
    return found


def write_compared(version: Version, gate: GateResult) -> None:
    """Write the accounts that a gate has compared to `outputs/NUMBER/gate/`. A full disk does not stop a decision."""
    if not gate.accounts:
        return
    try:
        folder = own_folder(outputs_folder(version.folder) / GATE)
        for name, account in gate.accounts.items():
            write_account(folder / f"{name}.npy", account)
        for other in {"candidate", "champion"} - gate.accounts.keys():
            (folder / f"{other}.npy").unlink(missing_ok=True)  # of an earlier comparison
    except OSError as error:
        say(f"the accounts of the comparison were not written: {error}")


class Watcher:
    """Follows one study for one registry. What it has decided is in the registry's log, so that a new watcher continues
    where the last one ended, and promotes no trial twice."""

    def __init__(
        self,
        study: str | Path,
        to: str | Path,
        options: ComparisonOptions | None = None,
        *,
        where: dict[str, Any] | None = None,
        alerts: Alerts | None = None,
        tell: Callable[[str], None] = print,
        on_decision: Callable[[Deployment], None] = lambda decision: None,
    ) -> None:
        """`where` holds options of `find_candidate`. `tell` gets a line per decision, and one when the study cannot be
        read; `on_decision` every decision."""
        self.study, self.where, self.tell, self.on_decision = study, where or {}, tell, on_decision
        self._stopped = threading.Event()
        options = replace(options or ComparisonOptions(), stop=self._stopped.is_set)
        self._registry = Registry(to)
        self._deployer = Deployer(self._registry, options, dry_run=False, alerts=alerts or Alerts.from_environment())
        self._told = ""

    def stop(self) -> None:
        """End `run` soon, also from a signal handler. A comparison that is under way is given up."""
        self._stopped.set()

    def run(self, every: float = EVERY) -> None:
        """Look at the study again and again, until `stop()`."""
        while not self._stopped.is_set():
            try:
                self.look()
            except PASSING as error:
                self._tell(f"waiting: {error}")
            self._stopped.wait(every)

    def look(self) -> Deployment | None:
        """Look once; returns the decision, or None if there is nothing to decide."""
        candidate = find_candidate(self.study, **self.where)
        if candidate is None:
            self._tell(f"waiting: no trial of {printable(self.study)} is verified yet")
            return None
        version = History(self._registry).promoted_trial(candidate)
        if version is not None:
            self._tell(f"nothing new: {candidate.name} was promoted as version {version}")
            return None
        decision = self._deployer.decide(candidate)
        self._tell(f"{decision.action}: {decision.text}")
        self.on_decision(decision)
        return decision

    def _tell(self, line: str) -> None:
        if line != self._told:  # a study that is not there for a day is one line
            self.tell(line)
        self._told = line
