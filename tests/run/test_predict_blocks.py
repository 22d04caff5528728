"""Predictions in parts: the same rows as in one file, whoever wrote the parts, and nothing is done twice."""

import json
import shutil
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from majority.files import exclusive_draft
from majority.run import predict_blocks as module

QUICK = ["--recipe", "quick", "--method", "log-mean", "--epochs", "2", "--device", "cpu"]


def features(rng, n, d=3):
    return rng.normal(size=(n, d)).astype(np.float32)


def write_folder(folder, sizes, *, seed=0, coords=False):
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for i, size in enumerate(sizes):
        arrays = {"features": features(rng, size)}
        if coords:  # whole numbers in the first files, others in the last ones
            arrays["coords"] = rng.integers(0, 9, (size, 2)) * (1 if i < len(sizes) // 2 else 0.5)
        np.savez(folder / f"bag{i:02d}.npz", **arrays)
    return folder


@pytest.fixture(scope="module")
def runs(succeeds, tmp_path_factory):
    """A run on feature files and one on a table."""
    place = tmp_path_factory.mktemp("runs")
    folder = write_folder(place / "features", [4] * 20)
    labels = pd.DataFrame({"bag": [f"bag{i:02d}" for i in range(20)], "label": ["cat", "dog"] * 10})
    labels.to_csv(folder / "labels.csv", index=False)
    rng = np.random.default_rng(1)
    table = pd.DataFrame(features(rng, 80), columns=["a", "b", "c"])
    table.insert(0, "bag", np.repeat(np.arange(20), 4))
    table.insert(1, "bag_label", np.repeat(["cat", "dog"] * 10, 4))
    table.to_csv(place / "table.csv", index=False)
    for name, source in (("features-run", folder), ("table-run", place / "table.csv")):
        succeeds("train", source, *QUICK, "--out", place / name)
    return place


@pytest.fixture
def new_table():
    """Rows in which the bags are scattered, without labels."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame(features(rng, 100), columns=["a", "b", "c"])
    table.insert(0, "bag", rng.permutation(np.repeat([f"field {i}" for i in range(10)], 10)))
    return table


def read(out):
    return pd.read_parquet(out)


def same_rows(left, right, by):
    left, right = (frame.sort_values(by).reset_index(drop=True) for frame in (left, right))
    pd.testing.assert_frame_equal(left, right, rtol=1e-5)


def test_parts_of_a_folder_have_the_rows_of_one_file_in_the_same_order(succeeds, runs, tmp_path):
    source = write_folder(tmp_path / "new", [3, 9, 1, 6, 2, 8, 4], seed=3, coords=True)
    command = ["predict", runs / "features-run", source, "--device", "cpu"]
    succeeds(*command, "--out", tmp_path / "whole.parquet")
    printed = succeeds(*command, "--block-rows", "8", "--out", tmp_path / "parts")
    blocks = len([*(tmp_path / "parts").glob("part-*.parquet")])
    assert 2 < blocks < 7
    assert f"33 rows written; {blocks} of {blocks} blocks done" in printed
    whole, parts = read(tmp_path / "whole.parquet"), read(tmp_path / "parts")
    assert len(whole) == 33
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-5)
    assert not [*(tmp_path / "parts").glob(".*")], "no locks or drafts are left"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_parts_of_a_table_have_the_rows_of_one_file(succeeds, runs, new_table, tmp_path, kind):
    source, whole = tmp_path / f"new.{kind}", tmp_path / "whole.parquet"
    write = new_table.to_csv if kind == "csv" else new_table.to_parquet
    write(source, **({"index": False} if kind == "csv" else {"row_group_size": 15}))
    command = ["predict", runs / "table-run", source, "--device", "cpu"]
    for options in [[]] if kind == "csv" else [["--bags", "--abstain-below", "0.6"], ["--abstain-below", "0.6"]]:
        out = tmp_path / f"parts{len(options)}"
        succeeds(*command, *options, "--out", whole)
        succeeds(*command, *options, "--block-rows", "20", "--out", out)
        assert json.loads((out / "_parts.json").read_text())["blocks"] > 3
        if "--bags" in options:
            pd.testing.assert_frame_equal(read(whole), read(out))  # the same order of bags, although they are scattered
            assert read(out)["n(cat)"].sum() > 0
        else:
            same_rows(read(whole), read(out), "instance")


def test_shards_write_the_parts_of_one_command_into_one_folder_or_several(succeeds, runs, new_table, tmp_path):
    source, joined, shared = tmp_path / "new.parquet", tmp_path / "joined", tmp_path / "shared"
    new_table.to_parquet(source, row_group_size=10)
    command = ["predict", runs / "table-run", source, "--bags", "--block-rows", "10", "--device", "cpu"]
    succeeds(*command, "--out", tmp_path / "whole")
    found = []
    for i in (1, 2, 3):
        for out in (shared, tmp_path / f"shard{i}"):
            printed = succeeds(*command, "--shard", f"{i}/3", "--out", out)
        assert "without --shard" in printed
        assert not (out / "bags.parquet").exists()
        found.append({path.name for path in out.glob("_counts-*")})
        shutil.copytree(out, joined, dirs_exist_ok=True)
    assert [len(names) for names in found] == [4, 3, 3]
    assert len(set.union(*found)) == 10
    stamps = {path: path.stat().st_mtime_ns for path in joined.glob("_counts-*")}
    succeeds(*command, "--out", joined)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    for out in (joined, shared):  # the last shard has found all counts
        pd.testing.assert_frame_equal(read(out), read(tmp_path / "whole"))


def test_a_finished_part_is_never_done_again_and_a_missing_one_is(majority, runs, tmp_path, monkeypatch):
    source, out = write_folder(tmp_path / "new", [5] * 6), tmp_path / "parts"
    command = ["predict", runs / "features-run", source, "--block-rows", "10", "--device", "cpu", "--out", out]
    true, done, most = module.predict_block, [], [1]

    def stops(request, block, number, log):
        if len(done) == most[0]:
            raise KeyboardInterrupt
        done.append(number)
        return true(request, block, number, log)

    monkeypatch.setattr(module, "predict_block", stops)
    code, printed, _ = majority(*command)
    assert (code, "repeat the same command" in printed) == (130, True)
    assert [path.name for path in out.glob("part-*")] == ["part-000000.parquet"]
    (out / "._parts.json.lock").touch()  # as a kill leaves it
    most[0] = None
    for _ in range(2):
        code, printed, _ = majority(*command)
        assert (code, done, len(read(out))) == (0, [0, 1, 2], 30)
    assert printed == f"3 of 3 blocks done: {out}\n"
    assert not [*out.glob(".*")]


def test_images_of_a_table_are_read_by_the_block_that_has_them(refused, succeeds, tmp_path):
    rng, names = np.random.default_rng(0), [f"{i}.png" for i in range(40)]
    for name in names:
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(tmp_path / name)
    table = pd.DataFrame({"bag": np.repeat(np.arange(10), 4), "path": names})
    table.assign(bag_label=np.repeat(["cat", "dog"] * 5, 4)).to_csv(tmp_path / "train.csv", index=False)
    table.to_csv(tmp_path / "new.csv", index=False)
    run, out = tmp_path / "run", tmp_path / "parts"
    succeeds("train", tmp_path / "train.csv", *QUICK, "--image-size", "8", "--out", run)
    command = ["predict", run, tmp_path / "new.csv", "--device", "cpu"]
    succeeds(*command, "--out", tmp_path / "whole.parquet")
    (tmp_path / names[-1]).write_bytes(b"damaged")
    err = refused(*command, "--block-rows", "12", "--out", out)
    assert all(fact in err for fact in ("1 of 4 blocks failed", names[-1]))
    same_rows(read(tmp_path / "whole.parquet")[:36], read(out), "path")


def test_parts_of_other_predictions_are_refused(refused, succeeds, runs, new_table, tmp_path):
    source, out = tmp_path / "new.csv", tmp_path / "parts"
    new_table.to_csv(source, index=False)
    command = ["predict", runs / "table-run", source, "--device", "cpu", "--out", out]
    succeeds(*command)
    before = {path: path.read_bytes() for path in out.iterdir()}
    new_table[:-1].to_csv(source, index=False)
    err = refused(*command, "--bags", "--abstain-below", "0.5")
    assert all(fact in err for fact in ("files is", "bags is False, not True", "abstain_below is None, not 0.5"))
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_wrong_use_of_parts(refused, runs, new_table, tmp_path):
    source, folder, other = tmp_path / "new.csv", write_folder(tmp_path / "features", [2, 2]), tmp_path / "other"
    new_table.to_csv(source, index=False)
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for words, fact in {
        (source, "--shard", "1/2", "--out", tmp_path / "p.csv"): "--shard",
        (source, "--shard", "3/2", "--out", tmp_path / "out"): "--shard 3/2",
        ("--out", tmp_path / "out"): "SOURCE",
        ("digits", "--out", tmp_path / "out"): "bags of your own",
        (source, "--out", other): "other files",
        (source, "--block-rows", "0", "--out", tmp_path / "out"): "--block-rows 0",
        (folder, "--out", folder / "out"): "choose another folder",
    }.items():
        assert fact in refused("predict", runs / "table-run", *words)
        assert not (tmp_path / "out").exists()
    assert [path.name for path in other.iterdir()] == ["notes.txt"]


def test_a_method_that_needs_whole_bags_refuses_blocks_that_may_divide_them(
    refused, succeeds, runs, new_table, tmp_path
):
    run, source = tmp_path / "run", tmp_path / "new.csv"
    new_table.to_csv(source, index=False)
    options = ["--recipe", "quick", "--method", "additive-transmil", "--epochs", "1", "--device", "cpu"]
    succeeds("train", runs / "table.csv", *options, "--out", run)
    err = refused("predict", run, source, "--block-rows", "10", "--out", tmp_path / "parts")
    assert "additive-transmil" in err
    succeeds("predict", run, source, "--out", tmp_path / "one block")


def test_a_block_that_another_process_writes_is_waited_for(runs, tmp_path, monkeypatch):
    source, out, tries = write_folder(tmp_path / "new", [5]), tmp_path / "parts", []
    out.mkdir()
    monkeypatch.setattr("majority.files.BUSY_POLL", 0.01)

    def busy_at_first(path, rows, true=module.write_rows):
        tries.append(path)
        with exclusive_draft(path) if len(tries) == 1 else nullcontext():
            return true(path, rows)

    monkeypatch.setattr(module, "write_rows", busy_at_first)
    request = module.Request(runs / "features-run", source, out, device="cpu")
    assert module.try_block(request, module.Block(files=("bag00.npz",)), 0) == (5, [], None)
    assert len(tries) == 2
