"""Batches: every bag once, random parts of large bags, the same from disk and from memory, little memory."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from majority import Settings, build_model, fit
from majority.data import loader as loading
from majority.data.bags import Bags
from majority.data.loader import BagLoader
from majority.data.stores import FeatureFiles

CPU = torch.device("cpu")
SIZES = [3, 1, 12, 90, 7, 2, 30]
size_lists = st.lists(st.integers(1, 12), min_size=1, max_size=10)
seeds = st.integers(0, 2**32 - 1)


def numbered(sizes):
    """Instances whose one value is their own number, in a store of another order; class: number modulo 3."""
    n = sum(sizes)
    order = np.random.default_rng(1).permutation(n)
    store = np.empty((n, 1), np.float32)
    store[order, 0] = np.arange(n)
    labels = np.arange(len(sizes)) % 3
    return Bags(store, order, np.cumsum([0, *sizes]), labels, "abc", instance_labels=np.arange(n) % 3)


def resident(sizes, **given):
    return BagLoader(numbered(sizes), CPU, **given)


def contents(batches):
    """Return {bag: numbers of its instances}; check that the fields of each batch agree."""
    found = {}
    for batch in batches:
        rows = batch.instances[:, 0].long()
        sizes = batch.segments.host_sizes.tolist()
        assert batch.segments.sizes.tolist() == sizes
        assert batch.target.labels.tolist() == [bag % 3 for bag in batch.bags]
        assert batch.target.instance_labels.tolist() == (rows % 3).tolist()
        for bag, part in zip(batch.bags.tolist(), rows.split(sizes), strict=True):
            assert bag not in found
            found[bag] = part.tolist()
    return found


def all_instances(sizes):
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return {bag: part.tolist() for bag, part in enumerate(numbers)}


@settings(max_examples=40, deadline=None)
@given(sizes=size_lists, limit=st.integers(1, 40))
def test_in_order_covers_every_bag_once_within_the_limit(sizes, limit):
    batches = list(resident(sizes).in_order(limit))
    assert contents(batches) == all_instances(sizes)
    assert np.concatenate([batch.bags for batch in batches]).tolist() == list(range(len(sizes)))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        assert batch.segments.n <= limit or len(batch.bags) == 1
        if following is not None:  # the next bag would not fit
            assert batch.segments.n + following.segments.host_sizes[0] > limit


@settings(max_examples=40, deadline=None)
@given(sizes=size_lists, batch_bags=st.integers(1, 12), limit=st.none() | st.integers(1, 12), seed=seeds)
def test_an_epoch_has_every_bag_once_and_random_parts_of_large_ones(sizes, batch_bags, limit, seed):
    batches = list(resident(sizes).shuffled(batch_bags, np.random.default_rng(seed), limit))
    assert [len(batch.bags) for batch in batches[:-1]] == [batch_bags] * (len(batches) - 1)
    found, expected = contents(batches), all_instances(sizes)
    assert found.keys() == expected.keys()
    for bag, numbers in expected.items():
        assert len(set(found[bag])) == len(found[bag]) == min(len(numbers), limit or len(numbers))
        assert set(found[bag]) <= set(numbers)


@settings(max_examples=40, deadline=None)
@given(sizes=size_lists, limit=st.none() | st.integers(1, 12), seed=seeds)
def test_keep_follows_its_instances_and_marks_some_of_every_part(sizes, limit, seed):
    rng = np.random.default_rng(seed)
    keep = np.concatenate([rng.permutation(np.arange(size) < rng.integers(1, size + 1)) for size in sizes])
    some, plain = resident(sizes, keep=keep), resident(sizes)
    for batch in [*some.shuffled(4, np.random.default_rng(seed), limit), *some.in_order(20)]:
        assert batch.segments.keep.tolist() == keep[batch.instances[:, 0].long().numpy()].tolist()
        assert batch.segments.kept_sizes.min() >= 1
    epochs = [contents(loader.shuffled(4, np.random.default_rng(seed), limit)) for loader in (some, plain)]
    for bag, part in epochs[0].items():  # only a part without any marked instance is replaced
        assert sorted(part) == sorted(epochs[1][bag]) or not keep[epochs[1][bag]].any()


def test_other_instances_of_a_large_bag_are_drawn_each_time_with_their_weights():
    bags, rng, seen = numbered([40, 3])._with(weights=np.arange(1.0, 44)), np.random.default_rng(0), set()
    loader = BagLoader(bags, CPU)
    for _ in range(100):
        (batch,) = loader.shuffled(2, rng, max_instances=5)
        numbers = batch.instances[:, 0]
        seen |= set(numbers.tolist())
        for bag in (0, 1):
            relative = (batch.segments.weights / (numbers + 1))[batch.segments.ids == bag]
            torch.testing.assert_close(relative, relative[:1].expand_as(relative))
    assert seen == set(range(43))


def test_batches_of_ragged_bags_have_about_equally_many_instances():
    sizes = np.random.default_rng(0).integers(1, 128, 408)
    batches = list(resident(sizes).shuffled(16, np.random.default_rng(0)))
    means = np.array([batch.segments.n / len(batch.bags) for batch in batches])
    assert abs(means / sizes.mean() - 1).max() < 0.1, "a random order has batches 0.3 off"
    together = [set(batch.bags.tolist()) for batch in batches]
    again = [set(batch.bags.tolist()) for batch in resident(sizes).shuffled(16, np.random.default_rng(1))]
    assert not any(one == other for one in together for other in again)


# ---------------------------------------------------------------- stores


def test_read_only_stores_are_read_in_place_without_a_warning(tmp_path):
    bags = numbered(SIZES)
    np.save(tmp_path / "store.npy", bags.store)
    store = np.load(tmp_path / "store.npy", mmap_mode="r")[:]  # a whole map is streamed
    bags = bags._with(store=store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = BagLoader(bags, CPU)
        assert contents(loader.in_order(20)) == all_instances(SIZES)
    assert loader.store.data_ptr() == bags.store.ctypes.data
    assert not bags.store.flags.writeable


def test_a_shared_store_is_copied_to_the_device_once(both, monkeypatch):
    moved = []
    monkeypatch.setattr(loading, "as_supported", lambda rows, device: moved.append(rows) or rows)
    bags = both[1]
    fit(build_model(bags), bags.subset([0, 1, 2, 3]), bags.subset([4, 5, 6]), Settings(epochs=1), device="cpu")
    assert len(moved) == 1


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Bags on disk, one file each, with blobs of three classes; and the same in memory."""
    folder, rng = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    for i, size in enumerate(SIZES):
        rows = rng.normal(size=(size, 5)) + 2 * np.eye(5)[i % 3]
        np.save(folder / f"{i:02d}.npy", rows.astype(np.float16))
    files = FeatureFiles(sorted(folder.iterdir()))
    return [numbered(SIZES)._with(store=store, index=np.arange(sum(SIZES))) for store in (files, files[:])]


