"""Work on several machines: a shard, which is a part for one of them, and a Ray cluster: how to connect to it, check
its nodes and run functions there. No other module imports Ray."""

from __future__ import annotations

import logging
import os
import platform
import re
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError, count_noun
from ..version import __version__

LOCAL, RAY = "local", "ray"
PER_GPU = 2  # tasks that share a GPU: one reads or writes while the other computes
RETRIES = 5  # of a task whose process or node died
CONNECT_SECONDS, NODE_SECONDS = 10, 180
PROBE = ".majority-probe-"  # name of a file that nodes must see
SHOWN = 3  # nodes, in a message
QUEUED = 2  # tasks per slot of the cluster: the next one is there when one ends, and a growing cluster sees the need
OWN_VARIABLES = ("MAJORITY_", "OMP_NUM_THREADS")  # environment variables that tasks get from the command
DRIVER_VARIABLES = {  # unless they are set
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to the makers of Ray
    "RAY_task_oom_retries": "2",  # otherwise a task that takes too much memory is tried again for ever
    "RAY_worker_niceness": "0",  # of a cluster that this command starts: the priority of local workers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # no warning about GPUs
}


MAX_SHARDS = 1_000_000
Item = TypeVar("Item")


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


@dataclass(frozen=True)
class Share:
    """What one task takes of a node."""

    cpus: float = 1
    gpus: float = 0


