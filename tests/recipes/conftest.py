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
    """A run that is stopped before a stage and repeated ends like a whole one; finished, nothing is read again."""

    def check(run_of, before, *reads):
        whole = census.train(run_of("whole"))
        real = getattr(census, before)
        monkeypatch.setattr(census, before, stops)
        with pytest.raises(KeyboardInterrupt):
            census.train(run_of("stopped"))
        monkeypatch.setattr(census, before, real)
        assert same(census.train(run_of("stopped")).model, whole.model)
        for read in reads:
            monkeypatch.setattr(census, read, stops)
        assert same(census.train(run_of("stopped")).model, whole.model), "nothing is read again"

    return check
