"""Configurations of absurd sizes, tried one after the other in one process: `python -m safety.size_cases CASES.json`.

Prints a line of JSON for each: the exit status, what was said, the seconds, and the peak memory of the process so far.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
from pathlib import Path

from rookery.cli.main import main
from rookery.errors import RookeryError

LIMIT = 8 << 30  # of address space: should a check be missing, the test fails, and not the machine


def through_the_command(words: list[str]) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        status = main(words)
    return status, said.getvalue()


def through_python(call: str) -> tuple[int, str]:
    import rookery

    try:
        exec(call, {"rookery": rookery})
    except RookeryError as error:
        return 2, f"{type(error).__name__}: {error}"
    return 0, ""


def peak_memory() -> int:
    """Of this process since it began; what `getrusage` has would include the process that it was forked from."""
    words = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()
    return int(words[0]) * 1024


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    for case in json.loads(Path(sys.argv[1]).read_text()):
        started = time.perf_counter()
        status, text = through_python(case) if isinstance(case, str) else through_the_command(case)
        facts = {"status": status, "text": text, "seconds": time.perf_counter() - started, "peak": peak_memory()}
        print(json.dumps(facts | {"torch": "torch" in sys.modules}), flush=True)
