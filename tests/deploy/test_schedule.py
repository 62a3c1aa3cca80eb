"""`rookery schedule`: each step once a period, whatever fails and whenever it is restarted."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.recorded_alerts import Recorder
from rookery.cli.main import build_parser, main
from rookery.deploy import schedule
from rookery.deploy.schedule import Plan, Schedule
from rookery.errors import OptionError, RunBusy


class Commands:
    """Stands in for `rookery WORDS...`: `scripts` has a shell script for a verb."""

    def __init__(self, **scripts: str) -> None:
        self.scripts, self.calls = scripts, list[tuple[str, ...]]()

    def __call__(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        self.calls.append(words)
        return subprocess.Popen(["/bin/sh", "-c", self.scripts.get(words[0], "exit 0")], **options)

    @property
    def verbs(self) -> list[str]:
        return [words[0] for words in self.calls]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan("crypto", "crypto.toml", "agents", data="data/5m", studies_dir=str(tmp_path / "studies"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "RETRY_SECONDS", 0.0)


def run(plan: Plan, commands: Commands, **options: Any) -> tuple[dict[str, Any], Recorder]:
    alerts = Recorder()
    return Schedule(plan, alerts=alerts, start=commands, **options).run(once=True), alerts


def states(state: dict[str, Any]) -> dict[str, str]:
    return {name: step["state"] for name, step in state["steps"].items()}


def test_the_steps_are_commands_that_exist(plan: Plan) -> None:
    """Each is a line that the parser of `rookery` takes."""
    for step in plan.steps("2026-11-16"):
        if step.words[0] in build_parser()._subparsers._group_actions[0].choices:  # type: ignore[union-attr]
            build_parser().parse_args(step.words)
    assert [step.words[0] for step in plan.steps("x")] == ["data", "search", "deploy"]
    assert [step.name for step in Plan("a", "CartPole-v1", "agents").steps("x")] == ["search", "promote"]


def test_the_champion_trades_on_paper_after_the_gate(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the log is checked; where no account was traded, it is not."""
    monkeypatch.setattr(schedule.Registry, "champion_number", lambda _: 1)
    traded = replace(plan, paper="data/5m", trust=("--trust",), limits=("--max-drawdown", "0.5"))
    steps = traded.steps("x")
    assert [step.words[0] for step in steps] == ["data", "search", "deploy", "paper", "paper"]
    options = [build_parser().parse_args(step.words) for step in steps[3:]]
    assert options[0].data == "data/5m" and not options[0].check and options[1].check
    assert all(each.name == "agents" and each.trust for each in options) and options[0].max_drawdown == 0.5
    commands = Commands(paper="exit 1")
    state, alerts = run(traded, commands, attempts=1)
    assert states(state) == {
        "data": "finished", "search": "finished", "promote": "finished", "paper": "failed", "parity": "skipped",
    }  # fmt: skip
    assert len(alerts.sent) == 1 and commands.verbs[-1] == "paper"
    without, _ = run(replace(traded, paper=None), commands)
    assert set(states(without).values()) == {"finished"}  # its exit status is not that of the account's


def test_nothing_trades_on_paper_before_the_first_promotion(plan: Plan, tmp_path: Path) -> None:
    """That is said, and is not a failure; a later period trades."""
    commands = Commands(deploy="""echo '{"action": "refused", "text": "not better"}'; exit 1""")
    state, alerts = run(replace(plan, paper="data/5m", registry=str(tmp_path / "agents")), commands)
    assert states(state) == {
        "data": "finished", "search": "finished", "promote": "finished", "paper": "skipped", "parity": "skipped",
    }  # fmt: skip
    assert "promoted" in state["steps"]["paper"]["reason"] and not alerts.sent
    assert commands.verbs == ["data", "search", "deploy"]


