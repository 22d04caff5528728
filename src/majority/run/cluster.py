"""Work on several machines: a shard, which is a part for one of them, and a Ray cluster: how to connect to it, check
its nodes and run functions there. No other module imports Ray."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
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
Item = TypeVar("Item")


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

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file_name(self) -> str:
        return f"{self.number}-of-{self.of}"

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        """Every `of`-th item, from `number` on: neighbours, which take about equally long, are in different parts."""
        return items[self.number - 1 :: self.of]


# ---------------------------------------------------------------------- a Ray cluster


class LostTaskError(Exception):
    """The process or the node of a task died more often than it is tried again."""


@contextmanager
def connect() -> Iterator[Cluster]:
    """Connect to the cluster at RAY_ADDRESS, or one that runs on this machine, or start one here for this command."""
    for name, value in DRIVER_VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise InputError("--on ray needs Ray: pip install 'majority[ray]'") from None
    if ray.is_initialized():  # by the program that uses this package
        yield Cluster(ray)
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
        yield Cluster(ray)
    finally:
        ray.shutdown()


class Cluster:
    """A cluster to which this process is connected; see `connect`."""

    def __init__(self, ray: Any):
        self.ray = ray

    def share(self, device: str, jobs: int | None = None) -> tuple[float, str]:
        """What a task takes of a GPU, and its device: a CPU, or a part of a GPU, `jobs` per GPU. "auto": GPUs if there
        are any. Ray shows each task only its own GPU."""
        gpus = self.ray.cluster_resources().get("GPU", 0)
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"--device {device}: on a Ray cluster, give auto, cpu or cuda; Ray chooses the GPU")
        if device == "cuda" and not gpus:
            raise InputError("--device cuda: no node of the Ray cluster has a GPU: use --device cpu, or add a node")
        return (0, "cpu") if device == "cpu" or not gpus else (1 / (jobs or PER_GPU), "cuda")

    def slots(self, share: float) -> int:
        """How many tasks the nodes can run at the same time."""
        resources = self.ray.cluster_resources()
        slots = int(min(resources.get("CPU", 0), resources.get("GPU", 0) / share if share else float("inf")))
        if slots == 0:
            raise InputError("the nodes of the Ray cluster have no CPU for a task: start them with --num-cpus")
        return slots

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

    def start(self, function: Callable[..., Any], *arguments: Any, share: float) -> Future[Any]:
        """Run a function of this package on a node. If its process or its node dies, it is run again."""
        remote = self.ray.remote(num_cpus=1, num_gpus=share, max_retries=RETRIES)(_run_task)
        variables = {name: value for name, value in os.environ.items() if name.startswith(OWN_VARIABLES)}
        future: Future[Any] = remote.remote(function, arguments, variables, os.getcwd()).future()
        return future

    def result(self, future: Future[Any]) -> Any:
        """What the function returned. A process or node that died too often is a `LostTaskError`."""
        try:
            return future.result()
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
