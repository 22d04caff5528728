"""Cells of a study as tasks on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..cluster import Cluster, LostTaskError, Share, connect
from ..data import path_of
from .cells import Cell, FinishedCell, State, finished_cell, train_cell


@contextmanager
def ray_workers(state: State, waiting: Sequence[Path], device: str, jobs: int | None) -> Iterator[Sequence[RayWorker]]:
    """As many tasks at a time as the cluster has room for now; or `jobs`, or `jobs` per GPU."""
    if not waiting:
        yield []
        return
    with connect() as cluster:
        share, chosen_device = cluster.share(device, jobs)
        state.out.mkdir(parents=True, exist_ok=True)
        sources = {path_of(state.cells[folder].config.bags) for folder in waiting}
        cluster.check_nodes(Path(os.path.abspath(state.out)), sorted(Path(path) for path in sources if path))
        slots = cluster.slots(share)
        number = slots if share.gpus else jobs or slots
        workers = [RayWorker(cluster, share, chosen_device) for _ in range(min(number, len(waiting)))]
        try:
            yield workers
        finally:
            for worker in workers:
                worker.kill()


class RayWorker:
    """One task at a time; Ray chooses the node, and runs the task again if the node dies."""

    def __init__(self, cluster: Cluster, share: Share, device: str):
        self.cluster, self.share, self.device = cluster, share, device
        self.folder: Path | None = None  # of the cell in training

    def start_cell(self, folder: Path, cell: Cell, trackers: Sequence[str] = ()) -> None:
        self.folder = folder
        order = (cell, Path(os.path.abspath(folder)), self.device, trackers, True)
        self.answer: Future[Any] = self.cluster.start(train_cell, *order, share=self.share)

    def end_cell(self) -> FinishedCell:
        assert self.folder is not None
        folder, self.folder = self.folder, None
        try:
            return finished_cell(folder, *self.cluster.result(self.answer))
        except LostTaskError as error:
            return FinishedCell(folder, failure=str(error))

    def kill(self) -> None:
        if self.folder is not None:
            self.cluster.cancel(self.answer)
