"""Work that a GPU replays as a graph: without a GPU it is simply called. CUDA is stood in for by objects that count."""

from __future__ import annotations

import contextlib

import pytest
import torch

from rookery.learners import captured_call
from rookery.learners.captured_call import CapturedCall, unchanged

CPU = torch.device("cpu")


class Graph:
    """A graph that runs its function at each replay, as a CUDA graph repeats its kernels."""

    def __init__(self, function) -> None:
        self.function, self.generators, self.was_reset = function, [], False

    def register_generator_state(self, generator) -> None:
        self.generators.append(generator)

    def replay(self) -> None:
        self.function()

    def reset(self) -> None:
        self.was_reset = True


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose CUDA graphs are `Graph`s; `calls` lists what was done in which phase."""
    phases = {"now": "plain", "calls": [], "graphs": [], "work": None}

    def made() -> Graph:
        phases["graphs"].append(Graph(phases["work"]))
        return phases["graphs"][-1]

    @contextlib.contextmanager
    def capture(graph, **kwargs):
        phases["now"], phases["options"] = "capture", kwargs
        yield
        phases["now"] = "plain"

    class Stream:
        def wait_stream(self, other) -> None:
            pass

    monkeypatch.setattr(torch.cuda, "CUDAGraph", made)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream())
    monkeypatch.setattr(captured_call, "_side_stream", lambda device: Stream())
    return phases


def test_on_a_cpu_it_is_the_function():
    total = torch.zeros(2)
    call = CapturedCall(lambda: total.add_(1.0), CPU, state=lambda: [total])
    for _ in range(3):
        call()
    assert total.tolist() == [3.0, 3.0] and not call.captured
    call.release()
    call()
    assert total.tolist() == [4.0, 4.0]


def test_warming_up_changes_no_number(gpu):
    total, generator, drawn = torch.zeros(1), torch.Generator().manual_seed(3), torch.zeros(2)
    twin = torch.Generator().manual_seed(3)

    def work() -> None:
        gpu["calls"].append(gpu["now"])
        total.add_(1.0)
        drawn.copy_(torch.rand(2, generator=generator))

    call = CapturedCall(work, torch.device("cuda"), state=lambda: [total], generators=[generator])
    gpu["work"] = work
    call()
    assert gpu["calls"] == ["plain", "capture", "plain"]  # warm-up, capture, replay
    assert total.item() == 1.0 and torch.equal(drawn, torch.rand(2, generator=twin))
    call()
    assert total.item() == 2.0 and torch.equal(drawn, torch.rand(2, generator=twin))
    assert gpu["graphs"][-1].generators == [generator] and call.captured


def test_a_released_call_captures_again(gpu):
    total = torch.zeros(1)
    call = CapturedCall(lambda: total.add_(1.0), torch.device("cuda"), state=lambda: [total])
    gpu["work"] = lambda: total.add_(1.0)
    call()
    (first,) = gpu["graphs"]
    call.release()
    assert first.was_reset and not call.captured
    call()
    assert len(gpu["graphs"]) == 2 and total.item() == 2.0


def test_work_that_cannot_be_captured_never_is(gpu):
    """Not after a release either: it launches graphs of its own, which cannot be captured."""
    total = torch.zeros(1)
    call = CapturedCall(lambda: total.add_(1.0), torch.device("cuda"), state=lambda: [total], plain=True)
    call()
    call.release()
    call()
    assert gpu["graphs"] == [] and total.item() == 2.0


def test_one_inside_another_makes_no_graph_of_its_own(gpu):
    total = torch.zeros(1)
    inner = CapturedCall(lambda: total.add_(1.0), torch.device("cuda"), state=lambda: [total])
    outer = CapturedCall(lambda: inner(), torch.device("cuda"), state=lambda: [total])
    gpu["work"] = lambda: total.add_(1.0)
    outer()
    assert len(gpu["graphs"]) == 1 and outer.captured and not inner.captured and total.item() == 1.0
    inner()
    assert inner.captured and total.item() == 2.0


def test_work_that_cannot_be_captured_runs_and_says_so(gpu, caplog):
    total = torch.zeros(1)

    def waits() -> None:
        if gpu["now"] == "capture":
            gpu["now"] = "plain"
            raise RuntimeError("operation not permitted when stream is capturing")
        total.add_(1.0)

    caplog.set_level("INFO")
    call = CapturedCall(waits, torch.device("cuda"), state=lambda: [total], name="the update")
    call()
    call()
    assert total.item() == 2.0 and not call.captured
    assert caplog.text.count("the update: launched kernel by kernel") == 1


def test_too_little_memory_is_an_error_of_the_run(gpu):
    def hungry() -> None:
        raise torch.OutOfMemoryError("out of memory")

    total = torch.ones(1)
    with pytest.raises(torch.OutOfMemoryError):
        CapturedCall(hungry, torch.device("cuda"), state=lambda: [total])()
    assert total.item() == 1.0


def test_unchanged_restores_after_an_error():
    weights, generator = torch.ones(2, requires_grad=True), torch.Generator().manual_seed(1)
    state = generator.get_state()
    with pytest.raises(ValueError), unchanged([weights], [generator]):
        with torch.no_grad():
            weights.zero_()
        torch.rand(3, generator=generator)
        raise ValueError
    assert weights.tolist() == [1.0, 1.0] and torch.equal(generator.get_state(), state)
