"""Fault 1: SIGKILL of a worker, in mid-step and between steps."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from gymnasium import spaces

import rookery
from faults.envs import SLOW_SECONDS, Act, FatalRebuild, Walk
from faults.watch import (
    SPAWN_SELDOM,
    START_METHODS,
    action_of,
    at_most,
    gone_within,
    killed_after,
    needs_fork_server,
    pids_of,
    play,
    restarted,
    same,
    same_rows,
    undisturbed,
)
from rookery.errors import RookeryError, WorkerDied

pytestmark = pytest.mark.timeout(25)
Make = Callable[..., rookery.Engine]
MODES = ("next_step", "same_step")
N, WORKERS, STEPS, SEED = 6, 3, 24, 11
LOST, OTHERS = [2, 3], [0, 1, 4, 5]  # worker 1's envs, and the rest
REPEATS = [pytest.param(k, marks=[pytest.mark.slow] if k >= 3 else []) for k in range(20)]
TALKATIVE = partial(Walk, talkative=True)


def team(make: Make, world: object = Walk, **options: object) -> rookery.Engine:
    envs = make(world, N, "process", WORKERS, **{"on_failure": "restart", **options})
    envs.reset(seed=SEED)
    return envs


# --- restart --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", START_METHODS)
def test_restart_truncates_the_lost_and_leaves_others_alone(make: Make, method: str, mode: str) -> None:
    """The envs of a worker killed in mid-step come back truncated and restarted; all others are bit-identical."""
    envs = team(make, start_method=method, autoreset_mode=mode)
    before = play(envs, 5)
    with at_most(5):
        hit = play(envs, 1, {(5, 2): Act.SIGKILL}, first=5)
    after = play(envs, STEPS - 6, first=6)
    assert restarted(hit[0][4]) == LOST
    assert hit[0][3][LOST].all()
    assert not hit[0][2][LOST].any()
    assert (hit[0][1][LOST] == 0).all()
    assert same_rows(before + hit + after, undisturbed(Walk, N, STEPS, SEED, autoreset_mode=mode), OTHERS)
    assert envs.restarts == 1


@pytest.mark.push("1")
@pytest.mark.parametrize("repeat", REPEATS)
def test_restart_works_every_time(make: Make, repeat: int) -> None:
    """A kill at another moment of the play each time: always found, always mended, the others never disturbed."""
    envs = team(make, autoreset_mode="same_step")  # in which every action reaches its env
    results = play(envs, repeat)
    with at_most(5):
        results += play(envs, 1, {(repeat, 3): Act.SIGKILL}, first=repeat)
    assert restarted(results[-1][4]) == LOST
    results += play(envs, 6, first=repeat + 1)
    assert same_rows(results, undisturbed(Walk, N, repeat + 7, SEED, autoreset_mode="same_step"), OTHERS)


class Numbered(Walk):
    def step(self, action: int) -> tuple:
        return *super().step(action)[:4], {"number": float(self.steps)}


def test_the_lost_tell_nothing_of_their_old_lives(make: Make) -> None:
    """Numbers in infos travel in shared memory, where a dead worker's last ones still lie."""
    envs = team(make, Numbered)
    play(envs, 3)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    infos = play(envs, 1)[0][4]
    assert restarted(infos) == LOST
    assert infos["_number"].nonzero()[0].tolist() == OTHERS
    assert infos["number"][LOST].tolist() == [0.0, 0.0]


