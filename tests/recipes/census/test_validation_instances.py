"""census with `validation_instances`: the instances of validation bags are learned from, their labels only choose."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from majority import Settings, load_source
from majority.data.joining import join
from majority.recipes.census.images_on_gpu import GpuImageSettings
from majority.recipes.stages import Run

TRAINING = Settings(epochs=1, batch_bags=8)
OWN = GpuImageSettings(
    pretrain=Settings(epochs=1, batch_bags=32, drop_last=True, augment=("noise",)),
    head=Settings(epochs=1),
    validation_instances=True,
    teachers=1,
)
ALONE = replace(OWN, validation_instances=False)


@pytest.fixture(scope="module")
def parts():
    return load_source("digits").make_parts(scenario="large", bags=24, bag_size=8)


@pytest.fixture(scope="module")
def train(train_census):
    return lambda parts, own=OWN, **more: train_census(parts, own, training=TRAINING, **more)


@pytest.fixture(scope="module")
def weights_of(train):
    return lambda *given, **more: train(*given, **more).model.state_dict()


def differ(one, other):
    return any(not torch.equal(value, other[name]) for name, value in one.items())


def test_pretrain_and_student_learn_from_validation_instances_and_no_stage_from_their_labels(monkeypatch, parts, train):
    seen, fit = {}, Run.fit

    def remember(run, model, bags=None, *given, **more):
        seen[run.stage.name] = bags[0] if bags else run.train
        return fit(run, model, bags, *given, **more)

    monkeypatch.setattr(Run, "fit", remember)
    train(parts)
    val = set(parts.val.index) - set(parts.train.index)
    assert val
    for stage in ("pretrain", "student"):
        assert val <= set(seen[stage].index)
    for stage in ("teacher-1", "student"):
        assert np.array_equal(seen[stage].bag_labels.counts, parts.train.bag_labels.counts)
    assert len(seen["head"]) == len(parts.train), "the head learns from labelled bags alone"


def test_labels_of_validation_bags_and_instances_do_not_reach_the_network(parts, weights_of):
    """With one epoch of each stage there is nothing to choose: the weights are the same whatever the labels say."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(parts.val.instance_labels)
    shuffled = parts.val._with(instance_labels=labels, training_labels=labels)
    shuffled = shuffled._with(bag_labels=parts.val.bag_labels.take(rng.permutation(len(parts.val))))
    assert not np.array_equal(shuffled.labels, parts.val.labels)
    whole = weights_of(parts)
    assert not differ(whole, weights_of(parts._replace(val=shuffled)))
    assert differ(whole, weights_of(parts, ALONE))


def test_bags_that_are_already_trained_on_are_not_added(parts, train, weights_of):
    """A second training on all bags, and bags that are too few to hold some out."""
    everything = parts._replace(train=join([parts.train, parts.val]), val=parts.train)
    alone, again = (weights_of(everything, own, chosen=train(parts, own)) for own in (ALONE, OWN))
    assert not differ(alone, again)
    same = parts._replace(val=parts.train)
    assert not differ(weights_of(same, ALONE), weights_of(same))
