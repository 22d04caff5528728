import pytest

from majority import Callback


class StopAfter(Callback):
    """Interrupts the training, as Ctrl-C does, when this many epochs are finished."""

    def __init__(self, epochs):
        self.epochs = epochs

    def on_epoch_end(self, record):
        if record["epoch"] + 1 == self.epochs:
            raise KeyboardInterrupt


@pytest.fixture
def stop_after():
    return StopAfter
