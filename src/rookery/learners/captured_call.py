"""Work on fixed tensors, replayed as a CUDA graph: hundreds of small kernels that take less time than their launches.

```python
step = CapturedCall(lambda: weights.add_(1.0), device, state=lambda: [weights])
step()   # warms up, captures, replays: the weights are 1
step()   # replays: they are 2
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rookery.console import say
from rookery.once import once

WARM_UP = 1  # calls before a graph is captured, in which libraries allocate, compile and choose


class CapturedCall:
    """A function without arguments, replayed as a CUDA graph. On a device without graphs it is simply called.

    The function reads and writes tensors whose addresses stay; it changes nothing else, as Python runs it only before
    the first replay, and it never waits for the device. Inside the function of another one it becomes a part of that.
    """

    _inside = False  # whether one of them warms up or is captured: those inside it make no graphs of their own

    def __init__(
        self,
        function: Callable[[], None],
        device: torch.device,
        *,
        state: Callable[[], Sequence[Tensor]],
        generators: Sequence[torch.Generator] = (),
        pool: Any = None,
        name: str = "",
        plain: bool = False,
    ) -> None:
        """`state` returns the tensors that the function changes and reads again: warming up leaves them as they were.
        Tensors that it only writes need not be among them. `generators` are those that it draws from, `pool` is the
        memory of another graph (`graph.pool()`), and `name` is for messages. With `plain`, no graph is made: the
        function does what cannot be a part of one."""
        self._function, self._state, self._generators = function, state, tuple(generators)
        self._device, self._pool, self._name = device, pool, name or getattr(function, "__name__", "work")
        self._graph: torch.cuda.CUDAGraph | None = None
        self._never = plain or device.type != "cuda"
        self._plain = self._never

    def __call__(self) -> None:
        """The first call warms up and captures. Every number of a run comes from replays."""
        if self._plain or CapturedCall._inside:
            self._function()
            return
        if self._graph is None:
            self._capture()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._function()

    def release(self) -> None:
        """Capture again at the next call: an address or an option has changed."""
        if self._graph is not None:
            self._graph.reset()
        self._graph, self._plain = None, self._never

    @property
    def captured(self) -> bool:
        """Whether calls are replays."""
        return self._graph is not None

    def _capture(self) -> None:
        try:
            with unchanged(self._state(), self._generators):
                self._graph = self._new_graph()
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            self._plain = True
            say(f"{self._name}: launched kernel by kernel, as no CUDA graph could be made of it: {error}")

    def _new_graph(self) -> torch.cuda.CUDAGraph:
        present, side = torch.cuda.current_stream(self._device), _side_stream(self._device)
        side.wait_stream(present)
        with torch.cuda.stream(side), self._outermost():
            for _ in range(WARM_UP):
                self._function()
        present.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        # Other threads may use the GPU meanwhile: theirs are not the calls that a capture must not see.
        capture = torch.cuda.graph(graph, pool=self._pool, stream=side, capture_error_mode="thread_local")
        with capture, self._outermost():
            self._function()
        return graph

    @contextmanager
    def _outermost(self) -> Iterator[None]:
        CapturedCall._inside = True
        try:
            yield
        finally:
            CapturedCall._inside = False


class CapturedUpdate:
    """An on-policy learner's update, replayed: `function` updates the learner from its full rollout. A graph has
    options in it, and addresses: another one is captured when they have changed."""

    def __init__(self, learner: Any, function: Callable[[], None]) -> None:
        self._learner = learner
        self.call = CapturedCall(
            function,
            learner.device,
            state=lambda: learner.execution.stays(),
            generators=[learner.generator],
            name="an update",
            plain=learner.execution.shares,  # it waits for other processes
        )
        self._made_for: list[Any] = []

    def __call__(self) -> None:
        options, rollout = self._learner.options, self._learner.execution.rollout
        now = [options, rollout, *(tensor for name, tensor in rollout.tensors().items() if name != "noise")]
        if len(now) != len(self._made_for) or any(a is not b for a, b in zip(now, self._made_for, strict=True)):
            self.call.release()
            self._made_for = now
        self.call()


@contextmanager
def unchanged(state: Sequence[Tensor], generators: Sequence[torch.Generator] = ()) -> Iterator[None]:
    """Tensors and generators have the same values after the block as before it."""
    kept = [tensor.detach().clone() for tensor in state]
    seeds = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(state, kept, strict=True):
                tensor.copy_(value)
        for generator, seed in zip(generators, seeds, strict=True):
            generator.set_state(seed)


@once
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """Captures need a stream of their own. One for all: libraries keep tens of megabytes for every stream."""
    return torch.cuda.Stream(device)
