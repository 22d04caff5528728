"""Faster training on a GPU: CUDA graphs, which are recorded once and replayed, and compiled modules."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .callbacks import Fitted

WARM_UPS = 3
MOST_GRAPHS = 64  # of one function: other shapes run eagerly
RECOMPILATIONS = 64  # of a module in one process: for other shapes, for training and evaluation

Shapes = tuple[torch.Size | None, ...]  # of the inputs of a function; None: there is no such input


class Captured:
    """A function that is captured as a CUDA graph for each combination of input shapes (up to MOST_GRAPHS of them),
    and replayed.

    The function takes tensors (some may be None), returns nothing and only changes tensors, which `state()` gives by
    name. Before a capture it runs a few times, so that libraries choose kernels and allocate memory; the tensors are
    then restored, and `fitted` gets the seconds. A function that cannot be captured runs eagerly, after one message.
    """

    def __init__(self, function: Callable[..., None], state: Callable[[], dict[object, Tensor]], fitted: Fitted):
        self.function, self.state, self.fitted = function, state, fitted
        self.graphs: dict[Shapes, tuple[list[Tensor | None], torch.cuda.CUDAGraph]] = {}
        self.pool = torch.cuda.graph_pool_handle()
        self.failed = False

    def __call__(self, *inputs: Tensor | None) -> None:
        shapes = tuple(None if tensor is None else tensor.shape for tensor in inputs)
        if shapes not in self.graphs and not self.failed and len(self.graphs) < MOST_GRAPHS:
            self._capture(shapes, inputs)
        if shapes not in self.graphs:
            return self.function(*inputs)
        static_inputs, graph = self.graphs[shapes]
        for static, tensor in zip(static_inputs, inputs, strict=True):
            if static is not None and tensor is not None:
                static.copy_(tensor)
        return graph.replay()

    def _capture(self, shapes: Shapes, inputs: tuple[Tensor | None, ...]) -> None:
        start = time.perf_counter()
        static_inputs = [None if tensor is None else tensor.clone() for tensor in inputs]
        saved = {name: tensor.clone() for name, tensor in self.state().items()}
        rng_state = torch.cuda.get_rng_state()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self.function(*static_inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                self.function(*static_inputs)
            self.graphs[shapes] = static_inputs, graph
        except RuntimeError as error:
            self.failed = True
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())  # else it would still wait for the capture to end
            reason = str(error).splitlines()[0]
            print(
                f"majority: a step could not be captured ({reason}): it runs eagerly, which is slower", file=sys.stderr
            )
        with torch.no_grad():
            for name, tensor in self.state().items():  # new tensors, such as the moments of an optimizer, start at 0
                tensor.copy_(saved[name]) if name in saved else tensor.zero_()
        torch.cuda.set_rng_state(rng_state)
        torch.cuda.synchronize()
        self.fitted.capture_seconds += time.perf_counter() - start


@contextmanager
def cudnn_benchmark(on: bool) -> Iterator[None]:
    """Within the context, cuDNN chooses the fastest algorithm for each shape, unless the caller has asked for
    deterministic ones."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on and not torch.backends.cudnn.deterministic
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Within the context, the model runs neither compiled nor tuned: for shapes that differ each time."""
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
    """Within the context, the modules run compiled, once for each shape. They keep their parameter names."""
    if not modules:  # torch._dynamo is not imported for nothing: that takes longer than a short training
        yield
        return
    for module in modules:
        module.compile(dynamic=False)
    try:
        with torch._dynamo.config.patch(recompile_limit=RECOMPILATIONS):
            yield
    finally:
        for module in modules:
            module._compiled_call_impl = None
