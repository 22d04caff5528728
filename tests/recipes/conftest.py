"""What the tests of census' stages share."""

import pytest
import torch

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
                patch.setattr(census, stage, stops)
                with pytest.raises(KeyboardInterrupt):
                    census.train(run)
        assert same(census.train(run).model, whole.model)
        for read in reads:
            monkeypatch.setattr(census, read, stops)
        assert same(census.train(run).model, whole.model), "nothing is read again"

    return check