class Cluster:
    """A cluster to which this process is connected; see `connect`."""

    def __init__(self, ray: Any):
        self.ray = ray
        self.references: dict[Future[Any], Any] = {}

    def share(self, device: str, jobs: int | None = None) -> tuple[Share, str]:
        """What a task takes, and its device: a CPU, or a part of a GPU, `jobs` per GPU. "auto": GPUs if there are any.

        Ray shows each task only its own GPU.
        """
        gpus = self.ray.cluster_resources().get("GPU", 0)
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"--device {device}: on a Ray cluster, give auto, cpu or cuda; Ray chooses the GPU")
        if device == "cuda" and not gpus:
            raise InputError("--device cuda: no node of the Ray cluster has a GPU: use --device cpu, or add a node")
        if device == "cpu" or not gpus:
            return Share(), "cpu"
        return Share(gpus=1 / (jobs or PER_GPU)), "cuda"

    def slots(self, share: Share) -> int:
        """How many tasks the nodes can run at the same time."""
        resources = self.ray.cluster_resources()
        slots = int(resources.get("CPU", 0) / share.cpus)
        slots = min(slots, int(resources.get("GPU", 0) / share.gpus)) if share.gpus else slots
        if slots == 0:
            raise InputError("the nodes of the Ray cluster have no CPU for a task: start them with --num-cpus")
        return slots

    def check_nodes(self, folder: Path, paths: Sequence[Path]) -> None:
        """Refuse a cluster with nodes that have other versions, or do not see the folder and these paths."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        token = folder / f"{PROBE}{uuid.uuid4().hex}"  # another folder of the same name must not pass
        token.touch()
        probe = self.ray.remote(num_cpus=0, max_retries=0)(_probe_function())
        pending = []
        try:
            for node in self.ray.nodes():
                if node["Alive"]:
                    place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                    reference = probe.options(scheduling_strategy=place).remote([str(token), *map(str, paths)])
                    pending.append((node["NodeManagerAddress"], reference))
            answers = [(address, self._answer(address, reference)) for address, reference in pending]
        finally:
            token.unlink(missing_ok=True)
        check_facts([(address, facts) for address, facts in answers if facts is not None], folder)

    def _answer(self, address: str, reference: Any) -> dict[str, Any] | None:
        """What a node reports; None if it has just died, which Ray notices late."""
        errors = self.ray.exceptions
        try:
            return dict(self.ray.get(reference, timeout=NODE_SECONDS))
        except (errors.RayTaskError, errors.GetTimeoutError) as error:
            what = f"node {address} of the Ray cluster does not answer ({_first_line(error)})"
            raise InputError(f"{what}: look at it with `ray status`, or remove it") from None
        except errors.RayError:
            return None

    def start(self, function: Callable[..., Any], *arguments: Any, share: Share) -> Future[Any]:
        """Run a function of this package on a node. If its process or its node dies, it is run again."""
        remote = self.ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, max_retries=RETRIES)(_run_task)
        variables = {name: value for name, value in os.environ.items() if name.startswith(OWN_VARIABLES)}
        reference = remote.remote(function, arguments, variables, os.getcwd())
        future: Future[Any] = reference.future()
        self.references[future] = reference
        return future

    def result(self, future: Future[Any]) -> Any:
        """What the function returned. A process or node that died too often is a `LostTaskError`."""
        self.references.pop(future, None)
        try:
            return future.result()
        except self.ray.exceptions.RayTaskError:  # the function raised it
            raise
        except self.ray.exceptions.RayError as error:
            raise LostTaskError(_describe_loss(self.ray, error)) from None

    def cancel(self, future: Future[Any]) -> None:
        """Stop a task and end its process."""
        reference = self.references.pop(future, None)
        if reference is not None:
            with suppress(Exception):  # the connection may be gone
                self.ray.cancel(reference, force=True)

    def run_all(
        self, function: Callable[..., Any], orders: Sequence[tuple[Any, ...]], share: Share
    ) -> Iterator[tuple[int, Future[Any]]]:
        """Run a function once per order; yield the number of each order as it ends."""
        waiting, running = iter(enumerate(orders)), {}
        try:
            while True:
                for number, order in waiting:
                    running[self.start(function, *order, share=share)] = number
                    if len(running) >= QUEUED * self.slots(share):
                        break
                if not running:
                    return
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield running.pop(future), future
        finally:
            for future in running:
                self.cancel(future)


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
    _check_address(address)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=None if address else False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"at RAY_ADDRESS={address}" if address else "on this machine"
        raise InputError(f"no Ray cluster can be used {where} ({_first_line(error)}): {_address_cure()}") from None
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def check_on(on: str) -> None:
    if on not in (LOCAL, RAY):
        raise InputError(f"--on {on}: give {LOCAL} or {RAY}")


def check_facts(found: Sequence[tuple[str, dict[str, Any]]], folder: Path) -> None:
    """Compare what the nodes reported with this process; see `_probe_function`."""
    ours = {"python": _minor(platform.python_version()), "majority": __version__}
    for address, facts in found:
        theirs = {"python": _minor(facts["python"]), "majority": facts["majority"]}
        if theirs != ours:
            has, here = (f"Python {f['python']} and majority {f['majority'] or '(none)'}" for f in (theirs, ours))
            what = f"node {address} of the Ray cluster has {has}, this command has {here}"
            raise InputError(f"{what}: install the same versions on all nodes and restart `ray start` there")
    blind = [(address, facts["missing"][0]) for address, facts in found if facts["missing"]]
    if blind:
        missing = Path(blind[0][1])
        path = folder if missing.name.startswith(PROBE) else missing
        shown = ", ".join(address for address, _ in blind[:SHOWN]) + (", ..." if len(blind) > SHOWN else "")
        nodes = f"{count_noun(len(blind), 'node')} of the Ray cluster ({shown}) cannot see it"
        raise InputError(f"{path}: {nodes}: put it on a path that all nodes share, such as a network file system")


def _probe_function() -> Callable[[list[str]], dict[str, Any]]:
    """A function that Ray sends as code, because a node may lack this package."""

    def probe(paths: list[str]) -> dict[str, Any]:
        import os
        import platform

        version: str | None
        try:
            from majority.version import __version__ as version
        except ImportError:
            version = None
        missing = [path for path in paths if not os.path.exists(path)]
        return {"python": platform.python_version(), "majority": version, "missing": missing}

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


def _check_address(address: str) -> None:
    """Refuse an address at which nothing answers: Ray itself would wait for minutes."""
    if address.startswith("ray://"):
        cure = "run the command on a node of the cluster, or with `ray job submit`, and give HOST:PORT"
        raise InputError(f"RAY_ADDRESS={address} is an address of Ray Client, which is not supported: {cure}")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():  # empty, auto, local: Ray looks on this machine
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster answers at RAY_ADDRESS={address} ({error}): {_address_cure()}") from None


def _address_cure() -> str:
    return "start one with `ray start --head`, correct RAY_ADDRESS, or unset it to use this machine alone"


def _describe_loss(ray: Any, error: Exception) -> str:
    times = f"after {count_noun(RETRIES, 'more attempt')}"
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "its node has too little memory: use fewer --jobs, or nodes with more memory"
    if isinstance(error, ray.exceptions.TaskCancelledError):
        return "it was cancelled"
    return f"its process or its node died, also {times} ({_first_line(error)}): see `ray status` and the logs of Ray"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
