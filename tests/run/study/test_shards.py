"""Shards of a study: each trains its own cells and nothing else; together they are the whole study."""

import json
import shutil

import pytest
from studies import rows_of

SMALL = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--epochs", "1", "--device", "cpu", "--jobs", "1"]
COMMAND = ["--methods", "naive", "--scenarios", "large", "--folds", "0-2", *SMALL]


def cells_of(out):
    return {str(path.parent.relative_to(out)) for path in out.rglob("result.json")}


@pytest.mark.usefixtures("one_process")
def test_shards_in_one_folder_or_in_several_are_together_the_whole_study(succeeds, labelled_set, tmp_path):
    own, whole, shared, joined = labelled_set(), tmp_path / "whole", tmp_path / "shared", tmp_path / "joined"
    succeeds("study", own, *COMMAND, "--out", whole)
    seen = set()
    for i in (1, 2):
        apart = tmp_path / f"shard{i}"
        before = cells_of(shared)
        for out in (shared, apart):
            printed = succeeds("study", own, *COMMAND, "--shard", f"{i}/2", "--out", out)
            assert f"shard {i}/2" in printed
            assert "without --shard" in printed
            assert not (out / "tables.csv").exists(), "a table of one shard would look like that of the study"
        assert cells_of(shared) - before == cells_of(apart)
        assert len(cells_of(apart)) == 3 - i, "three cells"
        assert not seen & cells_of(apart)
        seen |= cells_of(apart)
        assert json.loads((apart / "study.json").read_text()) == json.loads((whole / "study.json").read_text())
        shutil.copytree(apart, joined, dirs_exist_ok=True)
    assert seen == cells_of(whole)
    for out in (shared, joined):
        printed = succeeds("study", own, *COMMAND, "--out", out)
        assert printed.startswith("3 of 3 cells were already finished")
        assert rows_of(out) == rows_of(whole)
        assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in whole.iterdir())


@pytest.mark.usefixtures("one_process")
def test_a_shard_more_than_there_are_cells_has_nothing_to_do(majority, labelled_set, tmp_path):
    code, printed, err = majority("study", labelled_set(), *COMMAND, "--shard", "7/7", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "shard 7/7: 0 cells" in printed


@pytest.mark.usefixtures("one_process")
def test_the_failures_of_a_shard_are_in_its_own_file(majority, labelled_set, tmp_path):
    own, out = labelled_set(classes=2), tmp_path / "out"  # small is an empty range for two classes
    out.mkdir()
    (out / "failures-2-of-2.txt").write_text("of another shard")
    command = ["study", own, "--methods", "naive", "--scenarios", "small", *SMALL, "--shard", "1/2", "--out", out]
    assert majority(*command)[0] == 1
    assert "no bag of 8" in (out / "failures-1-of-2.txt").read_text()
    assert (out / "failures-2-of-2.txt").read_text() == "of another shard"


@pytest.mark.parametrize("text", ["3/2", "a/b", ""])
def test_a_wrong_shard_is_refused(refused, tmp_path, text):
    err = refused("study", "digits", "--shard", text, "--out", tmp_path / "out")
    assert "shard" in err
    assert "2/8" in err
    assert not (tmp_path / "out").exists()
