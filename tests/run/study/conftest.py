from contextlib import contextmanager

import pytest

from majority.recipes import RECIPES, TaskInfo
from majority.run.study import workers


class InProcessWorker:
    """Replaces a worker process: trains each cell in this process."""

    def __init__(self, environment):
        workers.OPENED.clear()  # as in a new process

    def call(self, function, *arguments):
        return function(*arguments)

    def kill(self):
        pass


@pytest.fixture(scope="session")
def in_process():
    """A context for tests that are not about processes: each process takes seconds to start."""

    @contextmanager
    def patched():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers, "ProcessWorker", InProcessWorker)
            yield

    return patched


@pytest.fixture
def one_process(in_process):
    with in_process():
        yield


@pytest.fixture(scope="session")
def cell():
    """Makes the result of one cell of the recipe `paper`."""

    def make(method="count", accuracy=0.5, *, source="cifar10", scenario="large", fold=0, seed=0, val=0.9, **more):
        options = {"epochs": "training.epochs", "patience": "training.patience", "backbone": "backbone"}
        settings = {name: more.pop(option) for option, name in options.items() if option in more}
        plan = RECIPES["paper"].plan_for(TaskInfo(source)).with_seed(seed).with_settings(settings).as_dict()
        test = {"instance_accuracy": accuracy, "consistency_rate": more.pop("rate", 0.8)}
        names = {"source": source, "scenario": scenario, "method": method, "recipe": "paper", "fold": fold}
        data = {"source": source, "scenario": scenario, "fold": fold, "ties": "lowest", **more}
        figures = {"test": test, "val": {"bag_accuracy": val}}
        place = {"cell": f"{source}/{scenario}/{method}/fold{fold}"}
        more = {"seed": seed, "seconds": 2.0, "epochs": 9, "best_epoch": 3, "plan": plan, "data": data}
        return names | figures | more | place

    return make
