"""Which augmentations keep the classes of a source."""

import numpy as np
import pytest
import torch

from majority import LabelledSet, register
from majority import io as sources
from majority.errors import InputError
from majority.io import NamedSource
from majority.io.benchmarks.known_images import known_of, known_sources
from majority.recipes import RECIPES, TaskInfo
from majority.run.config import RunConfig
from majority.run.plan import check_config
from majority.training.augment import Augment


def label_preserving(source):
    return known_sources()[source]


def test_every_source_of_ours_says_which_augmentations_keep_its_classes():
    assert set(sources.names()) == set(known_sources())
    for names in known_sources().values():
        Augment(names)
    assert known_of("somebody's scans") == known_of("") == {}


@pytest.mark.parametrize("source", ["svhn", "digits", "organamnist", "organcmnist", "organsmnist"])
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


def test_mirrors_and_turns_if_they_do_not_change_the_class():
    assert "flip" in label_preserving("cifar10")
    assert "flip" in label_preserving("octmnist")
    assert {"flip", "rotate90"} <= set(label_preserving("pathmnist"))
    for source in ("cifar10", "octmnist"):
        assert "rotate90" not in label_preserving(source)


def test_a_registered_source_says_what_preserves_its_labels(registries):
    def load():
        raise AssertionError("a plan does not read the images")

    register(NamedSource("cells", load, label_preserving=("flip", "crop", "colour", "rotate90")))
    register(NamedSource("photos", load, label_preserving=("crop",), mixed_views=True))
    register(NamedSource("digits-of-mine", load))
    register(NamedSource("galaxies", load, label_preserving=("rotate90", "crop")))

    def plan(source):
        return RECIPES["census"].plan_for(TaskInfo(source, **known_of(source)))

    def names(source):
        steps = plan(source).training.augment + plan(source).own.pretrain.augment
        return {step if isinstance(step, str) else step[0] for step in steps}

    assert {"flip", "rotate90"} <= names("cells")
    assert not {"hue", "colour", "grey"} & names("cells"), "colour comes with hue, which it does not name"
    assert "flip" not in names("galaxies")
    assert [plan(name).own.mixed_views > 0 for name in ("cells", "photos")] == [False, True]
    assert plan("cells").own.search_epochs == 0, "nothing is to be found by the bags"
    check_config(RunConfig.from_options("my.csv", like="cells"))
    assert plan("digits-of-mine").own.search_epochs > 0, "its name says nothing"


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