def test_a_period_is_done_once(plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    """Data, search, promotion, in this order; a restart in the same period does nothing, and says so."""
    commands = Commands(deploy="""echo '{"action": "promoted", "text": "version 3", "more": 1}'""")
    state, alerts = run(plan, commands)
    assert commands.verbs == ["data", "search", "deploy"] and not alerts.sent
    assert set(states(state).values()) == {"finished"} and state["steps"]["promote"]["action"] == "promoted"
    study = f"crypto-{state['period']}"
    assert study in commands.calls[1] and commands.calls[2][1] == study
    assert json.loads(plan.state_file.read_text()) == state
    again, _ = run(plan, commands)
    assert again == state and len(commands.calls) == 3
    assert "nothing is left to do" in caplog.text


def test_a_new_period_begins_anew(plan: Plan) -> None:
    state, _ = run(plan, Commands())
    plan.state_file.write_text(json.dumps({**state, "period": "2020-01-01"}))
    commands = Commands()
    run(plan, commands)
    assert commands.verbs == ["data", "search", "deploy"]


def test_a_refused_promotion_is_no_failure(plan: Plan) -> None:
    commands = Commands(deploy="""echo '{"action": "refused", "text": "not better"}'; exit 1""")
    state, alerts = run(plan, commands)
    assert states(state)["promote"] == "finished" and not alerts.sent and commands.verbs.count("deploy") == 1


def test_one_failed_step_does_not_stop_the_others(plan: Plan) -> None:
    """Old data is searched too; it is attempted three times, and one alert is sent."""
    commands = Commands(data="exit 1")
    state, alerts = run(plan, commands)
    assert commands.verbs == ["data"] * 3 + ["search", "deploy"]
    assert states(state) == {"data": "failed", "search": "finished", "promote": "finished"}
    ((kind, text),) = alerts.sent
    assert kind == "schedule-failed" and "data has failed with status 1: rookery data update data/5m" in text


def test_nothing_is_promoted_after_a_failed_search_and_a_restart_tries_again(plan: Plan) -> None:
    state, alerts = run(plan, Commands(search="kill -9 $$"), attempts=1)
    assert states(state) == {"data": "finished", "search": "failed", "promote": "skipped"} and len(alerts.sent) == 1
    commands = Commands()
    state, _ = run(plan, commands)
    assert commands.verbs == ["search", "deploy"] and set(states(state).values()) == {"finished"}


def test_a_damaged_state_begins_anew(plan: Plan) -> None:
    plan.state_file.parent.mkdir()
    for text in ("{", "[]", '{"period": 3}', json.dumps({"period": plan.period(time.time())[0], "steps": []})):
        plan.state_file.write_text(text)
        commands = Commands()
        run(plan, commands)
        assert commands.verbs == ["data", "search", "deploy"]


def test_stop_ends_the_step_and_it_is_not_recorded(plan: Plan) -> None:
    """So that it continues after a restart."""
    commands = Commands(search="trap 'exit 143' TERM; sleep 60 & wait")
    made = Schedule(plan, alerts=Recorder(), start=commands)
    ended: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: ended.append(made.run()))
    thread.start()
    while len(commands.calls) < 2:
        time.sleep(0.01)
    with pytest.raises(RunBusy, match="another `rookery schedule` is at work"):
        run(plan, Commands())
    made.stop()
    thread.join(60)
    assert states(ended[0]) == {"data": "finished"}


def test_it_waits_for_the_next_period(plan: Plan) -> None:
    made = Schedule(plan, alerts=Recorder(), start=Commands())
    thread = threading.Thread(target=made.run)
    thread.start()
    while not plan.state_file.exists() or "promote" not in plan.state_file.read_text():
        time.sleep(0.01)
    assert thread.is_alive()
    made.stop()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("every", "at", "now", "name", "following"),
    [(86_400, 0, 0, "1970-01-01", 86_400),
     (86_400, 7_200, 3_600, "1969-12-31", 7_200),
     (86_400, 7_200, 7_200, "1970-01-01", 93_600),
     (21_600, 0, 30_000, "1970-01-01T0600", 43_200),
     (7 * 86_400, 0, 86_400, "1970-01-01", 604_800)],
)  # fmt: skip
def test_periods(every: float, at: float, now: float, name: str, following: float) -> None:
    assert Plan("a", "b", "c", every=every, at=at).period(now) == (name, following)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--every", "often"], "--every: a length of time"),
     (["--every", "5s"], "at least 60 s"),
     (["--at", "25:00"], "--at should be a time of day"),
     (["--data", "nothing-here"], "there is no such file or folder"),
     (["--set", "ppo.learning_rat=1"], "ppo.learning_rat")],
)  # fmt: skip
def test_mistakes_are_found_at_once(words: list[str], sentence: str, tmp_path: Path, capsys: Any) -> None:
    """And not at night."""
    where = ["--studies-dir", str(tmp_path)]
    assert main(["schedule", "CartPole-v1", "--to", str(tmp_path / "agents"), "--once", *where, *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_short_period_is_refused(plan: Plan) -> None:
    with pytest.raises(OptionError, match="at least 60 s"):
        Schedule(Plan("a", "b", "c", every=1.0))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_world_is_searched_and_its_best_agent_promoted(tmp_path: Path, capfd: Any, monkeypatch: Any) -> None:
    """By the command itself; the second time there is nothing left to do."""
    monkeypatch.chdir(tmp_path)
    settings = ["steps=512", "search.n_trials=2", "search.seeds=1", "search.verify=1", "search.verify_seeds=2"]
    changes = [word for change in settings for word in ("--set", change)]
    words = ["schedule", "CartPole-v1", "--to", "agents", "--once", "--json", *changes]
    assert main(words) == 0
    state = json.loads(capfd.readouterr().out)
    assert states(state) == {"search": "finished", "promote": "finished"}
    assert state["steps"]["promote"]["action"] in ("promoted", "refused")
    assert (tmp_path / "studies" / f"CartPole-v1-{state['period']}").is_dir()
    assert main(words) == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out) == state and "rookery search" not in shown.err
