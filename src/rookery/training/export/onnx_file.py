"""`rookery export --onnx`: a trained policy as one file that other programs can run, without rookery or torch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rookery.engine.image_size import size_of
from rookery.errors import MissingExtra, RunError
from rookery.files import replace_file
from rookery.training.evaluation.trained_run import open_run
from rookery.training.export.policy_module import (
    PolicyModule,
    confirm_overwrite,
    has_action_masks,
    outputs_match,
    perturbed,
    world_title,
)
from rookery.version import __version__

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
BATCH_SIZES = (1, 64)  # with which a model is checked


def export_onnx(
    run: str | Path,
    runs_dir: str | Path = "runs",
    out: str | Path | None = None,
    best: bool = False,
    mask: bool | None = None,
    overwrite: bool = False,
    trust: bool = False,
) -> Path:
    """Write the policy of a run to `out` (`policy.onnx` in the run's folder), including its normalisation.

    Inputs, each with a batch axis of any size first and the dtype of its space:
        one per array of an observation: "observation", or its path in a Dict or Tuple, such as "camera.0";
        "action_mask" (bool), if the run's envs give action masks (`mask` overrides what the checkpoint says);
        "memory", if the policy is recurrent: zeros at the start of an episode, then the last "next_memory".
    Outputs: "action", the deterministic one as `env.step` takes it (for Dict and Tuple actions one per part, such as
        "action.force"), and "next_memory" of a recurrent policy.

    The model's outputs for random observations are compared with the agent's before the file is written. Its metadata
    hold run, world, step, learner, version of rookery, and the size to which images are shrunk before the model sees
    them. An existing file is only replaced with `overwrite`, or after a question on the terminal. `trust` imports the
    code of a network of somebody's own without a question.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"an ONNX file needs {', '.join(missing)}: pip install 'rookery[onnx]'")
    trained = open_run(run, runs_dir, best, parts=("agent", "envs"), trust=trust)
    model = PolicyModule(trained.agent, has_action_masks(trained) if mask is None else mask)
    metadata = {
        "run": trained.run.name,
        "world": world_title(trained.config.world),
        "step": str(trained.step),
        "learner": trained.config.learner,
        "rookery": __version__,
    }
    if isinstance(trained.config.image_size, (int, list)):
        metadata["image_size"] = "x".join(map(str, size_of(trained.config.image_size)))
    path = Path(out) if out is not None else trained.run.outputs / "policy.onnx"
    confirm_overwrite(path, overwrite)
    contents = to_onnx(model, metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [contents])
    return path


def to_onnx(model: PolicyModule, metadata: dict[str, str]) -> bytes:
    """The model as an ONNX file, checked."""
    import onnx

    try:
        proto = _converted(model)
    except Exception as error:
        raise RunError(f"the policy cannot be turned into an ONNX model: {error}") from error
    _strip(proto)
    onnx.helper.set_model_props(proto, metadata)
    proto.producer_name, proto.producer_version = "rookery", __version__
    contents = proto.SerializeToString()
    check_onnx(model, contents)
    return contents


def _converted(model: PolicyModule) -> Any:
    """The model as torch's exporter writes it."""
    examples = tuple(model.example_inputs(2))
    with torch.no_grad():
        model(*examples)  # a normaliser computes its factors when first used, which should not become part of the model
    shapes = (tuple({0: torch.export.Dim("batch")} for _ in examples),)
    with _quiet():
        # Strict mode reads the code; tracing alone would make `len(batch)` a constant.
        traced = torch.export.export(model, examples, dynamic_shapes=shapes, strict=True)
        program = torch.onnx.export(
            traced, dynamo=True, verbose=False, input_names=model.inputs, output_names=model.outputs
        )
    assert program is not None
    return program.model_proto


def _strip(proto: Any) -> None:
    """Remove notes about the source file of each node, and name the batch axis."""
    graph = proto.graph
    for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        del part.metadata_props[:]
        part.doc_string = ""
    del graph.value_info[:]  # intermediate shapes, which any runtime infers
    for part in (*graph.input, *graph.output):
        part.type.tensor_type.shape.dim[0].dim_param = "batch"


def check_onnx(model: PolicyModule, contents: bytes) -> None:
    """Raise if the model's outputs differ from the policy's (see `outputs_match`)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
    other = perturbed(model)
    for rows in BATCH_SIZES:
        inputs = tuple(model.example_inputs(rows, seed=rows))
        given = dict(zip(model.inputs, (part.numpy() for part in inputs), strict=True))
        actual = session.run(model.outputs, given)
        with torch.no_grad():
            expected, rounded = model(*inputs), other(*inputs)
        for name, *outputs in zip(model.outputs, expected, rounded, actual, strict=True):
            if not outputs_match(*map(np.asarray, outputs)):
                raise RunError(f"the ONNX model is not written: its {name!r} differs from the agent's own")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines and warnings of torch's exporter."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
