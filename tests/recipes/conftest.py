"""What the tests of recipes share."""

import numpy as np
import pytest
import torch

from majority import Bags, Callback, Settings, build_model
from majority.io import Parts
from majority.recipes import Plan, Run, TaskInfo, train_by_plan

TWO_EPOCHS = Settings(epochs=2, batch_bags=8)


@pytest.fixture(scope="session")
def same():
    return lambda one, other: all(
        torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items()
    )


@pytest.fixture(scope="session")
def train_census():
    """Train on parts with settings of census' own, in memory if no folder is given."""

    def train(parts, own, method="log-mean", folder=None, backbone="tiny", training=TWO_EPOCHS, share=None, **more):
        def build(seed=0, other=None):
            first = "adjusted-mean" if method == "auto" else method
            return build_model(parts.train, other or first, backbone, seed=seed, background_share=share)

        plan = Plan("census", backbone, training=training, own=own)
        chosen, task = more.pop("chosen", None), more.pop("task", None) or TaskInfo.of(parts.train)
        run = Run(parts.train, parts.val, plan, build, task, folder, **{"device": "cpu"} | more)
        return train_by_plan(run, method, chosen)

    return train


class StopAt(Callback):
    """Interrupts a run before the stage of this name, and notes the stages that it has seen."""

    def __init__(self, name=None):
        self.name, self.seen = name, []

    def on_stage_start(self, stage):
        if stage == self.name:
            raise KeyboardInterrupt
        self.seen.append(stage)


@pytest.fixture(scope="session")
def check_going_on(same):
    """A run that is stopped before each stage and repeated ends like a whole one; finished, nothing is trained."""

    def check(train, whole):
        for stage in whole.trainings:
            with pytest.raises(KeyboardInterrupt):
                train(callbacks=[StopAt(stage)])
        assert same(train().model, whole.model)
        last = StopAt()
        again = train(callbacks=[last])
        assert last.seen == []
        assert same(again.model, whole.model)
        assert again.summary() == train().summary()
        assert again.about == whole.about

    return check


@pytest.fixture(scope="session")
def scrambled():
    """The parts with the instance labels of training and validation bags in another order."""

    def scramble(parts, seed=3):
        rng = np.random.default_rng(seed)
        mixed = {
            name: getattr(parts, name)._with(instance_labels=rng.permutation(getattr(parts, name).instance_labels))
            for name in ("train", "val")
        }
        return parts._replace(**mixed)

    return scramble


@pytest.fixture(scope="session")
def vectors():
    """Three classes a little apart in a few of many features; winners lead by little."""

    def make(seed=0, width=40, bags=60, share=0.25):
        rng = np.random.default_rng(seed)
        means = np.zeros((3, width))
        means[:, :3] = 2.5 * np.eye(3)

        def part(bags):
            labels = np.arange(bags) % 3
            which = [np.where(rng.random(12) < share, y, rng.integers(3, size=12)) for y in labels]
            lists = [(means[c] + rng.normal(size=(12, width))).astype(np.float32) for c in which]
            known = np.concatenate(which)
            return Bags.from_lists(lists, labels, ["a", "b", "c"])._with(instance_labels=known)

        return Parts(part(bags), part(bags // 3), part(bags))

    return make
