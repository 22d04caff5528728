"""Faster on a GPU: work recorded once as a CUDA graph and replayed, and networks compiled into fewer kernels."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

WARM_UPS = 3
RECOMPILATIONS = 64  # of a network in one process: other shapes, training or not


class Captured:
    """A function of tensors (some None) that only changes tensors (weights, sums), captured for each shape of inputs.

    Before a capture the function runs a few times, which libraries need to choose kernels and take memory;
    what those runs changed in `state()` is put back. Work that cannot be captured runs as it is, with one
    line that says so.
    """

    def __init__(self, function: Callable[..., None], state: Callable[[], dict[object, Tensor]]):
        self.function, self.state = function, state
        self.graphs: dict[tuple, tuple[list[Tensor | None], torch.cuda.CUDAGraph]] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.seconds = 0.0  # spent on captures
        self.failed = False

    def __call__(self, *inputs: Tensor | None) -> None:
        shapes = tuple(None if tensor is None else tensor.shape for tensor in inputs)
        if shapes not in self.graphs and not self.failed:
            self._capture(shapes, inputs)
        if self.failed:
            return self.function(*inputs)
        held, graph = self.graphs[shapes]
        for place, tensor in zip(held, inputs, strict=True):
            if tensor is not None:
                place.copy_(tensor)
        return graph.replay()

    def _capture(self, shapes: tuple, inputs: tuple[Tensor | None, ...]) -> None:
        start = time.perf_counter()
        held = [None if tensor is None else tensor.clone() for tensor in inputs]
        before = {name: tensor.clone() for name, tensor in self.state().items()}
        draws = torch.cuda.get_rng_state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self.function(*held)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                self.function(*held)
            self.graphs[shapes] = held, graph
        except RuntimeError as error:
            self.failed = True
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())  # else it would go on waiting for the capture's end
            reason = str(error).splitlines()[0]
            print(f"majority: a step could not be captured ({reason}): it runs eagerly, slower", file=sys.stderr)
        with torch.no_grad():
            for name, tensor in self.state().items():  # what is new, such as an optimizer's moments, starts from 0
                tensor.copy_(before[name]) if name in before else tensor.zero_()
        torch.cuda.set_rng_state(draws)
        torch.cuda.synchronize()
        self.seconds += time.perf_counter() - start


@contextmanager
def cudnn_benchmark(on: bool) -> Iterator[None]:
    """Inside, cuDNN tries its ways for each shape it meets and takes the fastest, unless the caller wants the same way
    each time."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on and not torch.backends.cudnn.deterministic
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Inside, neither compiled nor tuned: for shapes that differ each time."""
    parts = {part: part._compiled_call_impl for part in model.modules() if part._compiled_call_impl is not None}
    for part in parts:
        part._compiled_call_impl = None
    try:
        with cudnn_benchmark(False):
            yield
    finally:
        for part, call in parts.items():
            part._compiled_call_impl = call


@contextmanager
def compiled(*modules: nn.Module) -> Iterator[None]:
    """Inside, the modules run compiled for each shape they meet; after it, as before, under the same names."""
    for module in modules:
        module.compile(dynamic=False)
    try:
        with torch._dynamo.config.patch(recompile_limit=RECOMPILATIONS):
            yield
    finally:
        for module in modules:
            module._compiled_call_impl = None
