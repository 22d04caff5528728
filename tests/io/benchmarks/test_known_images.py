"""Which augmentations keep the classes of a source."""

import numpy as np
import pytest
import torch

from majority import LabelledSet, register
from majority import io as sources
from majority.errors import InputError
from majority.io import NamedSource
from majority.io.benchmarks.catalogue import known_of, known_sources
from majority.training.augment import Augment


def label_preserving(source):
    return known_sources()[source]


def test_every_source_of_ours_says_which_augmentations_keep_its_classes():
    assert set(sources.names()) == set(known_sources())
    for names in known_sources().values():
        Augment(names)
    assert known_of("somebody's scans") == known_of("") == {}


@pytest.mark.parametrize("source", ["svhn", "organamnist"])
def test_no_mirror_and_no_turn_if_they_change_the_class(source):
    assert not {"flip", "rotate90"} & set(label_preserving(source))
    ramp = torch.linspace(0.2, 0.8, 32).expand(32, 32)
    upright = (ramp + 0.5 * ramp.T).expand(500, 1, 32, 32) / 2  # brighter to the right, a little to the bottom
    augmented = Augment([name for name in label_preserving(source) if name not in ("cutout", "noise")])(
        upright, torch.Generator().manual_seed(3)
    )
    middle = augmented[:, 0, 12:20, 12:20]
    assert (middle[:, :, 7] > middle[:, :, 0]).all()
    assert (middle[:, 7] > middle[:, 0]).all()


def test_mistakes_of_a_registered_source_are_named(registries):
    with pytest.raises(InputError, match="mixed_views"):
        NamedSource("photos", lambda: None, mixed_views=True)
    register(NamedSource("cells", lambda: None, label_preserving=("flpi",)))
    with pytest.raises(InputError, match="flpi"):
        label_preserving("cifar10")


def test_a_set_is_known_by_the_name_under_which_it_is_registered(registries, tmp_path):
    images, labels = np.zeros((4, 8, 8, 1), np.uint8), np.arange(4) % 2
    register(NamedSource("cells", lambda: LabelledSet("my cells", images, labels, ("a", "b"))))
    assert sources.load("cells").kind == "cells"
    np.savez(tmp_path / "digits.npz", train_images=images, train_labels=labels)
    assert sources.load(tmp_path / "digits.npz").kind == "", "a file may have any name"
