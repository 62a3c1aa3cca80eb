"""MuJoCo's engine for GPUs, `mujoco-warp`: found, and checked before it is used."""

from __future__ import annotations

from typing import Any, NamedTuple

from rookery.errors import MissingExtra, OptionError
from rookery.once import once
from rookery.worlds.mujoco.mujoco_library import load

NEEDED = ("put_model", "make_data", "step", "forward", "rne_postconstraint", "OverflowType")


class WarpLibrary(NamedTuple):
    """The packages `warp` and `mujoco_warp`."""

    warp: Any
    engine: Any


@once
def load_warp() -> WarpLibrary:
    """The library, without its lines about every kernel that it loads."""
    try:
        import warp

        warp.config.log_level = warp.LOG_ERROR
        warp.init()
        import mujoco_warp
    except ImportError as error:
        raise MissingExtra(
            f"backend='cuda' simulates robots with mujoco-warp ({error}): pip install 'rookery[mujoco-gpu]'"
        ) from None
    missing = [name for name in NEEDED if not hasattr(mujoco_warp, name)]
    if missing:
        raise OptionError(
            f"mujoco-warp {mujoco_warp.__version__} has no {missing[0]}: install one for MuJoCo "
            f"{load().package.__version__}, pip install --upgrade 'rookery[mujoco-gpu]'"
        )
    return WarpLibrary(warp, mujoco_warp)
