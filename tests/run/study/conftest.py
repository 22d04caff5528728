from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from majority.errors import InputError, TrainingError
from majority.recipes import RECIPES, TaskInfo
from majority.run.experiment import How, run_experiment
from majority.run.study import FinishedCell, workers
from majority.run.trackers import create_trackers


class InProcessWorker:
    """Replaces a worker process: trains each cell in this process, as soon as it is started."""

    def __init__(self, environment, device):
        self.folder, self.device = None, device

    def start_cell(self, folder, cell, trackers=()):
        self.folder, self.answer = folder, Future()
        try:
            how = How(self.device, callbacks=create_trackers(trackers))
            result = run_experiment(cell.config, folder, how, varied=cell.varied)
            self.answer.set_result(FinishedCell(folder, result))
        except (InputError, TrainingError) as error:
            self.answer.set_result(FinishedCell(folder, failure=str(error)))

    def end_cell(self):
        self.folder = None
        return self.answer.result()

    def kill(self):
        pass


@pytest.fixture(scope="session")
def in_process():
    """A context for tests that are not about processes: each process takes seconds to start."""

    @contextmanager
    def patched():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(workers, "_Worker", InProcessWorker)
            yield

    return patched


@pytest.fixture
def one_process(in_process):
    with in_process():
        yield


@pytest.fixture
def cell():
    """Makes the result of one cell of the recipe `paper`."""

    def make(method="count", accuracy=0.5, *, source="cifar10", scenario="large", fold=0, seed=0, val=0.9, **more):
        options = {"epochs": "training.epochs", "patience": "training.patience", "backbone": "backbone"}
        settings = {name: more.pop(option) for option, name in options.items() if option in more}
        plan = RECIPES["paper"].plan_for(TaskInfo(source)).with_seed(seed).with_settings(settings).as_dict()
        test = {"instance_accuracy": accuracy, "consistency_rate": more.pop("rate", 0.8), "method_bag_accuracy": 0.9}
        test |= {"overestimation": 0.0, "overestimation_quantiles": [-4.0, -1.0, 0.0, 1.0, 3.0]}
        names = {"source": source, "scenario": scenario, "method": method, "recipe": "paper", "fold": fold}
        data = {"source": source, "scenario": scenario, "fold": fold, "ties": "lowest", **more}
        figures = {"test": test, "val": {"bag_accuracy": val}}
        return (
            names | figures | {"seed": seed, "seconds": 2.0, "epochs": 9, "best_epoch": 3, "plan": plan, "data": data}
        )

    return make