@pytest.mark.push("talkative-1")
@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("world", [Walk, TALKATIVE], ids=["quiet", "talkative"])
def test_restart_after_a_kill_from_outside(make: Make, world: object, repeat: int) -> None:
    """A worker killed from outside, in the middle of its step, is replaced within that step."""
    envs = team(make, world)
    with at_most(5), killed_after(SLOW_SECONDS / 2 + repeat * 0.005, pids_of(envs)[1]):
        results = play(envs, 1, {(0, 2): Act.SLOW})
    assert restarted(results[0][4]) == LOST
    results += play(envs, 9, first=1)
    assert same_rows(results, undisturbed(world, N, 10, SEED), OTHERS)


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", MODES)
def test_restart_gives_a_final_observation_where_the_mode_has_one(make: Make, mode: str) -> None:
    """In SAME_STEP mode a restarted env has a `final_obs`, because it is truncated; in NEXT_STEP mode there is none."""
    envs = team(make, autoreset_mode=mode)
    infos = play(envs, 1, {(0, 2): Act.SIGKILL})[0][4]
    assert ("final_obs" in infos) == (mode == "same_step")
    if mode == "same_step":
        assert infos["_final_obs"].tolist() == [row in LOST for row in range(N)]


@pytest.mark.slow
def test_restarted_envs_run_new_episodes_from_the_seed_alone(make: Make) -> None:
    """What a restarted env does afterwards is the same in every run with the same seed and the same fault."""
    first, second = (play(team(make), 12, {(2, 2): Act.SIGKILL}) for _ in range(2))
    assert same_rows(first, second, list(range(N)))
    assert not same_rows(first[3:], undisturbed(Walk, N, 12, SEED)[3:], LOST)


@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_a_kill_between_steps_is_mended_in_the_next_step(make: Make, method: str) -> None:
    """A worker that died while nothing was being stepped is replaced by the next step, which says so."""
    envs = team(make, start_method=method)
    results = play(envs, 3)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    assert gone_within([pids_of(envs)[1]], 2)
    with at_most(5):
        results += play(envs, 1, first=3)
    assert restarted(results[-1][4]) == LOST
    results += play(envs, 6, first=4)
    assert same_rows(results, undisturbed(Walk, N, 10, SEED), OTHERS)


@pytest.mark.slow
def test_restart_with_observations_larger_than_a_socket(make: Make) -> None:
    """What a new worker and its parent tell each other is too much to lie unread."""

    class Wide(Walk):
        observation_space = spaces.Box(-1e6, 1e6, (200_000,), np.float32)

        def observe(self) -> np.ndarray:
            return np.full(200_000, self.position, np.float32)

    envs = team(make, Wide)
    with at_most(10):
        hit = play(envs, 1, {(0, 2): Act.SIGKILL})
    assert restarted(hit[0][4]) == LOST


def test_a_kill_before_reset_is_mended_by_the_reset(make: Make) -> None:
    """A dead worker is replaced when a reset finds it, and the reset gives the usual first observations."""
    envs = team(make)
    expected, _ = envs.reset(seed=5)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    observations, _ = envs.reset(seed=5)
    assert same(observations, expected)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    gone_within([pids_of(envs)[1]], 2)
    assert same(envs.reset(seed=5)[0], expected)


