"""Batches: every bag once, random parts of large bags, no copy of the store on a CPU."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from majority.data.bags import Bags
from majority.data.batches import ResidentLoader, filled_size

CPU = torch.device("cpu")
SIZES = [3, 1, 12, 5, 7, 2, 30]
size_lists = st.lists(st.integers(1, 12), min_size=1, max_size=10)


def numbered(sizes, known=True):
    """Instances whose one value is their own number, in a store of another order; class: number modulo 3."""
    n = sum(sizes)
    order = np.random.default_rng(1).permutation(n)
    store = np.empty((n, 1), np.float32)
    store[order, 0] = np.arange(n)
    truth = np.arange(n) % 3 if known else None
    labels = np.arange(len(sizes)) % 3
    return Bags(store, order, np.cumsum([0, *sizes]), labels, "abc", instance_labels=truth)


def resident(sizes, known=True):
    return ResidentLoader(numbered(sizes, known), CPU)


def contents(batches):
    """Return {bag: numbers of its instances}; check that the fields of each batch agree."""
    found = {}
    for batch in batches:
        rows = batch.instances[:, 0].long()
        sizes = batch.segments.host_sizes.tolist()
        assert batch.segments.sizes.tolist() == sizes
        assert len(rows) == batch.segments.n
        assert batch.target.labels.tolist() == [bag % 3 for bag in batch.bags]
        if batch.target.instance_labels is not None:
            assert batch.target.instance_labels.tolist() == (rows % 3).tolist()
        for bag, part in zip(batch.bags.tolist(), rows.split(sizes), strict=True):
            assert bag not in found
            found[bag] = part.tolist()
    return found


def all_instances(sizes):
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return {bag: part.tolist() for bag, part in enumerate(numbers)}


@settings(max_examples=60, deadline=None)
@given(sizes=size_lists, limit=st.integers(1, 40))
def test_in_order_covers_every_bag_once_within_the_limit(sizes, limit):
    batches = list(resident(sizes).in_order(limit))
    assert contents(batches) == all_instances(sizes)
    assert np.concatenate([batch.bags for batch in batches]).tolist() == list(range(len(sizes)))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        assert batch.segments.n <= limit or len(batch.bags) == 1
        if following is not None:  # the next bag would not fit
            assert batch.segments.n + following.segments.host_sizes[0] > limit


@settings(max_examples=60, deadline=None)
@given(sizes=size_lists, batch_bags=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_an_epoch_covers_every_bag_once(sizes, batch_bags, seed):
    batches = list(resident(sizes).shuffled(batch_bags, np.random.default_rng(seed)))
    assert contents(batches) == all_instances(sizes)
    assert [len(batch.bags) for batch in batches[:-1]] == [batch_bags] * (len(batches) - 1)
    assert 1 <= len(batches[-1].bags) <= batch_bags


@settings(max_examples=60, deadline=None)
@given(sizes=size_lists, limit=st.none() | st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_keep_follows_its_instances_and_marks_some_of_every_part(sizes, limit, seed):
    rng = np.random.default_rng(seed)
    keep = np.concatenate([rng.permutation(np.arange(size) < rng.integers(1, size + 1)) for size in sizes])
    bags = ResidentLoader(numbered(sizes), CPU, keep=keep)
    plain = resident(sizes)
    for batch in [*bags.shuffled(4, np.random.default_rng(seed), limit), *bags.in_order(20)]:
        assert batch.segments.keep.tolist() == keep[batch.instances[:, 0].long().numpy()].tolist()
        assert batch.segments.kept_sizes.min() >= 1
    epochs = [contents(loader.shuffled(4, np.random.default_rng(seed), limit)) for loader in (bags, plain)]
    for bag, part in epochs[0].items():  # only a part without any marked instance is replaced
        assert sorted(part) == sorted(epochs[1][bag]) or not keep[epochs[1][bag]].any()


@settings(max_examples=60, deadline=None)
@given(sizes=size_lists, limit=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_large_bags_are_sampled_and_small_ones_complete(sizes, limit, seed):
    found = contents(resident(sizes).shuffled(4, np.random.default_rng(seed), max_instances=limit))
    assert found.keys() == all_instances(sizes).keys()
    for bag, numbers in all_instances(sizes).items():
        assert len(found[bag]) == min(len(numbers), limit)
        assert len(set(found[bag])) == len(found[bag])
        assert set(found[bag]) <= set(numbers)


def test_every_instance_of_a_large_bag_is_drawn_equally_often():
    bags, rng = resident([20]), np.random.default_rng(0)
    drawn = np.bincount(np.concatenate([contents(bags.shuffled(1, rng, 5))[0] for _ in range(2000)]), minlength=20)
    assert np.abs(drawn / 500 - 1).max() < 0.2  # 500 draws each, standard deviation about 19


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=10), batch_bags=st.integers(1, 9), seed=st.integers(0, 99)
)
def test_filled_batches_keep_the_same_instances(sizes, batch_bags, seed):
    bags = resident(sizes)
    plain, filled = (list(bags.shuffled(batch_bags, np.random.default_rng(seed), fill=fill)) for fill in (False, True))
    for one, other in zip(plain, filled, strict=True):
        n, more = len(one.index), len(other.index) - len(one.index)
        assert len(other.index) == filled_size(n, typical=int(batch_bags * np.mean(sizes)))
        assert torch.equal(other.index[:n], one.index)
        assert other.segments.keep.tolist() == [True] * n + [False] * more
        assert torch.equal(other.segments.kept_sizes, one.segments.sizes)
        assert torch.equal(other.target.labels, one.target.labels)
        assert torch.equal(other.target.instance_labels[:n], one.target.instance_labels)


def test_batches_of_ragged_bags_have_about_equally_many_instances():
    sizes = np.random.default_rng(0).integers(1, 128, 408)
    batches = list(resident(sizes).shuffled(16, np.random.default_rng(0)))
    assert [len(batch.bags) for batch in batches] == [16] * 25 + [8]
    means = np.array([batch.segments.n / len(batch.bags) for batch in batches])
    assert abs(means / sizes.mean() - 1).max() < 0.1, "a random order has batches 0.3 off"
    together = [set(batch.bags.tolist()) for batch in batches]
    again = [set(batch.bags.tolist()) for batch in resident(sizes).shuffled(16, np.random.default_rng(1))]
    assert not any(one == other for one in together for other in again)


@pytest.mark.parametrize("kind", ["read-only", "read-only view", "part of a map", "images of a map"])
def test_read_only_stores_are_read_in_place_without_a_warning(kind, tmp_path):
    bags = numbered(SIZES)
    store = bags.store.copy() if kind == "read-only" else bags.store[:]
    if kind == "images of a map":
        store = store.astype(np.uint8)[:, :, None, None]
    if kind.endswith("of a map"):  # a whole one is streamed
        np.save(tmp_path / "store.npy", store)
        store = np.load(tmp_path / "store.npy", mmap_mode="r")[:]
    store.flags.writeable = False
    if kind == "read-only view":
        store = store[:]
    bags = Bags(store, bags.index, bags.offsets, bags.labels, "abc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = ResidentLoader(bags, CPU)
        found = contents(replace(batch, store=batch.store.view(len(batch.store), 1)) for batch in loader.in_order(20))
    assert found == all_instances(SIZES)
    assert loader.store.data_ptr() == bags.store.ctypes.data
    assert not bags.store.flags.writeable


def test_a_store_with_reversed_channels_works():
    """Images read as BGR and reversed by [..., ::-1] have a negative stride, which torch does not take."""
    store = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)[..., ::-1]
    (batch,) = ResidentLoader(Bags.from_indices(store, [[1, 0]], ["a"]), CPU).in_order(9)
    assert np.array_equal(batch.instances, store[[1, 0]])


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=20),
    batch_bags=st.integers(1, 8),
    n_parts=st.integers(2, 4),
    limit=st.none() | st.integers(1, 6),
)
def test_the_parts_of_a_batch_together_are_the_batch(sizes, batch_bags, n_parts, limit):
    keep = np.arange(sum(sizes)) % 5 != 4
    keep[np.cumsum([0, *sizes])[:-1]] = True  # at least one of each bag
    loader = ResidentLoader(numbered(sizes), CPU, keep=keep)

    def batches(**parts):
        return list(loader.shuffled(batch_bags, np.random.default_rng(0), limit, **parts))

    of_parts = [batches(part=part, n_parts=n_parts) for part in range(n_parts)]
    for whole, *parts in zip(batches(), *of_parts, strict=True):
        assert whole.parts is None
        (counts,) = {part.parts for part in parts}
        assert sum(counts) == len(whole.bags)
        assert max(counts) - min(counts) <= 1
        counted = [part for part, count in zip(parts, counts, strict=True) if count]
        assert [len(part.bags) for part in counted] == [count for count in counts if count]
        assert all(part.bags.tolist() == whole.bags[:1].tolist() for part in parts if part not in counted)
        assert contents(counted) == contents([whole])
        found, expected = (
            sorted(number for part in some for number in part.instances[part.segments.keep, 0].tolist())
            for some in (counted, [whole])
        )
        assert found == expected
