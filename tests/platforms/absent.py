"""Takes away from rookery's own code what Windows does not have; libraries, which have their own ways, keep it.

`python -m platforms.absent` imports every module of rookery so, and prints what fails, one line each.
"""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import sys
import types
import warnings
from typing import Any

MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}
NAMES = {
    "os": """O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_DIRECTORY fork forkpty register_at_fork getuid geteuid getgid getegid
        killpg getpgid setpgid setsid memfd_create MFD_CLOEXEC eventfd EFD_NONBLOCK EFD_CLOEXEC pidfd_open pread pwrite
        sched_getaffinity sched_setaffinity sched_yield posix_fallocate nice waitid P_PID WNOHANG WEXITED WNOWAIT mkfifo
        uname getloadavg sysconf statvfs chown""",
    "signal": """SIGKILL SIGHUP SIGCHLD SIGRTMIN SIGUSR1 SIGUSR2 SIGALRM SIGSTOP SIGCONT SIGPIPE pidfd_send_signal
        pthread_sigmask pthread_kill setitimer alarm""",
    "select": "poll epoll",
    "socket": "AF_UNIX SCM_RIGHTS MSG_NOSIGNAL send_fds recv_fds",
    "time": "CLOCK_MONOTONIC clock_gettime clock_gettime_ns",
}
# Of a GPU's compilers, which are not installed everywhere.
OPTIONAL = ("rookery.kernel.cuda_compiler", "rookery.learners.kernels.gpu.")


def take_away() -> None:
    """From now on, modules of rookery that are imported get other modules than libraries do."""
    usual = builtins.__import__
    lesser = {name: _without(name, names.split()) for name, names in NAMES.items()}

    def import_less(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if not level and globals and str(globals.get("__name__")).partition(".")[0] == "rookery":
            if name in MODULES:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in lesser:
                return lesser[name]
        return usual(name, globals, locals, fromlist, level)

    builtins.__import__ = import_less


def _without(name: str, names: list[str]) -> types.ModuleType:
    whole, part = importlib.import_module(name), types.ModuleType(name)
    vars(part).update({key: value for key, value in vars(whole).items() if key not in names})
    return part


def main() -> None:
    take_away()
    warnings.simplefilter("ignore")
    import rookery

    for found in pkgutil.walk_packages(rookery.__path__, "rookery."):
        if found.name.startswith(OPTIONAL) or found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except BaseException as error:
            print(f"{found.name}: {type(error).__name__}: {error}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
