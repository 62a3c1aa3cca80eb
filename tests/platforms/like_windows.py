"""`python -m platforms.like_windows`: four envs in two worker processes, without names that Windows and macOS lack.

They are taken from the modules themselves, in this process and in its workers, before rookery is imported: a hook in
`sitecustomize` does that. Pairs of sockets are made as on Windows, over the loopback device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Python's own `subprocess` needs some of these on Linux: it has been imported, and has them, when they are taken away.
HOOK = """
import multiprocessing, os, platform, select, selectors, signal, socket, subprocess, tempfile, threading, uuid

for module, names in {
    os: "memfd_create eventfd pidfd_open sched_getaffinity sched_setaffinity sched_yield fork forkpty setsid killpg "
        "posix_fallocate register_at_fork waitid pread pwrite O_NOFOLLOW O_DIRECTORY O_NONBLOCK geteuid getuid",
    signal: "pidfd_send_signal SIGKILL SIGCHLD SIGHUP SIGRTMIN",
    select: "poll epoll",
    selectors: "PollSelector EpollSelector",
    socket: "MSG_NOSIGNAL SCM_RIGHTS send_fds recv_fds",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)


def pair_over_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


socket.socketpair = pair_over_loopback
"""
CODE = """
import os, sys
import numpy as np
import rookery
from rookery.engine.workers.child_process import PORTABLE

assert PORTABLE and not hasattr(os, "fork")
envs = rookery.make_vec("CartPole-v1", 4, backend="process", workers=2)
plain = rookery.make_vec("CartPole-v1", 4, backend="serial")
assert envs.start_method == "spawn"
assert np.array_equal(envs.reset(seed=1)[0], plain.reset(seed=1)[0])
for step in range(60):
    actions = np.arange(step, step + 4) % 2
    for ours, expected in zip(envs.step(actions)[:4], plain.step(actions)[:4]):
        assert np.array_equal(ours, expected)
envs.close()
print("as the serial backend")
"""


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """The program, with its hook in this folder."""
    (folder / "sitecustomize.py").write_text(HOOK)
    paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": paths, "ROOKERY_PORTABLE": "1"},
    )  # fmt: skip