def test_a_kill_while_a_call_is_answered_is_mended(make: Make) -> None:
    """`call` goes through after a worker died, on envs that take the place of the lost ones."""
    envs = team(make)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    assert len(envs.call("length")) == N
    results = play(envs, 8)
    assert same_rows(results, undisturbed(Walk, N, 8, SEED), OTHERS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_workers_that_a_thread_restarts_leave_no_threads_behind(make: Make) -> None:
    """One thread starts the workers of all threads, as it must live as long as they do."""
    counts: list[int] = []

    def restart_some() -> None:
        envs = team(make, max_restarts=9)
        for step in range(4):
            play(envs, 2, {(step, 2): Act.SIGKILL}, first=step)
            counts.append(threading.active_count())

    thread = threading.Thread(target=restart_some)
    thread.start()
    thread.join()
    assert len(counts) == 4
    assert counts[0] == counts[-1]


def test_ctrl_c_while_a_worker_is_replaced_loses_nothing(make: Make, diary: Path) -> None:
    """The restart continues with the next call: `recv` returns the step that was interrupted, restart included."""
    envs = make(partial(Interrupting, os.getpid(), diary), 2, "process", 2, on_failure="restart")
    envs.reset(seed=SEED)
    with pytest.raises(KeyboardInterrupt):
        play(envs, 1, {(0, 1): Act.SIGKILL})
    results = [envs.recv(), *play(envs, 5, first=1)]
    assert restarted(results[0][4]) == [1]
    assert same_rows(results, undisturbed(Walk, 2, 6, SEED), [0])


class Interrupting(Walk):
    """Interrupts the program when it is built a third time: of two, one was lost."""

    def __init__(self, program: int, diary: Path) -> None:
        super().__init__()
        with diary.open("a") as file:
            file.write("built")
            if file.tell() > 2 * len("built"):
                os.kill(program, signal.SIGINT)
                time.sleep(0.3)  # the program is still waiting when it is interrupted


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [N - 1, N + 1])
def test_a_kill_before_resize_is_mended_by_it(make: Make, count: int) -> None:
    """A dead worker is replaced first; then envs go or come, and the others notice neither."""
    envs = team(make)
    results = play(envs, 3)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    assert gone_within([pids_of(envs)[1]], 2)
    envs.resize(count)
    envs.reset(options={"reset_mask": np.array([row in LOST or row >= N for row in range(count)])})
    kept = [row for row in OTHERS if row < count]
    results += play(envs, 5, first=3)
    assert same_rows(results, undisturbed(Walk, N, 8, SEED), kept)


def test_a_kill_before_resize_is_told_by_it(make: Make) -> None:
    """With on_failure="raise" it is the usual error."""
    envs = team(make, on_failure="raise")
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"envs 2-3.*SIGKILL"):
        envs.resize(N + 1)


def test_a_worker_killed_after_its_step_is_replaced_while_others_still_step(make: Make) -> None:
    """A worker that finished and died while its neighbour was still at work does not hang the step."""
    envs = team(make, TALKATIVE)
    with at_most(5), killed_after(SLOW_SECONDS / 2, pids_of(envs)[1]):
        results = play(envs, 1, {(0, 5): Act.SLOW})
    results += play(envs, 9, first=1)
    lost = [result for result in results if restarted(result[4])]
    assert [restarted(result[4]) for result in lost] == [LOST]
    assert same_rows(results, undisturbed(TALKATIVE, N, 10, SEED), [0, 1, 4])


