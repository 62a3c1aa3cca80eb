"""Frames to a video file: .mp4 through PyAV, .gif or .webp through Pillow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import say
from rookery.errors import OptionError, RunError
from rookery.extras import load_pillow
from rookery.files import beside, named

MAX_FPS = {".mp4": 60, ".gif": 25, ".webp": 30}  # frames per second, by kind of file
MIN_SIDE = 200  # pixels; smaller frames, such as those of grid worlds, are enlarged
QUALITY = {"crf": "20", "preset": "veryfast"}  # of H.264
COLOURS = 256  # of a .gif


def video_path(path: Path) -> Path:
    """The path of a video that can be written here: without PyAV it is a .gif instead of an .mp4.

    >>> video_path(Path("play.avi"))
    Traceback (most recent call last):
    rookery.errors.OptionError: a video's name should end in .mp4, .gif or .webp, got 'play.avi'
    """
    kind = path.suffix.lower()
    if kind not in MAX_FPS:
        raise OptionError(f"a video's name should end in .mp4, .gif or .webp, got {path.name!r}")
    if kind == ".mp4" and find_spec("av") is None:
        path = path.with_suffix(".gif")
        say(f"writing {path.name}, as an .mp4 needs PyAV: pip install 'rookery[video]'")
    return path


def frame_stride(path: Path, fps: float) -> int:
    """Keep one frame of this many, so that a video of this kind stays within its largest frame rate.

    >>> frame_stride(Path("play.gif"), 50), frame_stride(Path("play.mp4"), 50)
    (2, 1)
    """
    return math.ceil(fps / MAX_FPS[path.suffix.lower()])


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write frames, arrays (height, width, 3) of bytes, as they come. The file appears once it is complete."""
    encodable = map(_encodable, frames)
    first = next(encodable, None)
    if first is None:
        raise RunError(f"{path} was not written: there is no frame to show")
    write: Callable[..., None] = _write_mp4 if path.suffix.lower() == ".mp4" else _write_images
    path.parent.mkdir(parents=True, exist_ok=True)
    with beside(path) as unfinished, named(path):
        write(unfinished, path.suffix.lower(), chain([first], encodable), first.shape[:2], fps)


def as_rgb(frame: Any) -> np.ndarray:
    """A grey, RGB or RGBA frame as an array (height, width, 3) of bytes."""
    frame = np.asarray(frame)
    if frame.ndim == 2:
        frame = np.repeat(frame[:, :, None], 3, axis=2)
    if frame.ndim != 3 or frame.shape[2] not in (3, 4) or frame.dtype != np.uint8:
        raise RunError(
            f"a frame should be an array (height, width, 3) of bytes, and render() returned {frame.dtype} {frame.shape}"
        )
    return frame[:, :, :3]


def _encodable(frame: Any) -> np.ndarray:
    """A frame with even sides, as H.264 needs them, and at least MIN_SIDE pixels wide and high."""
    frame = as_rgb(frame)
    zoom = math.ceil(MIN_SIDE / min(frame.shape[:2])) if min(frame.shape[:2]) * 2 <= MIN_SIDE else 1
    frame = frame.repeat(zoom, axis=0).repeat(zoom, axis=1)
    height, width = frame.shape[:2]
    return np.ascontiguousarray(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))


def _write_mp4(file: Path, _: str, frames: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> None:
    import av

    # The index comes first, so that a browser can start to play before it has read the whole file.
    with av.open(str(file), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000), options=QUALITY)
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            shown = av.VideoFrame.from_ndarray(frame, format="rgb24")
            container.mux(stream.encode(shown.reformat(stream.width, stream.height, "yuv420p")))
        container.mux(stream.encode())


def _write_images(file: Path, kind: str, frames: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> None:
    image = load_pillow()
    pictures: Iterator[Any] = (_fitted(image.fromarray(frame), size) for frame in frames)
    if kind == ".gif":
        pictures = _indexed(image, pictures)
    first = next(pictures)
    first.save(
        file, kind[1:], save_all=True, append_images=pictures, duration=round(100 / fps) * 10 or 10, loop=0,
    )  # fmt: skip


def _fitted(picture: Any, size: tuple[int, int]) -> Any:
    height, width = size
    return picture if picture.size == (width, height) else picture.resize((width, height))


def _indexed(image: Any, pictures: Iterator[Any]) -> Iterator[Any]:
    """One palette for all frames, as a palette per frame would flicker. It is made from several early frames, since the
    first may not show every colour yet."""
    early = list(islice(pictures, 50))
    width, height = early[0].width // 2, early[0].height // 2
    samples = early[:: math.ceil(len(early) / 25)]
    sheet = image.new("RGB", (width, height * len(samples)))
    for k, sample in enumerate(samples):
        sheet.paste(sample.resize((width, height), image.Resampling.NEAREST), (0, k * height))
    colours = sheet.quantize(COLOURS)
    for picture in chain(early, pictures):
        yield picture.quantize(palette=colours, dither=image.Dither.NONE)
