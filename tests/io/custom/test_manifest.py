"""Manifests of features: valid tables, warnings, and every kind of mistake."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from majority import InputError, load_source
from majority.io import check_source

TRAIN = ("--recipe", "quick", "--epochs", 3, "--device", "cpu")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_training_and_evaluation_with_a_table(tmp_path, majority, make, suffix):
    table, place, run = make.table(), tmp_path / f"bags{suffix}", tmp_path / "run"
    if suffix == ".csv":
        table.to_csv(place, index=False)
    else:
        table.assign(bag_label=table["bag_label"].astype(int)).to_parquet(place)
    code, out, err = majority("train", place, "--recipe", "quick", "--epochs", 10, "--device", "cpu", "--out", run)
    assert (code, err) == (0, "")
    assert "test bags of fold 0" in out
    result = json.loads((run / "result.json").read_text())
    assert result["test"]["instance_accuracy"] > 0.8
    assert result["scenario"] is None
    code, out, _ = majority("evaluate", run)
    assert code == 0
    assert "instance accuracy" in out


def test_numbers_keep_their_text_and_are_sorted_by_value(tmp_path, make):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    bags = load_source(tmp_path / "bags.csv").bags
    assert bags.classes == ("7", "12")
    assert bags.names[0] == "slide0"
    assert bags.store.dtype == np.float32


def test_rows_of_a_bag_need_not_be_neighbours(tmp_path, make):
    table = make.table()
    shuffled = table.sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "bags.csv", index=False)
    bags = load_source(tmp_path / "bags.csv").bags
    for i, name in enumerate(bags.names):
        rows = shuffled[shuffled["bag"] == name]
        assert np.allclose(bags.bag(i), rows[["a", "b"]])
        assert bags.classes[bags.labels[i]] == rows["bag_label"].iloc[0]


def test_features_by_name_and_unused_text_columns(tmp_path, majority, make):
    make.table(site="north").to_csv(tmp_path / "bags.csv", index=False)
    assert load_source(tmp_path / "bags.csv").columns == ("a", "b")
    assert load_source(tmp_path / "bags.csv", features=["b"]).bags.store.shape[1:] == (1,)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert "warning: column site is not used" in out


def test_a_path_of_a_null_character_is_a_problem(tmp_path, majority, make, says):
    table = make.images(tmp_path, bags=4)
    table.loc[2, "path"] = "\x00"
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert says(out, "problem: ", "row 4")


def test_a_header_of_more_than_131072_characters_is_read(tmp_path):
    names = [f"{'a' * 700}{i}" for i in range(200)]
    rows = [f"{bag},{'xy'[bag % 2]}" + f",{bag}.5" * len(names) for bag in range(12)]
    (tmp_path / "bags.csv").write_text("\n".join([",".join(["bag", "bag_label", *names]), *rows]) + "\n")
    assert load_source(tmp_path / "bags.csv").bags.store.shape == (12, 200)


def test_none_and_na_are_valid_names(tmp_path, make):
    table = make.table()
    table["bag_label"] = table["label"] = table["bag_label"].map({"7": "None", "12": "NA"})
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert load_source(tmp_path / "bags.csv").bags.classes == ("NA", "None")


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda t: pd.concat([t, t.iloc[[2, 4]]]), ("2 rows ", "every cell", "row 152 as row 4")),
        (lambda t: t.assign(id=range(3, 153)), ("column id ", "numbers the rows", "--features")),
    ],
)
def test_a_possible_mistake_is_a_warning(tmp_path, majority, make, says, change, facts):
    change(make.table()).to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert says(out, "warning: ", *facts)
    assert "0 problems, 1 warning" in out
    assert "1 warnings" not in out


def test_methods_are_compared_by_validation_bags_if_no_instance_is_labelled(tmp_path, majority, make):
    make.table().drop(columns="label").to_csv(tmp_path / "bags.csv", index=False)
    for method in ("log-mean", "vote"):
        words = ["train", tmp_path / "bags.csv", *TRAIN, "--method", method, "--folds", 3]
        assert majority(*words, "--out", tmp_path / "compared" / method)[0] == 0
    assert majority("report", tmp_path / "compared")[0] == 0
    tables = (tmp_path / "compared/tables.md").read_text()
    assert "Validation bag accuracy" in tables
    (choice,) = [line for line in tables.splitlines() if line.startswith("| bags | - | quick")]
    assert re.search(r"\| 2 \| [a-z0-9, -]+ \| 3 \|$", choice)
    assert "cost |" not in tables
    first, second = re.findall("^## (.*)", tables, re.MULTILINE)[:2]
    assert "Test bag accuracy" in first
    assert "onsistency rate" in second
    assert len(re.findall(r"^- bags, .*`(?:log-mean|vote)`.*n=3", tables, re.MULTILINE)) == 1
    page = (tmp_path / "compared/report.html").read_text()
    assert "Choosing without instance labels" in page
    assert re.search("cost .*not known", page)
    assert not re.search("No (fold|finished cell) has", page)


def test_results_on_training_bags_come_with_a_note(tmp_path, majority, make):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    for words in (["evaluate"], ["predict", "--out", tmp_path / "classes.csv"]):
        note = "note: the run was trained on this source"
        assert note in majority(words[0], tmp_path / "run", tmp_path / "bags.csv", *words[1:])[1]
        assert note not in majority(words[0], tmp_path / "run", *words[1:])[1]


def test_one_bag_and_one_instance_are_singular(tmp_path, majority, make):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    make.table(bags=1, size=1).to_csv(tmp_path / "one.csv", index=False)
    majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    for words, start in ((["--bags"], "1 bag: "), ([], "1 instance: ")):
        out = majority("predict", tmp_path / "run", tmp_path / "one.csv", "--out", tmp_path / "p.csv", *words)[1]
        assert out.startswith(start)


def test_summary(tmp_path, majority, make):
    table = make.table()
    table["group"] = make.column(table, ["p1", "p2", "p3", "p4", "p5", "p6"])
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    for piece in (
        "150 vectors",
        "5 to 5, median 5",
        "7 (15 bags), 12 (15 bags)",
        "60/20/20",
        "60% to 60%",
        "0 of 30",
        "2 columns: a, b",
    ):
        assert piece in out
    assert "0 problems, 0 warnings" in out


def test_brackets_in_names_are_printed_unchanged(tmp_path, majority, make):
    table = make.table().rename(columns={"a": "a [/km2]"}).drop(columns="label")
    table["bag_label"] = [f"{name} [links]" for name in table["bag_label"]]
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0, out
    assert "a [/km2], b" in out
    assert "7 [links] (" in out


def test_summary_of_a_benchmark_set(majority):
    code, out, _ = majority("check", "digits")
    assert code == 0
    assert "1,797" in out


# ---------------------------------------------------------------------- every kind of mistake


def change(row, column, value):
    def edit(table, make):
        table[column] = table[column].astype(object)
        table.loc[row, column] = value
        return table

    return edit


def with_splits(values):
    return lambda table, make: table.assign(split=make.column(table, values))


def a_bag_in_two_splits(table, make):
    table = table.assign(split=make.column(table, ["train", "train", "val", "val", "test", "test"]))
    table.loc[1, "split"] = "test"
    return table


def a_group_in_two_splits(table, make):
    table = with_splits(["train", "train", "val", "val", "test", "test"])(table, make)
    return table.assign(group=make.column(table, ["p1", "p2", "p3", "p1", "p5", "p6"]))


WRONG = {  # change of a valid table -> facts in one line of the message
    "no bag column": (lambda t, m: t.drop(columns="bag"), ("row 1", "no column bag:")),
    "no label column": (
        lambda t, m: t.drop(columns="bag_label"),
        ("row 1", "no column bag_label:", "majority predict"),
    ),
    "no features": (lambda t, m: t.drop(columns=["a", "b"]), ("row 1", "no features", "column path", "numbers")),
    "a label on some rows": (change(3, "bag_label", ""), ("row 5", "has two bag_labels", "'' here", "same value")),
    "no labels": (lambda t, m: t.assign(bag_label=""), ("no bag has a label", "`majority predict`")),
    "winner as runner-up": (
        lambda t, m: t.assign(second_label=t["bag_label"]),
        ("rows 2", "the runner-up is the winner", "name the second most common class, or none"),
    ),
    "one runner-up and no label at all": (
        lambda t, m: t.assign(second_label=t["bag_label"][0], bag_label=""),
        ("no bag has a label", "training needs some"),
    ),
    "a runner-up without a winner": (
        lambda t, m: t.assign(
            second_label=t["bag_label"].where(t["bag"] == t["bag"][0], ""),
            bag_label=t["bag_label"].where(t["bag"] != t["bag"][0], ""),
        ),
        ("row 2", "has a runner-up", "but no winner"),
    ),
    "a class twice": (
        lambda t, m: t.assign(bag_label=t["bag_label"].where(t["bag"] != t["bag"][0], "7|7")),
        ("row 2", "label 7|7 names a class twice", "each class once"),
    ),
    "a bar too many": (
        lambda t, m: t.assign(bag_label=t["bag_label"].where(t["bag"] != t["bag"][5], "12|")),
        ("row 7", "label 12| has an empty name", "each class once"),
    ),
    "a class only together with others": (
        lambda t, m: t.assign(bag_label=t["bag_label"].where(t["bag"] != t["bag"][0], "7|13")),
        ("row 2", "class 13 is only named together with others (7|13)", "label a bag with it alone"),
    ),
    "empty bag name": (change(3, "bag", ""), ("row 5", "bag is empty")),
    "true labels of other names": (
        lambda t, m: t.assign(label="class " + t["label"]),
        ("(class 12, class 7)", "(7, 12)"),
    ),
    "NaN": (change(4, "a", np.nan), ("row 6", "feature a is empty, NaN or NA", "finite number")),
    "infinite": (change(4, "a", np.inf), ("row 6", "feature a is inf")),
    "too large": (change(4, "a", 1e300), ("row 6", "feature a is 1e+300")),
    "text among numbers": (change(4, "b", "o.5"), ("row 6", "feature b is 'o.5'")),
    "two labels": (change(2, "bag_label", "12"), ("row 4", "bag slide0 has two bag_labels", "'7'", "'12'")),
    "unknown split": (with_splits(["train", "tset"]), ("rows 7 to 11, 17", "split is 'tset'", "train, val or test")),
    "empty split": (with_splits(["train", "train", ""]), ("rows 12, 27", "split is empty", "remove the column split")),
    "bag in two splits": (a_bag_in_two_splits, ("row 3", "bag slide0 has two splits")),
    "group in two splits": (a_group_in_two_splits, ("group p1 has two splits", "move all bags of a group")),
    "class missing from a split": (
        with_splits(["train", "train", "val", "train", "test", "test"]),
        ("class 12 has no bag in split val", "move a bag of it to val"),
    ),
    "nothing to train on": (with_splits(["test"]), ("no bag is in split train",)),
    "one class": (lambda t, m: t.assign(bag_label="7"), ("all bags have the label '7'", "two or more classes")),
    "x without y": (lambda t, m: t.assign(x=1), ("row 1", "only a column x", "both x and y")),
    "x beyond all numbers": (lambda t, m: change(0, "x", "9" * 400)(t.assign(x=1, y=2), m), ("row 2", "x is 999")),
    "x out of range": (lambda t, m: change(0, "x", 1e38)(t.assign(x=1.0, y=2), m), ("row 2", "x is 1e+38")),
    "x that is not a number": (lambda t, m: change(0, "x", "left")(t.assign(x=1, y=2), m), ("row 2", "x is left")),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_table_is_refused_by_check_and_by_train(tmp_path, majority, make, says, wrong):
    edit, facts = WRONG[wrong]
    place = tmp_path / "bags.csv"
    edit(make.table(), make).to_csv(place, index=False)
    code, out, err = majority("check", place)
    assert (code, err) == (1, "")
    assert says(out, "problem: ", str(place), *facts)
    code, _, err = majority("train", place, *TRAIN, "--out", tmp_path / "run")
    assert code == 2
    assert says(err, *facts)
    assert "Traceback" not in err


def test_a_bar_too_many_is_one_problem(tmp_path, make):
    table = make.table()
    table.loc[table["bag"] == "slide1", "bag_label"] = "12|"
    table.to_csv(tmp_path / "bags.csv", index=False)
    (problem,) = check_source(tmp_path / "bags.csv").problems
    assert problem.row == 7


@pytest.mark.parametrize("bags", [30, 8])
def test_a_class_that_is_only_ever_a_runner_up_is_warned_of(tmp_path, majority, make, says, bags):
    table, place = make.table(bags=bags).drop(columns="label"), tmp_path / "bags.csv"
    table["bag_label"] = table["bag_label"].map({"7": "oats", "12": "wheat"})
    table["second_label"] = np.where(table["bag"] == "slide1", "ots", "")
    table.to_csv(place, index=False)
    facts = ("warning: row 7", "ots", "slide1", "runner-up", "second_label", "did you mean oats?")
    assert says(majority("check", place)[1], *facts)
    _, out, err = majority("train", place, *TRAIN, "--out", tmp_path / "run")
    assert says(out + err, *facts)


def test_a_runner_up_that_no_training_bag_has_is_named_with_its_bag(tmp_path, majority, make, says):
    table, place = make.table(), tmp_path / "bags.csv"
    table["split"] = make.column(table, ["train", "train", "val", "val"])
    table["second_label"] = np.where(table["bag"] == "slide2", "13", "")
    table.to_csv(place, index=False)
    code, out, _ = majority("check", place)
    assert code == 1
    assert says(out, "problem: ", "no training bag has the label 13", "second_label", "slide2")


def test_all_problems_are_reported(tmp_path, majority, make):
    table = make.table()
    table.loc[:24, "a"] = np.nan
    table.loc[30, "bag_label"] = ""
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    lines = [line for line in out.splitlines() if line.startswith("problem: ")]
    assert len(lines) == 2
    assert "row 33: bag slide6" in lines[0]
    assert "has two bag_labels" in lines[0]
    assert "rows 2 to 26: feature a is empty, NaN or NA (25 times)" in lines[1]
    assert "\n26 problems, " in out
    assert len(check_source(tmp_path / "bags.csv").problems) == 26
    code, _, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert code == 2
    assert "has 26 problems" in err
    assert "rows 2 to 26" in err


def test_very_many_mistakes_are_reported_briefly(tmp_path, majority):
    rows = 20_000
    columns = {"bag": np.arange(rows) // 10, "bag_label": np.arange(rows) // 10 % 2, "a": 1.0, "b": 0.0}
    table = pd.DataFrame(columns | {"x": "left", "y": np.arange(rows)})
    table.loc[::2, "a"] = np.nan
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert out.count("problem: ") == 2
    assert "rows 2, 4, 6, 8, 10, ..., 19992, 19994, 19996, 19998, 20000: feature a is empty" in out
    assert "rows 2 to 20001: x is left (20,000 times)" in out
    assert "\n30,000 problems, " in out


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        ({"bag": "Bag"}, ("no column bag ", "mean Bag?", "bag and bag_label")),
        ({"bag": "bag_id"}, ("no column bag ", "mean bag_id?")),
        ({"bag": "slide"}, ("no column bag ", "mean slide?")),
        ({"bag_label": "baglabel"}, ("no column bag_label ", "mean baglabel?")),
    ],
)
def test_a_column_under_another_name(tmp_path, majority, make, says, names, facts):
    make.table().rename(columns=names).to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert says(out, *facts)


def test_names_of_splits_may_be_in_capitals(tmp_path, make):
    table = make.table()
    table["split"] = make.column(table, ["TRAIN", "Train", "train", "train", "Val", "VAL", "test", "Test"])
    table.loc[1, "split"] = "train"  # another spelling of the split of its bag
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert [len(part) for part in load_source(tmp_path / "bags.csv").make_parts()] == [16, 8, 6]


def test_all_problems_with_bags_for_a_run_are_listed(tmp_path, majority, make):
    table, place = make.table(), tmp_path / "bags.csv"
    table.to_csv(place, index=False)
    assert majority("train", place, *TRAIN, "--out", tmp_path / "run")[0] == 0
    table.drop(columns="label").replace({"bag_label": {"12": "99"}}).to_csv(tmp_path / "other.csv", index=False)
    code, _, err = majority("evaluate", tmp_path / "run", tmp_path / "other.csv")
    assert code == 2
    assert f"{tmp_path / 'other.csv'} has 15 problems:\n" in err
    assert len(re.findall("label 99, but the run knows only 7, 12", err)) == 3
    assert "and 12 more" in err
    assert "majority check" not in err


def test_classes_with_few_bags_are_warned_of(tmp_path, majority, make, says):
    make.table(bags=13).to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert says(out, "warning: class 12 ", "6 bags")
    make.table(bags=21).to_csv(tmp_path / "bags.csv", index=False)
    assert "0 warnings" in majority("check", tmp_path / "bags.csv")[1], "ten are enough"


BAD_FILES = {
    "": ("it is empty",),
    "bag,bag_label,a\n": ("no rows",),
    'bag,bag_label,a,b\n1,x,2,"1,5"\n2,y,3,"-0,25"\n': ("column b ", "decimal commas", "1234,5"),
    "bag;bag_label;a\n1;x;2\n1;x;2;3\n": ("row 3", "4 cells", "header 3"),
    "sep=;\nbag;bag_label;a\n1;x;2\n": ("row 1", "sep=", "remove this line"),
    "bag,bag,a\n1,x,2\n": ("row 1", "two columns are named 'bag'"),
    "bag,bag_label,a\n1,x,2\n1,x,2,3\n1,x,4,5\n": ("rows 3, 4", "4 cells", "header 3"),
    "bag,bag_label,a\n1,x,2,3\n1,x,2,3\n": ("rows 2, 3", "4 cells", "header 3"),
    "bag,a,b,bag_label\n1,3\n1,2\n": ("rows 2, 3", "2 cells", "header 4"),
}
SEVERAL_COUNTS = "bag,bag_label,a,b\n1,x,2,3\n1,x,2\n1,x\n1,x,2,3,4\n"


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", BAD_FILES)
def test_files_that_are_not_tables(tmp_path, majority, says, text):
    (tmp_path / "bags.csv").write_text(text)
    code, out, err = majority("check", tmp_path / "bags.csv")
    assert (code, err) == (1, "")
    assert says(out, "bags.csv", *BAD_FILES[text])


def test_each_number_of_cells_is_reported_with_its_rows(tmp_path, majority, says):
    (tmp_path / "bags.csv").write_text(SEVERAL_COUNTS)
    _, out, _ = majority("check", tmp_path / "bags.csv")
    for row, cells in ((3, 3), (4, 2), (5, 5)):
        assert says(out, f"problem: {tmp_path / 'bags.csv'}, row {row}: ", f"{cells} cells", "header 4")
    assert "3 problems, " in out


def test_binary_files_that_are_not_tables(tmp_path, majority):
    for name in ("bags.csv", "bags.parquet"):
        (tmp_path / name).write_bytes(bytes(range(256)))
        code, out, _ = majority("check", tmp_path / name)
        assert code == 1
        assert "cannot be read as" in out


def test_blank_lines_and_a_byte_order_mark_are_ignored(tmp_path, make):
    text = make.table(bags=4).to_csv(index=False).replace("slide1", "\n\nslide1", 1)
    (tmp_path / "bags.csv").write_text("\ufeff" + text + "\n\n", encoding="utf-8")
    assert len(load_source(tmp_path / "bags.csv").bags) == 4


def test_blank_rows_are_not_counted_in_instance_numbers(tmp_path, majority, make):
    table, place = make.table(), tmp_path / "bags.csv"
    table.to_csv(place, index=False)
    assert majority("train", place, *TRAIN, "--out", tmp_path / "run")[0] == 0
    place.write_text(table.to_csv(index=False).replace("slide1,", "\n,,,,\nslide1,", 1))
    assert majority("predict", tmp_path / "run", place, "--out", tmp_path / "p.csv")[0] == 0
    assert pd.read_csv(tmp_path / "p.csv")["instance"].tolist() == list(range(len(table)))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--scenario", "small"), ("scenario is not for bags of your own",)),
        (("--bag-size", "10", "--ties", "error"), ("bag_size is not for",)),
        (("--with-replacement",), ("with_replacement is not for",)),
        (("--bags", "10"), ("bags is not for",)),
        (("--fold", "1"), ("fold 1", "--folds 5")),
        (("--folds", "2"), ("folds is 2", "from 3")),
        (("--features", "nose"), ("no column nose", "--features", "(a, b)")),
        (("--features", "label"), ("column label ", "--features")),
        (("--image-size", "0"), ("image_size is 0", "1 to 1,024")),
        (("--data-seed", "-1"), ("data_seed", "-1")),
    ],
)
def test_options_that_do_not_apply(tmp_path, majority, make, says, words, facts):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    code, _, err = majority("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run", *words)
    assert code == 2
    assert says(err, *facts)


def test_problems_are_raised_in_python(tmp_path, make):
    make.table().drop(columns="bag").to_csv(tmp_path / "bags.csv", index=False)
    with pytest.raises(InputError, match=r"bags\.csv, row 1.*no column bag"):
        load_source(tmp_path / "bags.csv")
