"""What the tests of census' stages share."""

import numpy as np
import pytest
import torch

from majority import Bags
from majority.io import Parts
from majority.recipes import census


def stops(*given):
    raise KeyboardInterrupt


@pytest.fixture
def same():
    return lambda one, other: all(
        torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items()
    )


@pytest.fixture
def check_going_on(monkeypatch, same):
    """A run that is stopped before each stage and repeated ends like a whole one; finished, nothing is read again."""

    def check(run, whole, stages, *reads):
        for stage in stages:
            with monkeypatch.context() as patch:
                patch.setattr(census.recipe, stage, stops)
                with pytest.raises(KeyboardInterrupt):
                    census.train(run)
        assert same(census.train(run).model, whole.model)
        for read in reads:
            monkeypatch.setattr(census.stages, read, stops)
        assert same(census.train(run).model, whole.model), "nothing is read again"

    return check


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
