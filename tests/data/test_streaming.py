"""Bags on disk: the same batches, training and predictions as in memory; reading ahead; little memory."""

import sys
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from majority import Bags, Classifier, Settings, build_model, evaluate, fit
from majority.data import batches
from majority.data.stores import FeatureFiles
from majority.data.streaming import StreamedLoader, make_loader, prefetch

CPU = torch.device("cpu")
SIZES = [3, 1, 12, 300, 7, 2, 30, 90, 5, 41, 8, 1]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """One file per bag, with blobs of three classes."""
    folder, rng = tmp_path_factory.mktemp("features"), np.random.default_rng(0)
    for i, size in enumerate(SIZES):
        rows = rng.normal(size=(size, 5)) + 2 * np.eye(5)[i % 3]
        np.save(folder / f"{i:02d}.npy", rows.astype(np.float16))
    return sorted(folder.iterdir())


def bags_on(store):
    n = sum(SIZES)
    return Bags(store, np.arange(n), np.cumsum([0, *SIZES]), np.arange(12) % 3, "abc", instance_labels=np.arange(n) % 3)


@pytest.fixture(scope="module")
def both(paths):
    files = FeatureFiles(paths)
    return bags_on(files), bags_on(files[:])


def assert_same_batches(streamed, resident, piece):
    count = 0
    for ours, theirs in zip(streamed, resident, strict=True):
        count += 1
        assert ours.bags.tolist() == theirs.bags.tolist()
        assert ours.segments.host_sizes.tolist() == theirs.segments.host_sizes.tolist()
        assert torch.equal(ours.segments.keep, theirs.segments.keep)
        for a, b in zip(ours.target, theirs.target, strict=True):
            assert a is b is None or torch.equal(a, b)
        if count % 2:
            assert torch.equal(ours.instances, theirs.instances)
        else:
            pairs = zip(ours.pieces(piece), theirs.pieces(piece), strict=True)
            assert all(torch.equal(a, b) for a, b in pairs)
    assert count


def test_a_shared_store_is_copied_to_the_device_once(both, monkeypatch):
    moved = []
    monkeypatch.setattr(batches, "as_tensor", lambda store: moved.append(id(store)) or torch.from_numpy(store))
    bags = both[1]
    fit(build_model(bags), bags.subset([0, 1, 2, 3]), bags.subset([4, 5, 6]), Settings(epochs=1), device="cpu")
    assert moved == [id(bags.store)]


# ---------------------------------------------------------------- as in memory


@settings(max_examples=25, deadline=None)
@given(
    batch_bags=st.integers(1, 13),
    seed=st.integers(0, 2**32 - 1),
    limit=st.none() | st.integers(1, 320),
    piece=st.integers(1, 400),
)
def test_batches_equal_those_of_bags_in_memory(both, batch_bags, seed, limit, piece):
    keep = np.random.default_rng(seed).random(sum(SIZES)) < 0.5
    soft_labels = np.random.default_rng(seed).random((sum(SIZES), 3))
    streamed, resident = (make_loader(bags, CPU, keep=keep, soft_labels=soft_labels) for bags in both)
    epochs = (bags.shuffled(batch_bags, np.random.default_rng(seed), limit) for bags in (streamed, resident))
    assert_same_batches(*epochs, piece)
    assert_same_batches(streamed.in_order(piece), resident.in_order(piece), piece)


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize("limit", [None, 9])
def test_training_and_predictions_equal_those_of_bags_in_memory(both, limit, monkeypatch):
    monkeypatch.setattr("majority.data.device.BATCH_INSTANCES", 64)  # so that large bags come in pieces
    plan = Settings(epochs=3, batch_bags=4, warmup_epochs=1, max_instances=limit)
    models, fits = [], []
    for bags in both:
        train, val = bags.subset(range(8)), bags.subset([3, *range(8, 12)])
        models.append(build_model(train, "log-mean"))
        fits.append(fit(models[-1], train, val, plan, device="cpu"))
    figures = [[{**record, "seconds": 0} for record in fitted.history] for fitted in fits]
    assert figures[0] == figures[1]
    assert same_weights(*models)
    outcomes = [evaluate(models[0], bags, "cpu") for bags in both]
    assert np.array_equal(outcomes[0].confusion, outcomes[1].confusion)
    counts = [Classifier(models[0], "cpu").predict_bags(bags).counts for bags in both]
    assert np.array_equal(*counts)
    assert counts[0].sum(axis=1).tolist() == SIZES


class Stopped(Exception):
    pass


def test_a_run_stopped_within_an_epoch_continues_to_the_same_result(both, tmp_path, monkeypatch):
    bags, plan = both[0], Settings(epochs=4, batch_bags=3, warmup_epochs=1)
    whole, resumed = build_model(bags, "log-mean"), build_model(bags, "log-mean")
    fit(whole, bags, bags, plan, device="cpu")
    real, reads = StreamedLoader._read, []

    def read_until_stopped(self, index):
        reads.append(len(index))
        if len(reads) == 13:
            raise Stopped
        return real(self, index)

    with monkeypatch.context() as patch:
        patch.setattr(StreamedLoader, "_read", read_until_stopped)
        with pytest.raises(Stopped):
            fit(resumed, bags, bags, plan, device="cpu", folder=tmp_path)
    resumed = build_model(bags, "log-mean")
    fitted = fit(resumed, bags, bags, plan, device="cpu", folder=tmp_path)
    assert fitted.epochs == 4
    assert same_weights(whole, resumed)


# ---------------------------------------------------------------- reading


def test_a_large_bag_is_read_in_pieces_and_only_the_next_batch_in_advance(both, monkeypatch):
    reads, real = [], StreamedLoader._read
    monkeypatch.setattr(StreamedLoader, "_read", lambda self, index: reads.append(len(index)) or real(self, index))
    streamed = make_loader(both[0], CPU)
    list(streamed.in_order(64))
    assert sum(reads) == sum(SIZES)
    assert max(reads) == 64
    reads.clear()
    epoch = streamed.shuffled(2, np.random.default_rng(0))
    for step, batch in enumerate(epoch, start=1):
        assert batch.instances is not None
        assert len(reads) <= step + 1
    assert len(reads) == 6


def test_the_next_job_is_done_while_the_current_result_is_in_use():
    done = []
    results = prefetch(lambda job: done.append(job) or threading.current_thread().name, range(3))
    assert next(results).startswith("majority-read")
    deadline = time.monotonic() + 20
    while done != [0, 1] and time.monotonic() < deadline:
        time.sleep(0.001)
    assert done == [0, 1]
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("majority-read")]
    assert list(prefetch(str, [])) == []


GROWTH = """
import sys
from pathlib import Path
import torch
from majority import Bags
from majority.data.streaming import make_loader

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024

before = resident("VmRSS")
bags = Bags.load(sys.argv[1], in_place=True)
batches = make_loader(bags, torch.device("cpu")).in_order(4096)
rows = sum(len(piece) for batch in batches for piece in batch.pieces(4096))
bags.fingerprint()
print(rows, resident("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_mapped_store_is_not_loaded_into_memory(run_program, tmp_path):
    store = np.ones((400_000, 256), np.float16)  # 195 MiB
    bags = Bags(store, np.arange(len(store)), [0, 10, 200_000, len(store)], ["a", "b", "a"])
    folder = bags.save(tmp_path / "bags")
    rows, grown = run_program(GROWTH, folder).split()
    assert int(rows) == len(store)
    assert float(grown) < 130  # MiB; the map's pages alone would be 195
