"""The statistics of SB3's VecNormalize, from JSON or npz. Its own file is a pickle, which is not loaded."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.errors import FileError
from rookery.learners.normalize import CLIP

FLOOR = 1e-8  # added to variances here; SB3's epsilon may be another
MOST_BYTES = 1 << 26
WAY_OUT = """\
{name} is a pickle, which could run any code: it is not loaded. If you trust it, write its numbers to a file with

    import numpy as np
    from stable_baselines3.common.save_util import load_from_pkl
    v = load_from_pkl({path!r})
    np.savez("vecnormalize.npz", mean=v.obs_rms.mean, var=v.obs_rms.var, count=v.obs_rms.count,
             epsilon=v.epsilon, clip_obs=v.clip_obs)

in Python, and name that file: --vecnormalize vecnormalize.npz"""


def read_vecnormalize(path: Path, width: int) -> dict[str, np.ndarray]:
    """The buffers of `learners.normalize.RunningNorm` for vectors of this width.

    Args:
        path: An .npz or .json file with `mean` and `var`, and perhaps `count`, `epsilon` and `clip_obs`.
    """
    name = printable(path)
    if path.suffix.lower() not in (".npz", ".json"):
        raise FileError(WAY_OUT.format(name=name, path=str(path)))
    if not path.is_file():
        raise FileError(f"there is no file {name}")
    if path.stat().st_size > MOST_BYTES:
        raise FileError(f"{name} is larger than statistics of observations can be: it is not read")
    try:
        found = {key: np.asarray(value, np.float64) for key, value in _read(path).items()}
    except (ValueError, TypeError, OSError, OverflowError, MemoryError, zipfile.BadZipFile, RecursionError) as error:
        raise FileError(f"{name} cannot be read: {printable(str(error))[:200]}") from None
    return _checked(found, width, name)


def _read(path: Path) -> dict[str, Any]:
    if path.suffix.lower() == ".json":
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it should be a JSON object")
    else:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                raise ValueError("it is larger inside than statistics of observations can be")
        with np.load(path, allow_pickle=False) as arrays:
            found = dict(arrays)
    return {key: value for key, value in found.items() if key in ("mean", "var", "count", "epsilon", "clip_obs")}


def _checked(found: dict[str, np.ndarray], width: int, name: str) -> dict[str, np.ndarray]:
    for key in ("mean", "var"):
        if key not in found or found[key].size != width or not np.isfinite(found[key]).all():
            shape = found[key].shape if key in found else "none"
            raise FileError(f"{name}: `{key}` should have {width} finite numbers, one for each observed, got {shape}")
    scalars = {
        key: float(found[key]) for key in ("count", "epsilon", "clip_obs") if key in found and not found[key].ndim
    }
    if scalars.get("clip_obs", CLIP) != CLIP:
        raise FileError(
            f"{name}: `clip_obs` is {scalars['clip_obs']:g}, and normalised observations are cut at {CLIP:g} here"
        )
    variance = found["var"].ravel() + scalars.get("epsilon", FLOOR) - FLOOR
    if (variance + FLOOR <= 0).any():
        raise FileError(f"{name}: `var` should not be negative")
    count = np.array(scalars.get("count", 1.0), np.float64)
    return {"mean": found["mean"].ravel(), "variance": variance, "count": count}
