"""Reads studies by `rookery study`, one after the other in this process, and prints what came of each."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path

from rookery.cli.main import main


def read(folder: str) -> dict[str, object]:
    shown, began = io.StringIO(), time.monotonic()
    with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = main(["study", folder])
        except SystemExit as ended:
            code = ended.code
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) // 1024
    return {
        "folder": folder, "code": code, "text": shown.getvalue()[-2000:], "peak_mb": peak,
        "seconds": round(time.monotonic() - began, 2),
    }  # fmt: skip


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(json.dumps(read(each)), flush=True)
