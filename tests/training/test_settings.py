"""Settings are checked when they are created, so that no wrong value reaches a run folder."""

import math

import numpy as np
import pytest

from majority import InputError, Settings


@pytest.mark.parametrize("name", ["epochs", "batch_bags", "learning_rate", "weight_decay", "warmup_epochs", "seed"])
@pytest.mark.parametrize("value", [None, "3", -1, math.nan, math.inf, True])
def test_impossible_values_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} is .*: give a"):
        Settings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "cure"),
    [
        ("optimizer", "sgd", "give adam or adamw or muon"),
        ("schedule", None, "give constant or cosine"),
        ("drop_last", None, "give true or false"),
        ("compile", 1, "give true or false or null"),
        ("augment", None, "give a list"),
        ("augment", (("crop",),), "give a list"),
    ],
)
def test_names_switches_and_augmentations(name, value, cure):
    with pytest.raises(InputError, match=f"{name} is .*: {cure}"):
        Settings(**{name: value})


def test_an_augmentation_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="there is no augmentation 'bogus'"):
        Settings(augment=("bogus",))


def test_none_where_it_is_allowed_and_numpy_numbers_are_accepted():
    Settings(patience=None, max_instances=None, compile=None)
    Settings(epochs=np.int64(3), learning_rate=np.float32(0.1), seed=np.int32(0), warmup_epochs=0)
