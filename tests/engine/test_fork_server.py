"""One fork server for all engines of a program: quick, clean, and like the program at that moment."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import gymnasium as gym
import psutil
import pytest

import rookery
from engine.teller import Teller
from rookery.engine.workers import forkserver, linux
from rookery.engine.workers.child_process import PORTABLE, Surroundings
from rookery.engine.workers.forkserver import SERVERS, Connection

pytestmark = [pytest.mark.skipif(PORTABLE, reason="portable workers are new interpreters"), pytest.mark.timeout(120)]


def told(workers: int = 1, world: Any = Teller, **options: Any) -> list[dict[str, Any]]:
    envs = rookery.make_vec(world, workers, "process", workers, isolate_random=False, pin=False, **options)
    try:
        return list(envs.call("tell"))
    finally:
        envs.close()


def server_pids() -> list[int]:
    return [server.pid for server in SERVERS]


def test_engines_share_one_server():
    """Also engines in several threads, and an engine that is made while another runs."""
    told()
    before = server_pids()
    first = rookery.make_vec(Teller, 2, "process", 2)
    threads = [threading.Thread(target=told, args=(2,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parents = {psutil.Process(worker["pid"]).ppid() for worker in first.stats()}
    first.close()
    assert server_pids()[-1] == before[-1]
    assert parents == {before[-1]}


def test_workers_are_as_if_this_program_had_started_them(tmp_path, monkeypatch):
    """Folder, variables, module path, limits and cores are those of the moment, not those of the server's start."""
    told()
    before = server_pids()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOLD", "now")
    monkeypatch.syspath_prepend(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    cores = sorted(os.sched_getaffinity(0))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 8, hard))
        os.sched_setaffinity(0, cores[:1])
        (facts,) = told()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.sched_setaffinity(0, cores)
    assert facts["folder"] == str(tmp_path)
    assert facts["variable"] == "now"
    assert facts["path"][0] == str(tmp_path)
    assert facts["files"] == (soft - 8, hard)
    assert facts["cores"] == cores[:1]
    assert server_pids()[-1] == before[-1]


def test_a_module_that_was_written_after_the_servers_start_is_found(tmp_path, monkeypatch):
    """The server may have looked into the folder before."""
    monkeypatch.syspath_prepend(str(tmp_path))
    told()
    (tmp_path / "written_late.py").write_text("VALUE = 7\n")

    def late() -> Teller:
        import written_late

        assert written_late.VALUE == 7
        return Teller()

    assert len(told(world=late)) == 1


@pytest.mark.slow
def test_what_a_worker_cannot_take_on_needs_a_new_server():
    """Such as the mask of permissions for new files."""
    told()
    before, mask = server_pids(), os.umask(0o077)
    try:
        (facts,) = told()
        during = server_pids()
    finally:
        os.umask(mask)
    assert facts["umask"] == 0o077
    assert during[-1] not in before


def test_workers_print_where_this_program_prints_now(capfd):
    """Its output may have been redirected since the server was started."""
    told()
    envs = rookery.make_vec(Teller, 2, "process", 2)
    envs.call("speak")
    envs.close()
    assert capfd.readouterr().out == "here I am\nhere I am\n"


def test_workers_share_nothing_that_is_random_or_open():
    """Global generators differ from worker to worker, as in new interpreters; no descriptor of another is open."""
    for _ in range(2):
        facts = [*told(3), *told(3)]
        assert len({fact["random"][0] for fact in facts}) == 6
        assert len({fact["random"][1] for fact in facts}) == 6
    other = rookery.make_vec(Teller, 8, "process", 8)
    (beside,) = told()
    other.close()
    assert beside["descriptors"] == facts[0]["descriptors"]
    assert beside["threads"] == 1


def test_the_server_keeps_nothing_of_the_program_in_use():
    """Neither its folder nor its output, whose reader waits for the end."""
    told()
    server = psutil.Process(server_pids()[-1])
    targets = [os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in (0, 1, 2)]
    assert targets == [os.devnull] * 3
    assert server.cwd() == "/"


SLOW_TO_IMPORT = """
import time

until = time.process_time() + 0.5
while time.process_time() < until:
    pass
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that takes half a second to import, and a module of the user that imports it."""
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)

    def write(name: str, more: str = "") -> Any:
        (site / f"{name}.py").write_text(SLOW_TO_IMPORT + textwrap.dedent(more))
        (tmp_path / f"{name}_user.py").write_text("COUNT = []\n")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.syspath_prepend(str(tmp_path))
        folder = str(site)

        def build() -> gym.Env:
            import importlib
            import site
            import sys

            getsitepackages = site.getsitepackages
            site.getsitepackages = lambda: [*getsitepackages(), folder]
            env = Teller()
            env.had = name in sys.modules
            env.had_user = f"{name}_user" in sys.modules
            importlib.import_module(name)
            importlib.import_module(f"{name}_user")
            return env

        build.__qualname__ = name
        return build

    return write


