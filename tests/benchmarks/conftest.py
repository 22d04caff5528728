import importlib
from contextlib import nullcontext
from pathlib import Path

import pytest

from majority.run.experiment import How, run_experiment
from majority.run.study import FinishedCell


@pytest.fixture
def helpers(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("helpers")


@pytest.fixture
def one_process(helpers, monkeypatch):
    """Every cell is trained in this process: starting Python takes seconds."""

    def run_cells(cells, out, device, jobs, watch):
        found = []
        for folder, cell in cells:
            found.append(FinishedCell(folder, run_experiment(cell.config, folder, How(device))))
            watch(None, found[-1])
        return found

    monkeypatch.setattr(helpers, "run_cells", run_cells)
    monkeypatch.setattr(helpers, "show_cells", lambda log: nullcontext(lambda state, cell: None))
