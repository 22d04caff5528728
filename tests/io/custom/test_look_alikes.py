"""Columns whose names are almost reserved, such as Label."""

import numpy as np
import pytest


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["Label", "LABEL", "labels", "lable", "Second_Label", "bag_lable"])
def test_a_column_that_is_almost_a_label_is_no_feature(tmp_path, majority, check, make, says, name):
    table, place = make.table(), tmp_path / "bags.csv"
    table = table.assign(**{name: table["label"]}).drop(columns="label")
    table.to_csv(place, index=False)
    meant = {"second_label": "second_label", "bag_lable": "bag_label"}.get(name.lower(), "label")
    code, out = check(place)
    assert code == 1
    assert says(out, "problem: ", "row 1", f"column {name} ", f"did you mean {meant}", "rename", "--features")
    code, _, err = majority("train", place, "--recipe", "quick", "--epochs", 1, "--out", tmp_path / "run")
    assert code == 2
    assert says(err, f"column {name} ", f"did you mean {meant}")
    code, out = check(place, "--features", f"a,{name}")
    assert "0 problems, 0 warnings" in out  # a choice
    code, out = check(place, "--features", "a,b")
    assert code == 0
    assert meant in table or says(out, f"warning: column {name} is not used", f"did you mean {meant}")


def test_columns_that_are_almost_reserved_are_warned_of(tmp_path, majority, check, make, says):
    table, place = make.table(), tmp_path / "bags.csv"
    numbers = np.random.default_rng(0).normal(size=(3, len(table)))
    table = table.assign(X=numbers[0], Y=numbers[1], Weight=np.abs(numbers[2]), Split="train", Groups=table["bag"])
    table.to_csv(place, index=False)
    code, out = check(place)
    assert code == 0
    for name, meant in {"X": "x", "Y": "y", "Weight": "weight"}.items():
        assert says(out, f"warning: column {name} is used as a feature", f"did you mean {meant},", "--features")
    for name, meant in {"Split": "split", "Groups": "group"}.items():
        assert says(out, f"warning: column {name} is not used", f"did you mean {meant},")
    assert "5 warnings" in out
    assert "0 problems, 2 warnings" in check(place, "--features", "a,b,X,Y,Weight")[1]


def test_features_with_names_like_reserved_ones_are_not_warned_of(tmp_path, check, make):
    names = [
        "x1",
        "y2",
        "X",
        "group_size",
        "weights2",
        "weight_kg",
        "height",
        "path_length",
        "patch",
        "label2",
        "bag_x",
    ]
    table, rng = make.table(), np.random.default_rng(0)
    table.assign(**{name: rng.normal(size=len(table)) for name in names}).to_csv(tmp_path / "bags.csv", index=False)
    assert "0 problems, 0 warnings" in check(tmp_path / "bags.csv")[1]


def test_new_bags_are_warned_of_columns_that_are_almost_reserved(tmp_path, majority, make, says):
    table, place, run = make.table(), tmp_path / "bags.csv", tmp_path / "run"
    table.to_csv(place, index=False)
    assert majority("train", place, "--recipe", "quick", "--epochs", 1, "--out", run)[0] == 0
    new = table.rename(columns={"label": "Label"}).assign(Weight=1.5, X=1.0, Y=2.0)
    new.to_csv(tmp_path / "new.csv", index=False)
    for command in ("predict", "evaluate"):
        code, *texts = majority(command, run, tmp_path / "new.csv", "--out", tmp_path / f"{command}.csv")
        assert code == 0, texts
        assert command == "evaluate" or "Label" not in "".join(texts)
        for name in ("Weight", "X", "Y", *(["Label"] if command == "evaluate" else [])):
            assert says("".join(texts), f"column {name} is not used", f"did you mean {name.lower()},"), command


def test_columns_of_label_tables_and_images_that_are_almost_reserved(tmp_path, check, make, says):
    make.folder(tmp_path / "features", table=lambda frame: frame.assign(Split="train", Remark="x"))
    out = check(tmp_path / "features")[1]
    assert says(out, "warning: column Split is not used", "did you mean split,")
    make.images(tmp_path).assign(Label="red", width=3).to_csv(tmp_path / "bags.csv", index=False)
    code, out = check(tmp_path / "bags.csv")
    assert code == 0
    assert says(out, "warning: column Label is not used", "did you mean label,")
    assert says(out, "warning: column width is not used")
