import pytest

from majority import Callback
from majority.training import checkpoint


class StopAfter(Callback):
    """Interrupts the training, as Ctrl-C does, when this many epochs are finished."""

    def __init__(self, epochs):
        self.epochs = epochs

    def on_epoch_end(self, record):
        if record["epoch"] + 1 == self.epochs:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _checkpoint_after_every_epoch(monkeypatch):
    """Otherwise the short trainings of tests would leave none."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", 0)


@pytest.fixture
def stop_after():
    return StopAfter