def had(build: Any, workers: int = 2) -> list[tuple[bool, bool]]:
    envs = rookery.make_vec(build, workers, "process", workers)
    try:
        return list(zip(envs.get_attr("had"), envs.get_attr("had_user"), strict=True))
    finally:
        envs.close()


def test_packages_that_take_long_are_imported_once(package):
    """The first worker finds them; the others, and those of later engines, have them from the start. Modules of the
    user are imported by each worker itself."""
    build = package("slow_package")
    assert had(build) == [(False, False), (True, False)]
    assert had(build) == [(True, False), (True, False)]
    assert had(lambda: build()) == [(False, False), (True, False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("starts_a_thread", "import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"),
        ("opens_a_socket", "import socket; KEPT = socket.socketpair()"),
    ],
)
def test_a_package_that_cannot_be_forked_is_left_to_each_worker(package, name, code):
    """One that starts a thread or opens a socket when it is imported: workers import it themselves, as before."""
    build = package(name, code)
    assert had(build) == [(False, False), (False, False)]
    before = server_pids()
    assert had(build) == [(False, False), (False, False)]
    assert server_pids()[-1] == before[-1]


@pytest.mark.slow
def test_a_changed_variable_reaches_what_packages_read_when_they_are_imported(package, monkeypatch):
    """A server that has imported packages serves only a program with the same environment."""
    build = package("reads_a_variable")
    had(build)
    before = server_pids()
    assert had(build) == [(True, False), (True, False)]
    assert server_pids()[-1] == before[-1]
    monkeypatch.setenv("TOLD", "other")
    assert had(build) == [(True, False), (True, False)]
    assert server_pids()[-1] not in before
    assert before[-1] not in server_pids()  # nobody needs it any more


@pytest.mark.slow
def test_a_forked_child_of_the_program_has_servers_of_its_own():
    """As of `multiprocessing` with fork: the child's engine works, and its end leaves the parent's server alone."""
    told()
    before = server_pids()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if len(told(2)) == 2 and server_pids() != before else 2
            SERVERS.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(told(2)) == 2
    assert server_pids()[-1] == before[-1]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the end of the script", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_nothing_is_left_of_a_program_however_it_ends(tmp_path, how):
    """Neither the server nor workers of an engine that was not closed."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, rookery
        from rookery.engine.workers.forkserver import SERVERS
        rookery.make_vec("CartPole-v1", 2, "process", 2).close()
        envs = rookery.make_vec("CartPole-v1", 2, "process", 2)
        print(*[server.pid for server in SERVERS], *[worker["pid"] for worker in envs.stats()], flush=True)
        {how if "(" in how else ""}
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 3, done.stderr
    deadline = time.monotonic() + 20
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_workers_that_end_leave_no_zombies():
    """Nor do those whose engine is gone before they are: the server collects them."""
    told(4)
    server = next(server for server in reversed(list(SERVERS)) if not server.modules)
    envs = rookery.make_vec(Teller, 4, "process", 4)
    os.kill(envs.stats()[0]["pid"], signal.SIGKILL)
    envs.close(terminate=True)
    deadline = time.monotonic() + 20
    while psutil.Process(server.pid).children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not psutil.Process(server.pid).children()


def test_an_env_that_fails_in_reset_fails_in_reset():
    """No env is built beforehand to measure it, where the backend and the number of envs are given."""

    class Broken(Teller):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            raise ValueError("no reset today")

    envs = rookery.make_vec(Broken, 4, "process")
    with pytest.raises(ValueError, match="no reset today"):
        envs.reset()
    envs.close()


@pytest.mark.slow
def test_a_server_that_cannot_fork_says_so_and_serves_on(monkeypatch):
    """As where there are too many processes; make_vec then steps the envs in this process."""

    def refuse(*_: Any) -> int:
        raise BlockingIOError(11, "too many processes")

    ours, theirs = linux.pair()
    monkeypatch.setattr(os, "fork", refuse)
    answer = forkserver.Serving(ours)._fork(set(), Surroundings.now(), [os.dup(theirs.fileno())])
    ours.close()
    theirs.close()
    assert isinstance(answer, BlockingIOError)
    monkeypatch.undo()
    monkeypatch.setattr(Connection, "_response", lambda *_: answer)
    envs = rookery.make_vec(Teller, 2, "process", 2)
    assert envs.backend == "serial"
    envs.close()
    monkeypatch.undo()
    assert len(told(2)) == 2
