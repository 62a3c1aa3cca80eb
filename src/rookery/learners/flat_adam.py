"""Adam over all parameters as one vector: a step is a few operations, for any number of layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from rookery.learners.schedules import BETAS

MOST_PARTS, SHORTEST_PART = 36, 4096  # as many as torch's fused kernel takes in one launch


class FlatAdam:
    """Adam on one vector: the parameters of some modules are moved into it and become views of it.

    For two 64x64 nets with batches of 256 rows on a CPU, `torch.optim.Adam` over twelve tensors and `clip_grad_norm_`
    take longer than the gradient itself; this takes 10 us. On a GPU a step waits for nothing and reads the learning
    rate from a tensor, `rate`, so that it can be a part of a CUDA graph.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], learning_rate: float, eps: float = 1e-8, compiled: bool = True
    ) -> None:
        self.eps = eps
        self.parameters = list(parameters)
        self.flat = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in self.parameters]))
        self.gradient = self.flat.grad = torch.zeros_like(self.flat)
        self.moments = torch.zeros_like(self.flat.data), torch.zeros_like(self.flat.data)
        self.steps = torch.zeros((), device=self.flat.device)
        # Changes a complete gradient in place, before a step.
        self.on_gradient: Callable[[Tensor], object] | None = None
        # A number on the device: steps change nothing while it is 1 and not 0, without a decision of the host.
        self.stop: Tensor | None = None
        self.rate = torch.full((1,), learning_rate, device=self.flat.device)
        self._learning_rate = learning_rate
        self._compiled = compiled and self.flat.device.type == "cpu"
        self._make_views()

    @property
    def learning_rate(self) -> float:
        """The step size of the next steps."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if value != self._learning_rate:
            self._learning_rate = value
            self.rate.fill_(value)

    def _make_views(self) -> None:
        """Let the parameters be parts of the vector."""
        start = 0
        for p in self.parameters:
            part = slice(start, start + p.numel())
            p.data = self.flat.data[part].view(p.shape)
            p.grad = self.gradient[part].view(p.shape)  # backward() adds into it
            start = part.stop
        if self._compiled:  # the same memory, as compiled code wants it
            from rookery.learners.kernels.cpu.layer_table import (
                adam_step,
            )  # imports Numba, which a run on a GPU does without

            self._step = adam_step
            self._arrays = [x.numpy() for x in (self.flat.data, self.gradient, *self.moments)]

    def move_to(self, flat: Tensor, gradient: Tensor, moments: tuple[Tensor, Tensor]) -> None:
        """Keep weights, gradient and moments in this memory from now on; their values move with them."""
        for new, old in zip((flat, gradient, *moments), (self.flat.data, self.gradient, *self.moments), strict=True):
            new.copy_(old)
        self.flat.data, self.moments = flat, moments
        self.gradient = self.flat.grad = gradient
        self._make_views()

    def minimize(self, loss: Tensor, max_norm: float | None = None, norm: bool = True) -> Tensor:
        """Backward and one step on `loss`; returns as `step` does."""
        if self.flat.device.type == "cpu":
            self.gradient.zero_()
            loss.backward()
        else:
            self._backward(loss)
        return self.step(max_norm, norm)

    def _backward(self, loss: Tensor) -> None:
        """The gradient in one copy, where adding into each parameter's part of it would be a kernel each."""
        grads = torch.autograd.grad(loss, self.parameters, allow_unused=True, materialize_grads=True)
        torch.cat([grad.reshape(-1) for grad in grads], out=self.gradient)

    def descend(
        self,
        outputs: Sequence[Tensor],
        grads: Sequence[Tensor],
        max_norm: float | None = None,
        known: Sequence[Tensor] = (),
    ) -> None:
        """One step on a loss that has these gradients at some outputs of networks. `known` are its gradients at the
        last parameters, if those outputs do not depend on them."""
        parameters = self.parameters[: len(self.parameters) - len(known)]
        found = torch.autograd.grad(outputs, parameters, grads)
        torch.cat([grad.reshape(-1) for grad in (*found, *known)], out=self.gradient)
        self.step(max_norm, norm=False)

    @torch.no_grad()
    def step(self, max_norm: float | None = None, norm: bool = True) -> Tensor:
        """One step with the present gradient; returns its norm before clipping, unless nobody wants it (`norm`)."""
        if self.on_gradient is not None:
            self.on_gradient(self.gradient)
        if self._compiled:
            return self._compiled_step(max_norm)
        length = self.gradient.norm() if norm or max_norm is not None else self.steps
        if max_norm is not None:
            self.gradient.mul_((max_norm / (length + 1e-6)).clamp(max=1.0))
        if self.flat.device.type == "cuda":
            self._step_in_parts()
            return length
        on_cpu = self.flat.device.type == "cpu"  # there the rate is a Python number, in double precision
        adam(
            [self.flat], [self.gradient], [self.moments[0]], [self.moments[1]], [], [self.steps],
            fused=True, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.learning_rate if on_cpu else self.rate,
            weight_decay=0.0, eps=self.eps, maximize=False, found_inf=self.stop,
        )  # fmt: skip
        return length

    def _step_in_parts(self) -> None:
        """The same on a GPU. torch's kernel gives 65,536 numbers of a tensor to one block of threads, so that a vector
        of 140,000 occupies three of them and takes 58 us on an H200. Short parts occupy more."""
        size = max(SHORTEST_PART, -(-len(self.flat) // (4 * MOST_PARTS)) * 4)  # 16 bytes, which it reads at once
        parts = [x.split(size) for x in (self.flat.data, self.gradient, *self.moments)]
        self.steps.add_(1)
        torch._fused_adam_(  # type: ignore[call-overload]
            *parts, [], [self.steps] * len(parts[0]), lr=self.rate, beta1=BETAS[0], beta2=BETAS[1], weight_decay=0.0,
            eps=self.eps, amsgrad=False, maximize=False, found_inf=self.stop,
        )  # fmt: skip
        if self.stop is not None:
            self.steps.sub_(self.stop)

    def _compiled_step(self, max_norm: float | None) -> Tensor:
        if self.stop is not None and self.stop:
            return self.gradient.norm()
        self.steps += 1
        limit = math.inf if max_norm is None else max_norm
        return torch.tensor(self._step(*self._arrays, float(self.steps), self.learning_rate, self.eps, limit))

    def state(self) -> dict[str, Any]:
        """The moments; the parameters are saved by their modules."""
        named = {"step": self.steps, "exp_avg": self.moments[0], "exp_avg_sq": self.moments[1]}
        return {name: value.cpu().numpy().copy() for name, value in named.items()}

    def load(self, state: dict[str, Any]) -> None:
        for mine, name in zip((self.steps, *self.moments), ("step", "exp_avg", "exp_avg_sq"), strict=True):
            mine.copy_(torch.from_numpy(np.array(state[name])))
