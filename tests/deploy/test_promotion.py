"""`deploy`: what is promoted, what is rejected, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from deploy.agents import BAD, GOOD, MIDDLING, SmallStudy, cartpole_run
from rookery.deploy import promotion
from rookery.deploy.promotion import deploy
from rookery.deploy.registry import Registry
from rookery.errors import OptionError, RegistryError, StudyError
from rookery.monitor.alerts import Alerts
from rookery.training.storage.run_dir import RunDir

FEW = 20  # episodes


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[float, float], RunDir]:
    base = tmp_path_factory.mktemp("runs")
    return {skill: cartpole_run(base, skill) for skill in (GOOD, MIDDLING, BAD)}


def test_better_run_is_promoted_and_worse_one_refused(runs: dict, tmp_path: Path) -> None:
    """The first champion beats random actions, a better one replaces it, a worse one does not."""
    to = tmp_path / "agents"
    first = deploy(runs[MIDDLING].path, to, episodes=FEW)
    assert first.action == "promoted"
    assert "of random actions over the same 20 new episodes" in first.text
    better = deploy(runs[GOOD].path, to, episodes=FEW)
    assert (better.action, better.champion, better.previous) == ("promoted", 2, 1)
    assert better.gate is not None and better.gate.figures["interval"][0] > 0
    worse = deploy(runs[BAD].path, to, episodes=FEW)
    assert (worse.action, worse.champion, worse.version) == ("refused", 2, 3)
    assert Registry(to).aliases() == {"champion": 2, "previous": 1, "challenger": 3}
    evidence = [entry["evidence"] for entry in Registry(to).audit() if entry["what"] == "promote"]
    assert evidence[1] == json.loads(json.dumps(better.gate.as_json()))


def test_floor(runs: dict, tmp_path: Path) -> None:
    """An agent that is no better than random actions is not a first champion, unless that is requested."""
    to = tmp_path / "agents"
    assert deploy(runs[BAD].path, to, episodes=FEW).action == "refused"
    assert Registry(to).champion is None
    taken = deploy(runs[BAD].path, to, first=True)
    assert (taken.action, taken.champion) == ("promoted", 1)
    with pytest.raises(OptionError, match=r"--first: .* has a champion already, version 1"):
        deploy(runs[GOOD].path, to, first=True)


@pytest.mark.slow
def test_margin(runs: dict, tmp_path: Path) -> None:
    to = tmp_path / "agents"
    deploy(runs[MIDDLING].path, to, first=True)
    refused = deploy(runs[GOOD].path, to, episodes=FEW, margin=10_000)
    assert refused.action == "refused"
    assert "not above the margin of 10000" in refused.text


@pytest.mark.slow
def test_equal_agents_are_not_promoted(runs: dict, tmp_path: Path) -> None:
    """A copy of the champion is not better."""
    deploy(runs[GOOD].path, tmp_path / "agents", first=True)
    copy = cartpole_run(tmp_path / "runs", GOOD)
    assert deploy(copy.path, tmp_path / "agents", episodes=FEW).action == "refused"


def test_same_candidate_is_decided_about_once(runs: dict, tmp_path: Path) -> None:
    """The champion is left alone, and a refused candidate gets no second chance by luck, unless it is requested."""
    to = tmp_path / "agents"
    deploy(runs[GOOD].path, to, first=True)
    assert deploy(runs[GOOD].path, to).action == "nothing"
    deploy(runs[BAD].path, to, episodes=FEW)
    entries = len(Registry(to).audit())
    second = deploy(runs[BAD].path, to, episodes=FEW)
    assert second.action == "refused"
    assert "was compared with champion 1 at" in second.text and "--again compares it on new data" in second.text
    assert len(Registry(to).audit()) == entries
    assert deploy(runs[BAD].path, to, episodes=FEW, again=True).version == 2  # no second copy of the agent
    seeds = [entry["evidence"]["seed"] for entry in Registry(to).audit() if entry["what"] == "compare"]
    assert len(seeds) == len(set(seeds)) == 2


@pytest.mark.slow
def test_rolled_back_candidate_stays_away(runs: dict, tmp_path: Path) -> None:
    to = tmp_path / "agents"
    deploy(runs[MIDDLING].path, to, first=True)
    deploy(runs[GOOD].path, to, episodes=FEW)
    Registry(to).rollback()
    answer = deploy(runs[GOOD].path, to, episodes=FEW)
    assert answer.action == "refused"
    assert "promoted and rolled back" in answer.text


def test_used_seed_is_refused(runs: dict, tmp_path: Path) -> None:
    to = tmp_path / "agents"
    deploy(runs[GOOD].path, to, episodes=FEW, seed=5)
    with pytest.raises(OptionError, match="seed = 5: a comparison has used it"):
        deploy(runs[MIDDLING].path, to, episodes=FEW, seed=5)


def test_dry_run_changes_nothing(runs: dict, tmp_path: Path) -> None:
    to = tmp_path / "agents"
    said = deploy(runs[GOOD].path, to, episodes=FEW, dry_run=True)
    assert said.action == "promoted" and "would be promoted: mean return" in said.text
    assert not to.exists()
    deploy(runs[GOOD].path, to, first=True)
    before = sorted((str(path), path.stat().st_mtime_ns) for path in to.rglob("*"))
    said = deploy(runs[BAD].path, to, episodes=FEW, dry_run=True)
    assert said.action == "refused" and "would be rejected" in said.text
    assert sorted((str(path), path.stat().st_mtime_ns) for path in to.rglob("*")) == before


def test_study(tmp_path: Path) -> None:
    """The best verified trial is taken, with the run of its best held-out seed."""
    study = SmallStudy(tmp_path / "studies")
    to, where = tmp_path / "agents", {"studies_dir": tmp_path / "studies", "runs_dir": tmp_path / "runs"}
    assert deploy("demo", to, **where).text == "no trial of demo is verified yet"
    study.verify(MIDDLING, 40.0)
    assert deploy("demo", to, episodes=FEW, **where).action == "promoted"
    best = study.verify(GOOD, 200.0)
    study.verify(BAD, 10.0)
    second = deploy("demo", to, episodes=FEW, **where)
    assert (second.action, second.champion) == ("promoted", 2)
    about = Registry(to).version("champion").about
    assert (about["study"], about["trial"], about["run"]) == ("demo", 1, best.name)
    assert about["evaluation"]["verified"] == 200.0
    assert rookery.load(f"registry:{to}@champion").action_space.n == 2


@pytest.mark.slow
def test_paths_out_of_a_study(tmp_path: Path) -> None:
    """A database cannot name a run outside of its study's folder."""
    study = SmallStudy(tmp_path / "studies")
    outside = cartpole_run(tmp_path / "elsewhere", GOOD)
    for path in ("../../elsewhere/" + outside.name, str(outside.path)):
        study.study.set_user_attr("rookery:verified:0", {"values": {"1": 1.0}, "iqm": 1.0, "runs": [path]})
        with pytest.raises(StudyError, match="is outside of the study's folder"):
            deploy("demo", tmp_path / "agents", studies_dir=tmp_path / "studies")


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"there is no study 'nothing'.*nor is it a run"):
        deploy("nothing", tmp_path / "agents", studies_dir=tmp_path / "studies", runs_dir=tmp_path)
    with pytest.raises(OptionError, match="checkpoint should be one of best, latest"):
        deploy("nothing", tmp_path / "agents", checkpoint="newest")


