"""Discriminants: compared with a reference written with loops, and on typical data."""

import numpy as np
import pytest
import torch

from majority import Bags, build_model
from majority.recipes.census.discriminants import discriminants


def bags_of(rng, means, bags=40, sizes=(3, 9), share=0.6):
    """Bags whose instances are of the label's class with this chance, else of any, normal around its mean."""
    classes, width = means.shape
    lists, labels = [], np.arange(bags) % classes
    for label in labels:
        size = rng.integers(*sizes)
        which = np.where(rng.random(size) < share, label, rng.integers(classes, size=size))
        lists.append(means[which] + rng.normal(size=(size, width)))
    return Bags.from_lists([instances.astype(np.float32) for instances in lists], labels, [*map(str, range(classes))])


def reference(bags, mean, std):
    """The same in plain loops, with the whole table in memory."""
    scale = np.sqrt(np.clip(std / np.sort(std)[(len(std) - 1) // 2], 0.01, 100))
    table = (bags.store[bags.index].astype(np.float64) - mean) / std * scale
    variances, directions = np.linalg.eigh(np.cov(table.T, bias=True))
    keep = [k for k in range(len(variances))[::-1] if variances[k] > 1e-6 * variances[-1]]
    whitening = np.stack([directions[:, k] / np.sqrt(variances[k]) for k in keep], axis=1)
    white = table @ whitening
    of_bag = np.stack(
        [white[start:end].mean(axis=0) for start, end in zip(bags.offsets, bags.offsets[1:], strict=False)]
    )
    classes, of_bag, labels = len(bags.classes), of_bag[bags.labels >= 0], bags.labels[bags.labels >= 0]
    of_label = np.stack([of_bag[labels == y].mean(axis=0) for y in range(classes)])
    apart = of_label - of_label.mean(axis=0)
    gains = []
    for k in range(len(keep)):
        near = range(max(0, k - max(2, k // 4)), min(len(keep), k + max(2, k // 4) + 1))
        chance = seen = 0
        for other in near:
            residues = [of_bag[i, other] - of_label[labels[i], other] for i in range(len(labels))]
            chance += np.sum(np.square(residues)) / (len(labels) - classes) * np.mean(1 / np.bincount(labels))
            seen += np.sum(apart[:, other] ** 2) / (classes - 1)
        gains.append(max(0, 1 - chance / seen))
    apart = apart * gains
    read = white @ apart.T
    return apart @ whitening.T * scale / np.sqrt(np.mean(read.var(axis=0)))


@pytest.mark.parametrize("seed", [1, 2])
def test_discriminants_equal_the_reference(seed):
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.1, 30, size=20)
    bags = bags_of(rng, rng.normal(size=(4, 20)))
    bags = bags.subset(np.flatnonzero((bags.labels != 0) | (np.arange(40) < 8)))  # labels are not equally frequent
    bags = bags._with(store=(bags.store * scales + rng.normal(size=20)).astype(np.float32))
    if seed == 2:  # some bags have no label
        bags = bags._with(bag_labels=bags.bag_labels.masked(np.arange(len(bags)) % 5 > 0))
    model = build_model(bags)
    mean, std = model.normalise.mean.double().numpy(), model.normalise.std.double().numpy()
    made = discriminants(model, bags, "cpu")
    assert made.shape == (4, 20)
    np.testing.assert_allclose(made.numpy(), reference(bags, mean, std), rtol=2e-3, atol=2e-4)


def test_discriminants_leave_a_background_out():
    """Those of the voters are as if the background were no class; its own is 0."""
    rng = np.random.default_rng(3)
    plain = bags_of(rng, rng.normal(size=(3, 6)))
    marked = plain.with_background("normal")
    expected, found = (discriminants(build_model(bags, "soft-count", "mlp"), bags, "cpu") for bags in (plain, marked))
    torch.testing.assert_close(found[:3], expected)
    assert torch.equal(found[3], torch.zeros(6).to(found))


def test_a_bag_of_any_size_is_read_in_pieces(monkeypatch):
    rng = np.random.default_rng(6)
    bags = bags_of(rng, rng.normal(size=(3, 5)))
    model = build_model(bags)
    whole = discriminants(model, bags, "cpu")
    monkeypatch.setattr("majority.recipes.census.discriminants.instances_per_pass", lambda shape: 2)
    real, seen = model.normalise.forward, []
    monkeypatch.setattr(model.normalise, "forward", lambda x: seen.append(len(x)) or real(x))
    torch.testing.assert_close(discriminants(model, bags, "cpu"), whole)
    assert max(seen) == 2
