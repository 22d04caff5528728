import os

import pytest

from majority.recipes import RECIPES, TaskInfo
from majority.study import Done, workers


class Here:
    """In a worker's place: a cell is trained in this process, as soon as it is given."""

    def __init__(self, place):
        self.folder = None
        self.ends = os.pipe()

    def fileno(self):
        return self.ends[0]

    def begin(self, folder, experiment, device):
        self.folder, self.done = folder, Done(folder, experiment.run(folder, device))
        os.write(self.ends[1], b"1")

    def end(self):
        self.folder = None
        os.read(self.ends[0], 1)
        return self.done

    def kill(self):
        for end in self.ends:
            os.close(end)


@pytest.fixture
def one_process(monkeypatch):
    """For what does not ask how processes share the work: each takes seconds to start."""
    monkeypatch.setattr(workers, "_Worker", Here)


@pytest.fixture
def cell():
    """Makes the result of one cell, of the recipe `paper` unless told."""

    def make(method="count", accuracy=0.5, *, source="cifar10", scenario="large", fold=0, seed=0, val=0.9, **more):
        changes = {name: more.pop(name) for name in ("epochs", "patience", "backbone") if name in more}
        plan = RECIPES["paper"].plan(TaskInfo(source)).changed(seed=seed, **changes).as_dict()
        test = {"instance_accuracy": accuracy, "consistency_rate": more.pop("rate", 0.8), "bag_accuracy": 0.9}
        test |= {"overestimation": 0.0, "overestimation_quantiles": [-4.0, -1.0, 0.0, 1.0, 3.0]}
        names = {"source": source, "scenario": scenario, "method": method, "recipe": "paper", "fold": fold}
        data = {"source": source, "scenario": scenario, "fold": fold, "ties": "lowest", **more}
        figures = {"test": test, "val": {"bag_accuracy_by_count": val}}
        return (
            names | figures | {"seed": seed, "seconds": 2.0, "epochs": 9, "best_epoch": 3, "plan": plan, "data": data}
        )

    return make