@pytest.mark.push("5")
@pytest.mark.parametrize("env", [0, 2, 5])
def test_a_worker_that_dies_while_it_reports_is_replaced(make: Make, env: int) -> None:
    """Death between a step and its report loses neither that step's turn nor the reports of other workers."""
    envs = team(make, TALKATIVE)
    with at_most(5):
        results = play(envs, 8, {(1, env): Act.DIE_TELLING})
    lost = [row for row in range(N) if row // 2 == env // 2]
    others = [row for row in range(N) if row not in lost]
    assert restarted(results[1][4]) == lost
    assert results[1][4]["_story"][others].all()
    assert same_rows(results, undisturbed(TALKATIVE, N, 8, SEED), others)


def test_a_death_while_another_env_is_restarted_leaves_whole_results(make: Make, diary: Path) -> None:
    """When the restart of one env kills its worker, its neighbour's result is the step as it was or a restart."""
    worlds = [Walk, Walk, partial(FatalRebuild, diary), Walk]
    envs = make(worlds, backend="process", workers=2, on_failure="restart")
    envs.reset(seed=SEED)
    with at_most(8):
        results = play(envs, 8)
    expected = undisturbed([Walk] * 4, 4, 8, SEED)
    assert 2 in restarted(results[0][4])
    assert same_rows(results, expected, [0, 1])
    assert same_rows(results[:1], expected[:1], [3]) or 3 in restarted(results[0][4])
    assert 3 in restarted(results[0][4]) + restarted(results[1][4])


def test_two_workers_killed_in_one_step_are_both_replaced(make: Make) -> None:
    """Two deaths at once are two restarts, and the third worker's envs notice nothing."""
    envs = team(make)
    with at_most(8):
        results = play(envs, 10, {(4, 0): Act.SIGKILL, (4, 5): Act.SIGKILL})
    assert restarted(results[4][4]) == [0, 1, 4, 5]
    assert same_rows(results, undisturbed(Walk, N, 10, SEED), LOST)


@pytest.mark.slow
@needs_fork_server
def test_death_of_the_fork_server_is_survived(make: Make) -> None:
    """When the fork server dies its workers die with it: all envs are restarted, by a new server."""
    envs = team(make, start_method="forkserver")
    (server,) = {psutil.Process(pid).ppid() for pid in pids_of(envs)}
    os.kill(server, signal.SIGKILL)
    gone_within(pids_of(envs), 2)
    with at_most(10):
        results = play(envs, 8)
    assert restarted(results[0][4]) == list(range(N))
    assert np.isfinite(results[-1][0]).all()


# --- under send/recv and groups -------------------------------------------------------------------------------------


def by_env(results: list[tuple], rows: list[int]) -> dict[int, list[tuple]]:
    """(observation, reward, terminated, truncated) of each env, step by step."""
    return {row: [tuple(np.asarray(part[k]).tobytes() for part in r[:4]) for r, k in results[row]] for row in rows}


def race(envs: rookery.Engine, each: int, harm: dict[tuple[int, int], int]) -> tuple[dict[int, list], list[int]]:
    """`each` steps of every env by send/recv, in whatever order they finish; also the envs said to be restarted."""
    done: dict[int, list] = {row: [] for row in range(envs.num_envs)}
    sent, reborn = dict.fromkeys(done, 0), []
    ids = np.arange(envs.num_envs)
    while len(ids) or envs._in_flight:
        if len(ids):
            envs.send(np.array([harm.get((sent[row], row), action_of(row, sent[row])) for row in ids.tolist()]), ids)
            for row in ids.tolist():
                sent[row] += 1
        result = envs.recv()
        for at, row in enumerate(result[4]["env_id"].tolist()):
            done[row].append((result, at))
            reborn += [row] if at in restarted(result[4]) else []
        ids = np.array([row for row in result[4]["env_id"].tolist() if sent[row] < each], dtype=np.int64)
    return done, reborn


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("world", [Walk, TALKATIVE], ids=["quiet", "talkative"])
def test_restart_under_send_and_recv(make: Make, world: object, mode: str) -> None:
    """With batch_size, a killed worker's envs come back restarted and every other env's trajectory is untouched."""
    envs = team(make, world, batch_size=2, autoreset_mode=mode)
    with at_most(10):
        done, reborn = race(envs, 12, {(5, 2): Act.SIGKILL})
    assert sorted(reborn) == LOST
    serial = undisturbed(world, N, 12, SEED, autoreset_mode=mode)
    expected = {row: [(result, row) for result in serial] for row in OTHERS}
    assert by_env(done, OTHERS) == by_env(expected, OTHERS)


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("world", [Walk, TALKATIVE], ids=["quiet", "talkative"])
def test_restart_under_groups(make: Make, world: object, mode: str) -> None:
    """With two groups in turns, the worker's envs of both groups come back restarted, the others are untouched."""
    envs = make(world, 4, "process", 2, groups=2, on_failure="restart", autoreset_mode=mode)
    envs.reset(seed=SEED)
    harm, reborn = {(5, 1): Act.SIGKILL}, set()
    results: list[list] = [[], []]
    with at_most(10):
        for step in range(12):
            for group in envs.groups:
                rows = range(group.start, group.stop)
                group.send(np.array([harm.get((step, row), action_of(row, step)) for row in rows]))
            for k, group in enumerate(envs.groups):
                results[k].append(group.recv())
                reborn |= {group.start + at for at in restarted(results[k][-1][4])}
    assert reborn == {1, 3}
    expected = undisturbed(world, 4, 12, SEED, autoreset_mode=mode)
    for k, row in ((0, 0), (1, 2)):
        for mine, theirs in zip(results[k], expected, strict=True):
            assert all(same(mine[part][0], theirs[part][row]) for part in range(4))


def test_a_step_that_was_finished_before_the_death_is_whole(make: Make) -> None:
    """A result is never half old and half new: it is the step as it was, or a truncated, restarted one."""
    envs = make(Walk, 2, "process", 1, groups=2, on_failure="restart")
    envs.reset(seed=SEED)
    first, second = envs.groups
    first.send(np.array([0]))
    second.send(np.array([Act.SIGKILL]))
    second.recv()
    observations, rewards, _, truncated, infos = first.recv()
    serial = rookery.make_vec(Walk, 2, "serial")
    serial.reset(seed=SEED)
    expected = serial.step(np.array([0, 0]))
    serial.close()
    as_it_was = same(observations[0], expected[0][0]) and same(rewards[0], expected[1][0]) and not truncated[0]
    lost = bool(truncated[0]) and restarted(infos) == [0] and rewards[0] == 0
    assert as_it_was or lost


# --- raise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["mid-step", "between steps"])
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_raise_names_envs_and_signal(make: Make, method: str, moment: str) -> None:
    """With on_failure="raise" the step raises WorkerDied within a second, naming the worker's envs and SIGKILL."""
    envs = team(make, start_method=method, on_failure="raise")
    play(envs, 2)
    harm = {(2, 2): Act.SIGKILL} if moment == "mid-step" else {}
    if moment == "between steps":
        os.kill(pids_of(envs)[1], signal.SIGKILL)
    with at_most(1), pytest.raises(WorkerDied, match=r"envs 2-3.*SIGKILL"):
        play(envs, 1, harm, first=2)


@pytest.mark.push("1")
@pytest.mark.parametrize("repeat", REPEATS)
def test_raise_every_time(make: Make, repeat: int) -> None:
    """The death of a worker is found within a second, whenever it comes."""
    envs = team(make, on_failure="raise", autoreset_mode="same_step")
    play(envs, repeat)
    with at_most(1), pytest.raises(WorkerDied, match=r"envs 0-1.*SIGKILL"):
        play(envs, 1, {(repeat, 1): Act.SIGKILL}, first=repeat)


def test_raise_under_send_and_recv(make: Make) -> None:
    """`recv` raises WorkerDied as well."""
    envs = team(make, on_failure="raise", batch_size=2)
    with at_most(1), pytest.raises(WorkerDied, match="SIGKILL"):
        race(envs, 12, {(5, 2): Act.SIGKILL})


@pytest.mark.few(1)
@pytest.mark.parametrize("call", ["step", "reset", "recv", "call"])
def test_after_a_death_calls_are_refused_clearly(make: Make, call: str) -> None:
    """After WorkerDied every further call raises an error of ours that speaks of the death; nothing hangs."""
    envs = team(make, on_failure="raise")
    with pytest.raises(WorkerDied):
        play(envs, 1, {(0, 2): Act.SIGKILL})
    calls = {
        "step": lambda: play(envs, 1),
        "reset": lambda: envs.reset(seed=1),
        "recv": envs.recv,
        "call": lambda: envs.call("length"),
    }
    for _ in range(2):
        with at_most(2), pytest.raises(RookeryError) as caught:
            calls[call]()
        if call != "recv":
            assert "died" in str(caught.value) or "killed" in str(caught.value)
    with at_most(3):
        envs.close()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("act", "words"),
    [(Act.SEGFAULT, "signal 11 .SIGSEGV"), (Act.OS_EXIT, "code 3"), (Act.REAL_TIME_SIGNAL, "signal 40")],
)
def test_other_ways_to_die_are_named(make: Make, act: Act, words: str) -> None:
    """WorkerDied says how the worker ended, whatever the signal or exit code."""
    envs = team(make, on_failure="raise")
    with at_most(1), pytest.raises(WorkerDied, match=words):
        play(envs, 1, {(0, 4): act})
