"""Work that is divided: into shards, over workers side by side, and over the nodes of a Ray cluster. No other module
imports Ray."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import InputError
from ..version import __version__

LOCAL, RAY = "local", "ray"
PER_GPU = 2  # tasks that share a GPU: one reads or writes while the other computes
RETRIES = 5  # of a task whose process or node died
CONNECT_SECONDS, NODE_SECONDS = 10, 180
OWN_VARIABLES = ("MAJORITY_", "OMP_NUM_THREADS")  # environment variables that tasks get from the command
DRIVER_VARIABLES = {  # unless they are set
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to the makers of Ray
    "RAY_task_oom_retries": "2",  # otherwise a task that takes too much memory is tried again for ever
    "RAY_worker_niceness": "0",  # of a cluster that this command starts: the priority of local workers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # no warning about GPUs
}
CURE = "start one with `ray start --head`, correct RAY_ADDRESS, or unset it to use this machine alone"
MAX_SHARDS = 1_000_000
POLL_SECONDS = 0.5
Item = TypeVar("Item")
Ended = TypeVar("Ended")


def check_on(on: str) -> None:
    if on not in (LOCAL, RAY):
        raise InputError(f"--on {on}: give {LOCAL} or {RAY}")


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of `of` parts. All parts together have every item once.

    >>> [Shard.parse(f"{i}/3").take("abcdefgh") for i in (1, 2, 3)]
    ['adg', 'beh', 'cf']
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
        number, of = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= of <= MAX_SHARDS:
            raise InputError(f"--shard {text}: write I/N, part I of N parts, from 1/N to N/N, such as 2/8")
        return cls(number, of)

    @property
    def file_name(self) -> str:
        return f"{self.number}-of-{self.of}"

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        """Every `of`-th item, from `number` on: neighbours, which take about equally long, are in different parts."""
        return items[self.number - 1 :: self.of]


class LostTaskError(InputError):
    """The process or the node of a task died."""


def side_by_side(
    workers: Sequence[Callable[[Item], Ended]], items: Sequence[Item], running: list[Item]
) -> Iterator[Ended | None]:
    """What workers made of the items, as they end; None at every poll. A worker does one item at a time."""
    free: SimpleQueue[Callable[[Item], Ended]] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def work(item: Item) -> Ended:
        worker = free.get()
        running.append(item)
        try:
            return worker(item)
        finally:
            running.remove(item)
            free.put(worker)

    threads = ThreadPoolExecutor(min(len(workers), len(items)))
    pending = {threads.submit(work, item) for item in items}
    try:
        while pending:
            ended, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
            yield from (future.result() for future in ended)
            yield None
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


# ---------------------------------------------------------------------- a Ray cluster


@contextmanager
def connect(device: str = "auto", jobs: int | None = None, paths: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Connect to the cluster at RAY_ADDRESS, or one that runs on this machine, or start one here for this command.

    The device is that of tasks; `jobs` is their number, or that per GPU. Every node must see the paths.
    """
    for name, value in DRIVER_VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise InputError("--on ray needs Ray: pip install 'majority[ray]'") from None
    if ray.is_initialized():  # by the program that uses this package
        yield Cluster(ray, device, jobs, paths)
        return
    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.rpartition(":")
    try:
        if port.isdigit():  # Ray itself would wait for minutes if nothing answers there
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=None if address else False)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        where = f"at RAY_ADDRESS={address}" if address else "on this machine"
        raise InputError(f"no Ray cluster can be used {where} ({_first_line(error)}): {CURE}") from None
    try:
        yield Cluster(ray, device, jobs, paths)
    finally:
        ray.shutdown()


class Cluster:
    """A cluster to which this process is connected; see `connect`."""

    def __init__(self, ray: Any, device: str, jobs: int | None, paths: Sequence[Path]):
        self.ray, resources = ray, ray.cluster_resources()
        cores, gpus = resources.get("CPU", 0), resources.get("GPU", 0)
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"--device {device}: on a Ray cluster, give auto, cpu or cuda; Ray chooses the GPU")
        if device == "cuda" and not gpus:
            raise InputError("--device cuda: no node of the Ray cluster has a GPU: use --device cpu, or add a node")
        self.device = "cuda" if gpus and device != "cpu" else "cpu"
        per_gpu = (jobs or PER_GPU) if self.device == "cuda" else 0
        self.share = 1 / per_gpu if per_gpu else 0.0  # of a GPU, for a task; Ray shows it only this GPU
        self.slots = int(min(cores, gpus * per_gpu)) if per_gpu else jobs or int(cores)  # tasks at the same time
        if cores < 1 or self.slots == 0:
            raise InputError("the nodes of the Ray cluster have no CPU for a task: start them with --num-cpus")
        self.check_nodes(paths)

    def check_nodes(self, paths: Sequence[Path]) -> None:
        """Refuse a cluster with nodes that have another version, or do not see these paths."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        probe, errors = self.ray.remote(num_cpus=0, max_retries=0)(_probe_function()), self.ray.exceptions
        answers = []
        for node in filter(lambda node: node["Alive"], self.ray.nodes()):
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            reference = probe.options(scheduling_strategy=place).remote([*map(str, paths)])
            answers.append((f"node {node['NodeManagerAddress']} of the Ray cluster", reference))
        for node, reference in answers:
            try:
                version, missing = self.ray.get(reference, timeout=NODE_SECONDS)
            except (errors.RayTaskError, errors.GetTimeoutError) as error:
                cure = "look at it with `ray status`, or remove it"
                raise InputError(f"{node} does not answer ({_first_line(error)}): {cure}") from None
            except errors.RayError:  # it has just died, which Ray notices late
                continue
            if version != __version__:
                cure = "install the same version on all nodes and restart `ray start` there"
                raise InputError(f"{node} has majority {version}, this command has {__version__}: {cure}")
            if missing:
                cure = "put it on a path that all nodes share, such as a network file system"
                raise InputError(f"{missing[0]}: {node} cannot see it: {cure}")

    def call(self, function: Callable[..., Ended], *arguments: Any) -> Ended:
        """What a function of this package returns on a node. If its process or its node dies, it is run again."""
        task = self.ray.remote(num_cpus=1, num_gpus=self.share, max_retries=RETRIES)(_run_task)
        variables = {name: value for name, value in os.environ.items() if name.startswith(OWN_VARIABLES)}
        try:
            ended: Ended = task.remote(function, arguments, variables, os.getcwd()).future().result()
            return ended
        except self.ray.exceptions.RayTaskError:  # the function raised it
            raise
        except self.ray.exceptions.RayError as error:
            what = f"its process or its node died, or memory ran out, {RETRIES + 1} times ({_first_line(error)})"
            raise LostTaskError(f"{what}: see `ray status`, use fewer --jobs, or nodes with more memory") from None


def _probe_function() -> Callable[[list[str]], tuple[str, list[str]]]:
    """A function that Ray sends as code, because a node may lack this package."""

    def probe(paths: list[str]) -> tuple[str, list[str]]:
        import os

        try:
            from majority.version import __version__ as version
        except ImportError:
            version = "(none)"
        return version, [path for path in paths if not os.path.exists(path)]

    return probe


def _run_task(function: Callable[..., Any], arguments: tuple[Any, ...], variables: dict[str, str], place: str) -> Any:
    """On a node: with the environment variables and the working directory of the command."""
    os.environ.update(variables)
    with suppress(OSError):  # needed for relative paths only
        os.chdir(place)
    if "OMP_NUM_THREADS" in variables:
        import torch

        torch.set_num_threads(int(variables["OMP_NUM_THREADS"]))
    return function(*arguments)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