@pytest.mark.slow
def test_other_world_is_refused(runs: dict, tmp_path: Path) -> None:
    from training.finished import make_run

    to = tmp_path / "agents"
    deploy(runs[GOOD].path, to, first=True)
    other = make_run(tmp_path, "Acrobot-v1", hidden=[8])
    with pytest.raises(RegistryError, match=r"trained in .*Acrobot.*, and the champion in .*CartPole"):
        deploy(other.path, to, episodes=FEW)


@pytest.mark.slow
def test_damaged_champion_stops_deployment(runs: dict, tmp_path: Path) -> None:
    to = tmp_path / "agents"
    deploy(runs[MIDDLING].path, to, first=True)
    deploy(runs[GOOD].path, to, episodes=FEW)
    config = to / "versions" / "000002" / "config.json"
    config.chmod(0o644)
    config.write_text("{}")
    with pytest.raises(RegistryError, match="the previous one is version 1"):
        deploy(runs[BAD].path, to, episodes=FEW)
    Registry(to).rollback()
    about = to / "versions" / "000002" / "version.json"
    about.chmod(0o644)
    about.write_text("{")
    assert deploy(runs[BAD].path, to, episodes=FEW).version == 3  # an old version that is damaged stops nobody


def test_champion_that_changes_during_a_comparison(runs: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate is compared with the new champion, and not promoted by what it did against the old one."""
    to = tmp_path / "agents"
    deploy(runs[BAD].path, to, first=True)
    registry, compare, seen = Registry(to), promotion.compare, []

    def slow_compare(*given: Any) -> Any:
        result = compare(*given)
        seen.append(registry.champion_number())
        if len(seen) == 1:  # another deployer is quicker
            registry.promote(registry.add(runs[GOOD]).number)
        return result

    monkeypatch.setattr(promotion, "compare", slow_compare)
    answer = deploy(runs[MIDDLING].path, to, episodes=FEW)
    assert (answer.action, seen, registry.champion_number()) == ("refused", [1, 3], 3)


def test_promotion_is_reported(runs: dict, tmp_path: Path) -> None:
    sent: list[tuple[str, str]] = []

    class Sink(Alerts):
        def send(self, kind: str, text: str, facts: Any = None) -> None:
            sent.append((kind, facts["registry"]))

    deploy(runs[GOOD].path, tmp_path / "agents", first=True, alerts=Sink())
    assert sent == [("promotion", str(tmp_path / "agents"))]