def test_training_from_disk_equals_training_from_memory(both, monkeypatch):
    monkeypatch.setattr("majority.data.device.BATCH_INSTANCES", 64)  # so that large bags come in pieces
    models = [build_model(bags, "log-mean") for bags in both]
    plan = Settings(epochs=2, batch_bags=4, max_instances=9)
    keep = np.arange(sum(SIZES)) % 3 != 1
    on_disk, in_memory = (
        fit(model, bags, bags, plan, device="cpu", keep=keep) for model, bags in zip(models, both, strict=True)
    )
    for name in ("train_loss", "val_loss"):
        assert [record[name] for record in on_disk.history] == [record[name] for record in in_memory.history]
    weights = zip(models[0].state_dict().values(), models[1].state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)


def test_a_large_bag_is_read_in_pieces_and_only_the_next_batch_in_advance(both, monkeypatch):
    reads, real = [], BagLoader._read
    monkeypatch.setattr(BagLoader, "_read", lambda self, index: reads.append(len(index)) or real(self, index))
    streamed = BagLoader(both[0], CPU)
    list(streamed.in_order(64))
    assert (sum(reads), max(reads)) == (sum(SIZES), 64)
    reads.clear()
    for step, batch in enumerate(streamed.shuffled(2, np.random.default_rng(0)), start=1):
        assert batch.instances is not None
        assert len(reads) <= step + 1
    assert len(reads) == 4
