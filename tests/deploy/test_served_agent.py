"""Batches of requests: every request gets what it would get alone, and none is lost when the agent changes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from deploy.recorded_alerts import Recorder
from deploy.serving_agents import make_agent
from rookery.deploy.serving import champion_watch
from rookery.deploy.serving.act_request import ActRequest
from rookery.deploy.serving.champion_watch import ChampionWatch
from rookery.deploy.serving.served_agent import Batcher, QueueFull, ServedAgent, _answers
from rookery.errors import BadValue

SPACES = {
    "perceptron": (spaces.Box(-9, 9, (4,), np.float32), {}),
    "elu": (spaces.Box(-9, 9, (4,), np.float32), {"activation": "elu"}),
    "image": (spaces.Box(0, 255, (16, 16, 3), np.uint8), {}),
    "dict": (spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(-1, 1, (2,), np.float32)), {}),
}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "continuous": spaces.Box(-1, 1, (2,), np.float32),
    "dict": spaces.Dict(arm=spaces.Discrete(2), force=spaces.Box(0, 1, (1,), np.float32)),
}


def request_for(agent: ServedAgent, rows: int, seed: int, **more: Any) -> ActRequest:
    """A request with random observations."""
    space = agent.agent.observation_space
    space.seed(seed)
    drawn = [space.sample() for _ in range(rows)]
    listed = [_plain(observation) for observation in drawn]
    return agent.reader.from_json({"observations": listed, **more})


def _plain(value: Any) -> Any:
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else np.asarray(value).tolist()


def flat(actions: Any) -> list[Any]:
    return [part.tolist() for part in actions.values()] if isinstance(actions, dict) else actions.tolist()


@pytest.mark.parametrize(
    ("seen", "actions"), [("perceptron", "dict"), ("elu", "continuous"), ("image", "discrete"), ("dict", "discrete")]
)
def test_actions_do_not_depend_on_the_batch(seen: str, actions: str) -> None:
    space, options = SPACES[seen]
    served = ServedAgent(make_agent(space, ACTIONS[actions], **options), 1)
    served.warm_up()
    requests = [request_for(served, rows, rows) for rows in ((1, 3) if seen == "image" else (1, 16, 3, 40))]
    together = served.act(requests)
    for request, answer in zip(requests, together, strict=True):
        assert flat(served.act([request])[0]) == flat(answer)


def test_it_acts_as_the_agent_does() -> None:
    agent = make_agent()
    observations = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    (actions,) = ServedAgent(agent, 1).act([ActRequest([observations])])
    assert (actions == agent.act(observations, deterministic=True)).all()


def test_sampled_and_deterministic_requests_share_a_batch() -> None:
    """Only those who ask for samples get them."""
    served = ServedAgent(make_agent(action_space=spaces.Box(-1, 1, (2,), np.float32)), 1)
    fixed, sampled = request_for(served, 8, 1), request_for(served, 8, 1, deterministic=False)
    first, drawn, second = served.act([fixed, sampled, fixed])
    assert (first == second).all() and (first != drawn).any()


def test_masks_hold_for_their_own_request_only() -> None:
    served = ServedAgent(make_agent(), 1)
    free = request_for(served, 30, 3)
    (choices,) = served.act([free])
    forbidden = [[k != choice for k in range(3)] for choice in choices.tolist()]
    masked = request_for(served, 30, 3, action_masks=forbidden)
    both = served.act([free, masked])
    assert (both[0] == choices).all() and (both[1] != choices).all()


def test_a_recurrent_agent_remembers_by_session() -> None:
    """As the agent itself does over an episode, whatever other sessions are in the batch."""
    space = spaces.Box(-1, 1, (3,), np.float32)
    agent = make_agent(space, ACTIONS["continuous"], recurrent=True)
    served = ServedAgent(agent, 1)
    served.warm_up()
    observations = np.random.default_rng(2).normal(size=(5, 2, 3)).astype(np.float32)
    agent.reset_memory()
    alone = [agent.act(step, deterministic=True) for step in observations]
    for k, step in enumerate(observations):
        one = served.reader.from_json({"observations": step.tolist(), "session": "one"})
        other = served.reader.from_json({"observations": step[:1].tolist(), "session": "two", "starts": True})
        answers = served.act([other, one])
        assert (answers[1] == alone[k]).all()
        assert (answers[0] == served.act([ActRequest([step[:1]], session=f"new {k}")])[0]).all()
    with pytest.raises(ValueError, match="this agent is recurrent: give `session`"):
        served.reader.from_json({"observations": observations[0].tolist()})


def test_old_sessions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.deploy.serving.served_agent.MOST_SESSIONS", 2)
    served = ServedAgent(make_agent(recurrent=True), 1)
    for session in "abca":
        served.act([ActRequest([np.ones((1, 4), np.float32)], session=session)])
    assert list(served._memories) == ["c", "a"]


def test_an_agent_with_nan_is_refused_when_it_is_loaded() -> None:
    agent = make_agent(action_space=ACTIONS["continuous"])
    for parameter in agent.policy.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(BadValue, match="NaN"):
        ServedAgent(agent, 1).warm_up()


# --- batches ----------------------------------------------------------------------------------------------------------


class SlowAgent(ServedAgent):
    """Acts when it is allowed to, and counts the sizes of batches."""

    def __init__(self, version: int = 1) -> None:
        super().__init__(make_agent(), version)
        self.allowed, self.entered, self.sizes = threading.Event(), threading.Event(), list[int]()

    def act(self, requests: Any) -> Any:
        self.entered.set()
        self.allowed.wait(30)
        self.sizes.append(len(requests))
        return super().act(requests)


def one_row(session: str | None = None) -> ActRequest:
    return ActRequest([np.ones((1, 4), np.float32)], session=session)


def test_what_arrives_together_is_one_batch_and_swaps_come_between() -> None:
    agent, other = SlowAgent(1), ServedAgent(make_agent(seed=2), 2)
    batcher = Batcher(agent)

    async def ask() -> list[Any]:
        first = asyncio.ensure_future(batcher.answer(one_row()))
        await asyncio.to_thread(agent.entered.wait, 30)
        later = [asyncio.ensure_future(batcher.answer(one_row())) for _ in range(10)]
        await asyncio.sleep(0)
        batcher.swap(other)
        later[3].cancel()  # a client that has gone
        agent.allowed.set()
        return [await first, *(await asyncio.gather(*later, return_exceptions=True))]

    answers = asyncio.run(ask())
    batcher.close()
    assert agent.sizes == [1] and batcher.batches == 2
    assert answers[0].version == 1 and [answer.version for answer in answers[1:4]] == [2, 2, 2]
    assert isinstance(answers[4], asyncio.CancelledError) and all(answer.version == 2 for answer in answers[5:])


def test_a_full_queue_refuses_and_what_waits_is_answered_at_the_end() -> None:
    agent = SlowAgent()
    batcher = Batcher(agent, most_waiting=2)

    async def ask() -> list[Any]:
        first = asyncio.ensure_future(batcher.answer(one_row()))
        await asyncio.to_thread(agent.entered.wait, 30)
        others = [asyncio.ensure_future(batcher.answer(one_row())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await batcher.answer(one_row())
        agent.allowed.set()
        await asyncio.to_thread(batcher.close)
        return [await first, *(await asyncio.gather(*others))]

    assert len(asyncio.run(ask())) == 3


def test_a_session_has_one_request_in_a_batch() -> None:
    agent = SlowAgent()
    batcher = Batcher(agent)

    async def ask() -> None:
        asked = [asyncio.ensure_future(batcher.answer(one_row()))]
        await asyncio.to_thread(agent.entered.wait, 30)
        asked += [asyncio.ensure_future(batcher.answer(one_row(name))) for name in (None, "a", "b", "a", None)]
        await asyncio.sleep(0)
        batches = iter(batcher._take, [])
        assert [len(batch) for batch in (next(batches), next(batches))] == [3, 2]
        agent.allowed.set()
        for waiting in asked[1:]:
            waiting.cancel()
        await asked[0]

    asyncio.run(ask())
    batcher.close()


def test_an_error_of_the_agent_reaches_who_asked_and_the_thread_lives() -> None:
    served = ServedAgent(make_agent(), 1)
    batcher = Batcher(served)

    async def ask() -> None:
        with pytest.raises(RuntimeError):
            await batcher.answer(ActRequest([np.ones((1, 3, 5), np.float32)]))
        assert (await batcher.answer(one_row())).version == 1

    served._forward = _Refusing(served._forward)
    asyncio.run(ask())
    batcher.close()


def test_an_observation_that_gives_nan_spoils_no_other_answer() -> None:
    """Not even in the same batch, and sessions make one step each."""
    served = ServedAgent(make_agent(action_space=ACTIONS["continuous"], recurrent=True, activation="relu"), 1)
    served.warm_up()
    act, first = served._act, ActRequest([np.ones((1, 4), np.float32)], session="a")

    def nan_for_minus_one(requests: list[ActRequest], deterministic: bool) -> Any:
        if any((request.leaves[0] < 0).any() for request in requests):
            raise BadValue("the agent's actions are NaN or infinite")
        return act(requests, deterministic)

    served._act = nan_for_minus_one  # type: ignore[method-assign]
    bad = ActRequest([-np.ones((1, 4), np.float32)], deterministic=False, session="b")
    good, failed = _answers(served, [first, bad])
    assert isinstance(failed, BadValue) and not isinstance(good, Exception)
    other = ServedAgent(served.agent, 1)
    assert (good.actions == other.act([first])[0]).all()
    assert (served.act([first])[0] == other.act([first])[0]).all()  # the second step of the session
    assert list(served._memories) == ["a"]


class _Refusing:
    def __init__(self, forward: Any) -> None:
        self._forward = forward

    def on_tensors(self, leaves: Any, *more: Any) -> Any:
        if leaves[0].ndim == 3:
            raise RuntimeError("wrong shape")
        return self._forward.on_tensors(leaves, *more)


# --- champions --------------------------------------------------------------------------------------------------------


class Source:
    """Versions by number; an exception is one that does not load."""

    def __init__(self, *agents: Any) -> None:
        self.agents, self.champion, self.loads = agents, 1, 0

    def wanted(self) -> int:
        if self.champion == 0:
            raise OSError("aliases.json is gone")
        return self.champion

    def load(self, version: int | str) -> ServedAgent:
        self.loads += 1
        found = self.agents[int(version) - 1]
        if isinstance(found, Exception):
            raise found
        return ServedAgent(found, version)


def test_a_new_champion_takes_over_and_a_bad_one_does_not(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is said once, and a version that does not load is not tried every second."""
    other_space = make_agent(spaces.Box(-1, 1, (7,), np.float32))
    source = Source(make_agent(), make_agent(seed=1), ValueError("damaged"), other_space, make_agent(recurrent=True))
    batcher = Batcher(source.load(1))
    alerts = Recorder()
    watch = ChampionWatch(source, batcher, poll_seconds=3600, alerts=alerts)

    def look(champion: int) -> tuple[Any, str]:
        source.champion = champion
        watch.look()
        return batcher.agent.version, watch.problem

    assert look(1) == (1, "") and watch.swaps == 0
    assert look(2) == (2, "") and watch.swaps == 1
    assert look(3) == (2, "version 3 cannot be used, and version 2 stays: damaged")
    loads = source.loads
    assert look(3)[0] == 2 and source.loads == loads
    monkeypatch.setattr(champion_watch, "RETRY_SECONDS", -1.0)
    assert "its observation space is Box" in look(4)[1]
    assert look(4)[0] == 2 and source.loads == loads + 2
    assert "is recurrent" in look(5)[1]
    assert look(0) == (2, "the registry cannot be read, and version 2 stays: aliases.json is gone")
    assert look(1) == (1, "") and watch.swaps == 2
    assert caplog.text.count("damaged") == 1
    assert [kind for kind, _ in alerts.sent] == ["champion-refused"] * 4
    watch.close()
    batcher.close()
