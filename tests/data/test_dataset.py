"""BagDataset and collate_bags, through DataLoaders as others use them."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from majority import BagDataset, Bags, InputError, collate_bags
from majority.data.stores import FeatureFiles

SIZES, LABELS = [3, 1, 4, 2, 5], ["a", "b", "a", "", "b"]


def vectors(**more):
    """The first feature of an instance is its bag, the second one its number in the bag."""
    lists = [np.array([[bag, i] for i in range(size)], np.float32) for bag, size in enumerate(SIZES)]
    return Bags.from_lists(lists, LABELS, **more)


def check_batches(bags, **loader):
    seen = []
    for batch in DataLoader(BagDataset(bags), batch_size=2, collate_fn=collate_bags, **loader):
        bag_of = batch.instances[:, 0].long()
        for place, label in enumerate(batch.labels.tolist()):
            (bag,) = bag_of[batch.bag_ids == place].unique().tolist()
            assert (batch.bag_ids == place).sum() == SIZES[bag]
            assert label == bags.labels[bag]
            seen.append(bag)
    return sorted(seen)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_hold_whole_bags_with_their_labels(workers):
    assert check_batches(vectors(), shuffle=True, num_workers=workers) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["files", "mapped"])
def test_stores_on_disk_are_read_by_workers(kind, tmp_path):
    bags = vectors()
    if kind == "mapped":
        np.save(tmp_path / "store.npy", bags.store)
        on_disk = Bags(np.load(tmp_path / "store.npy", mmap_mode="r"), bags.index, bags.offsets, LABELS)
    else:
        paths = [tmp_path / f"{bag}.npy" for bag in range(len(bags))]
        for bag, path in enumerate(paths):
            np.save(path, bags.bag(bag))
        on_disk = bags._with(store=FeatureFiles(paths))
    assert check_batches(on_disk, num_workers=1, multiprocessing_context="fork" if kind == "files" else "spawn") == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_images_come_as_asked():
    pixels = np.random.default_rng(0).integers(256, size=(6, 4, 5, 3), dtype=np.uint8)
    bags = Bags(pixels, np.arange(6), [0, 2, 6], ["a", "b"])
    stored, scaled = BagDataset(bags, torch.uint8)[1], BagDataset(bags)[-1]
    assert stored.instances.dtype == torch.uint8
    assert torch.equal(stored.instances, torch.from_numpy(pixels[2:]).permute(0, 3, 1, 2))
    torch.testing.assert_close(scaled.instances, stored.instances / 255)
    flipped = BagDataset(bags, transform=lambda image: image.flip(-1))[1]
    assert torch.equal(flipped.instances, scaled.instances.flip(-1))
    assert np.array_equal(pixels, bags.store), "the store is as before"
    with pytest.raises(InputError, match=r"int64: give a floating-point type"):
        BagDataset(bags, torch.int64)
    with pytest.raises(IndexError, match="out of range"):
        BagDataset(bags)[2]


def test_all_that_labels_may_say():
    labels, weights = ["a", "a|b", ""], [np.full(3, 2.0), np.ones(1), np.arange(1.0, 5)]
    lists = [np.ones((size, 2)) for size in (3, 1, 4)]
    bags = Bags.from_lists(lists, labels, second_labels=["b", "", ""], weights=weights)
    batch = collate_bags([BagDataset(bags, torch.float64)[bag] for bag in (2, 0, 1)])
    assert batch.labels.tolist() == [[False, False], [True, False], [True, True]]
    assert batch.runner_up.tolist() == [-1, 1, -1]
    assert batch.weights.tolist() == [1, 2, 3, 4, 2, 2, 2, 1]
    assert batch.instances.dtype == torch.float64
    moved = batch.to("meta")
    assert all(part.device.type == "meta" for part in moved)
    plain = collate_bags([BagDataset(vectors())[0]])
    assert (plain.runner_up, plain.weights) == (None, None)
