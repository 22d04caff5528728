"""Tables: every way of writing one gives the same bags, and every kind of mistake is found with its place."""

import numpy as np
import pandas as pd
import pytest

from majority import InputError, load_source

TRAIN = ("--recipe", "quick", "--method", "adjusted-mean", "--epochs", 1, "--device", "cpu")


def parquet_folder(table, place):
    place.mkdir()
    table[:50].to_parquet(place / "a.parquet")
    table[50:].to_parquet(place / "b.parquet")


WRITERS = {
    "bags.csv": lambda table, place: table.to_csv(place, index=False),
    "bags.tsv": lambda table, place: table.to_csv(place, index=False, sep="\t", encoding="utf-16"),
    "semicolons.csv": lambda table, place: table.to_csv(place, index=False, sep=";", decimal=",", encoding="utf-8-sig"),
    "blank.csv": lambda table, place: place.write_text(table.to_csv(index=False).replace("slide1,", "\n,,,,\nslide1,")),
    "bags.parquet": lambda table, place: table.to_parquet(place),
    "index.parquet": lambda table, place: table.set_index(["bag", "a"]).to_parquet(place),
    "folder.parquet": parquet_folder,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_way_of_writing_a_table_gives_the_same_bags(tmp_path, make, name):
    table = make.table().rename(columns={"b": "b, cm"} if name.startswith("semi") else {})
    table.to_csv(tmp_path / "plain.csv", index=False)
    WRITERS[name](table, tmp_path / name)
    plain, source = load_source(tmp_path / "plain.csv"), load_source(tmp_path / name)
    assert {*source.encoder.names} == {*plain.encoder.names}
    assert source.bags.classes == ("7", "12")
    order = [source.encoder.names.index(column) for column in plain.encoder.names]
    np.testing.assert_allclose(source.bags.store[:, order], plain.bags.store, rtol=1e-6)
    assert source.bags.names.tolist() == plain.bags.names.tolist()


def test_rows_of_a_bag_need_not_be_neighbours(tmp_path, make):
    table = make.table().assign(x=range(150), y=range(100, 250), weight=np.arange(150) + 1.0)
    shuffled = table.sample(frac=1, random_state=0)
    shuffled.to_csv(tmp_path / "bags.csv", index=False)
    bags = load_source(tmp_path / "bags.csv").bags
    for i, name in enumerate(bags.names):
        rows = shuffled[shuffled["bag"] == name]
        assert np.allclose(bags.bag(i), rows[["a", "b"]])
        assert bags.classes[bags.labels[i]] == rows["bag_label"].iloc[0]
        assert bags.coordinates[bags.offsets[i] : bags.offsets[i + 1]].tolist() == rows[["x", "y"]].to_numpy().tolist()
    assert (bags.coordinates[:, 0] + 1 == bags.weights).all()


def test_names_keep_their_text(tmp_path, make):
    table = make.table()
    for names in ({"7": "None", "12": "NA"}, {"7": "007", "12": "7.0"}):
        changed = table.assign(bag_label=table["bag_label"].map(names), label="")
        changed.to_csv(tmp_path / "bags.csv", index=False)
        assert {*load_source(tmp_path / "bags.csv").bags.classes} == {*names.values()}


@pytest.mark.parametrize(("separator", "name"), [(";", "N, P, K, Ca, Mg"), (",", "a; b; c; d; e; f; g")])
def test_a_name_may_contain_the_separator_of_other_tables(tmp_path, make, separator, name):
    table = make.table().drop(columns="label").rename(columns={"a": name})
    text = table.to_csv(index=False, sep=separator)
    (tmp_path / "bags.csv").write_text(text.replace(f'"{name}"', name))
    assert load_source(tmp_path / "bags.csv").encoder.names == (name, "b")


@pytest.mark.parametrize(("offset", "dtype"), [(0, "float32"), (1_714_546_800, "float64")])
def test_small_differences_of_large_numbers_are_kept(tmp_path, make, offset, dtype):
    table, part = make.table(), np.random.default_rng(0).uniform(0, 1, 150).round(4)
    table.assign(a=part + offset).to_csv(tmp_path / "bags.csv", index=False)
    store = load_source(tmp_path / "bags.csv").bags.store
    assert store.dtype == dtype
    np.testing.assert_allclose(store[:, 0] - offset, part, atol=1e-6)


def test_columns_of_other_names(tmp_path, refused, succeeds, make, finds):
    """The names are given once; predict and evaluate know them from the run."""
    names, run = {"bag": "case id", "bag_label": "Diagnosis"}, tmp_path / "run"
    table = make.table()
    table.to_csv(tmp_path / "usual.csv", index=False)
    own = table.rename(columns=names)
    assert finds(own, "no column bag")
    assert finds(
        own, "no column case_id", "mean case id?", "--bag-column", bag_column="case_id", label_column="Diagnosis"
    )
    words = ("--bag-column", "case id", "--label-column", "Diagnosis")
    succeeds("train", tmp_path / "bags.csv", *words, *TRAIN, "--out", run)
    for source in ("bags.csv", "usual.csv"):
        succeeds("predict", run, tmp_path / source, "--out", tmp_path / f"p-{source}")
        succeeds("evaluate", run, tmp_path / source)
    assert (tmp_path / "p-bags.csv").read_text() == (tmp_path / "p-usual.csv").read_text()
    own.drop(columns="Diagnosis").rename(columns={"case id": "slide"}).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "p.csv"
    refused("predict", run, tmp_path / "new.csv", "--out", out)
    succeeds("predict", run, tmp_path / "new.csv", "--bag-column", "slide", "--out", out)
    reader = table.assign(reader=np.where(table["bag_label"] == "7", "yes", "no")).drop(columns="label")
    reader.to_csv(tmp_path / "reader.csv", index=False)
    assert load_source(tmp_path / "reader.csv", label_column="reader", features=["a"]).bags.classes == ("no", "yes")


# ---------------------------------------------------------------------- mistakes


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


def of_bag(number, column, value):
    return lambda t, m: t.assign(**{column: t[column].where(t["bag"] != f"slide{number}", value)})


WRONG = {  # change of a valid table -> facts in one problem
    "no bag column": (lambda t, m: t.rename(columns={"bag": "slide"}), ("row 1", "no column bag ", "mean slide?")),
    "no features": (lambda t, m: t.drop(columns=["a", "b"]), ("row 1", "no features", "column path", "numbers")),
    "a label on some rows": (change(3, "bag_label", ""), ("row 5", "has two bag_labels", "'' here", "same value")),
    "no labels": (lambda t, m: t.assign(bag_label=""), ("no bag has a label", "to predict")),
    "empty bag name": (change(3, "bag", ""), ("row 5", "bag is empty")),
    "a very long name": (change(3, "bag", "x" * 10**6), ("row 5", "bag has 1,000,000 characters", "at most 1,000")),
    "true labels of other names": (
        lambda t, m: t.assign(label="class " + t["label"]),
        ("(class 12, class 7)", "(7, 12)"),
    ),
    "infinite": (change(4, "a", np.inf), ("row 6", "feature a is inf", "finite number")),
    "text among numbers": (change(4, "b", "o.5"), ("row 6", "feature b is 'o.5'")),
    "decimal commas": (
        lambda t, m: t.assign(b=t["b"].astype(str).str.replace(".", ",")),
        ("row 1", "column b ", "decimal commas"),
    ),
    "unknown split": (with_splits(["train", "tset"]), ("row 7", "split is 'tset'", "train, val or test")),
    "bag in two splits": (a_bag_in_two_splits, ("row 3", "bag slide0 has two splits")),
    "group in two splits": (a_group_in_two_splits, ("group p1 has two splits", "one split")),
    "class missing from a split": (
        with_splits(["train", "train", "val", "train", "test", "test"]),
        ("class 12 has no bag in split val", "move a bag of it to val"),
    ),
    "x without y": (lambda t, m: t.assign(x=1), ("row 1", "only one of the columns x and y", "both x and y")),
    "x beyond all numbers": (lambda t, m: change(0, "x", "9" * 400)(t.assign(x=1, y=2), m), ("row 2", "x is 999")),
    "weight of 0": (lambda t, m: change(0, "weight", 0)(t.assign(weight=1), m), ("row 2", "weight is 0", "above 0")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_table_is_refused_with_its_place(tmp_path, make, finds, wrong):
    edit, facts = WRONG[wrong]
    assert finds(edit(make.table(), make), str(tmp_path / "bags.csv"), *facts)
    with pytest.raises(InputError):
        load_source(tmp_path / "bags.csv").make_parts()


def test_lists_in_parquet_are_a_problem_where_they_are_needed(tmp_path, make, finds):
    for name in ("label", "x"):
        table = make.table().assign(x=1.0, y=1.0)
        table[name] = [["a", "b"]] * len(table)
        table.to_parquet(tmp_path / "bags.parquet")
        assert finds(tmp_path / "bags.parquet", "row 1", f"column {name} contains ")


BAD_FILES = {
    b"": ("no rows", "header"),
    b"bag,bag_label,a\n": ("no rows",),
    b"sep=;\nbag;bag_label;a\n1;x;2\n": ("sep=", "remove this line"),
    b"bag,bag,a\n1,x,2\n": ("row 1", "two columns are named 'bag'"),
    b"bag,bag_label,a\n1,x,2\n1,x,2,3\n": ("line 3", "saw 4"),
    b"bag,bag_label,a\n1,x,2,3\n1,x,2,3\n": ("row 2 has 4 cells", "header 3"),
    "bag,bag_label,höhe\n1,x,2\n".encode("cp1252"): ("as UTF-8", "commas, semicolons or tabs"),
    bytes(range(256)): ("cannot be read as CSV",),
    b'bag,bag_label,a\n1,x,"2\n': ("cannot be read as CSV",),
}


@pytest.mark.parametrize("content", BAD_FILES)
def test_files_that_are_not_tables(tmp_path, finds, content):
    (tmp_path / "own.csv").write_bytes(content)
    assert finds(tmp_path / "own.csv", "own.csv", *BAD_FILES[content])
    (tmp_path / "own.parquet").write_bytes(content)
    assert finds(tmp_path / "own.parquet", "own.parquet", "cannot be read as PARQUET")


def test_text_in_parquet_that_is_not_utf8_is_one_problem(tmp_path, make, finds):
    make.table().assign(bag_label="tumöur").to_parquet(tmp_path / "bags.parquet", compression=None)
    content = (tmp_path / "bags.parquet").read_bytes()
    (tmp_path / "bags.parquet").write_bytes(content.replace("ö".encode(), b"\xff\xfe"))
    assert finds(tmp_path / "bags.parquet", "UTF8", "save it again")


def test_all_problems_are_listed_by_cause(tmp_path, majority, refused):
    rows = 2000
    table = pd.DataFrame({"bag": np.arange(rows) // 10, "bag_label": np.arange(rows) // 10 % 2, "a": 1.0, "b": 0.5})
    table = table.assign(x="left", y=np.arange(rows))
    table.loc[::2, "a"] = np.inf
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, err = majority("check", tmp_path / "bags.csv")
    assert (code, err) == (1, "")
    assert out.count("problem: ") == 2
    assert "rows 2, 4, 6, 8, 10, ..., 1992, 1994, 1996, 1998, 2000: feature a is inf (1,000 times)" in out
    assert "rows 2 to 2001: x is left (2,000 times)" in out
    assert "\n3,000 problems, " in out
    assert "has 3,000 problems" in refused("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------- possible mistakes

POSSIBLE = {  # change of a valid table of 40 bags -> facts in one warning
    "repeated rows": (lambda t, m: pd.concat([t, t.iloc[[2, 4]]]), ("bag: 2, ", "row 202", "same as row 4")),
    "spellings": (
        lambda t, m: t.assign(bag_label=m.column(t, ["oak", "elm", "Oak", "elm"]), label=""),
        ("'Oak' and 'oak'", "classes", "differ only in spelling"),
    ),
    "a name of a missing value": (
        lambda t, m: t.assign(bag_label=m.column(t, ["7", "12", "nan", "12"]), label=""),
        ("nan is used as the name of a class", "leave these cells empty"),
    ),
    "no label": (of_bag(3, "bag_label", ""), ("1 of 40 bags have no label", "slide3")),
    "another label than the most common class": (
        of_bag(3, "label", "7"),
        ("most common true class: 1", "slide3"),
    ),
    "bags with one row": (
        lambda t, m: t.assign(slide=t["bag"], bag=range(200)),
        ("every bag has one row", "column slide looks like the bag", "--bag-column"),
    ),
    "few bags": (
        lambda t, m: t[~t["bag"].isin([f"slide{i}" for i in range(1, 24, 2)])],
        ("12 (8 bags)", "fewer than ten"),
    ),
    "a column that is almost split": (
        lambda t, m: t.assign(Split="train"),
        ("column Split is not used", "like the column split"),
    ),
    "labels of instances that would be a feature": (
        lambda t, m: t.rename(columns={"label": "Lable"}),
        ("column Lable is not used", "like the column label", "--features"),
    ),
}


@pytest.mark.parametrize("possible", POSSIBLE)
def test_a_possible_mistake_is_a_warning(make, finds, possible):
    edit, facts = POSSIBLE[possible]
    table = make.table(bags=40)
    assert finds(table, kind="warning")
    assert finds(edit(table, make), *facts, kind="warning")


def test_for_predict_no_labels_are_needed_and_nothing_about_training_is_warned_of(make, finds):
    table = make.table(bags=6)
    assert finds(table, "fewer than ten", kind="warning")
    for other in (table, table.assign(bag_label=""), table.drop(columns=["bag_label", "label"])):
        assert finds(other, purpose="predict")
        assert finds(other, kind="warning", purpose="predict")


def test_the_summary_of_check(tmp_path, majority, refused, succeeds, make):
    table = make.table()
    table["group"] = make.column(table, ["p1", "p2", "p3", "p4", "p5", "p6"])
    table.rename(columns={"a": "a [/km2]"}).to_csv(tmp_path / "bags.csv", index=False)
    out = succeeds("check", tmp_path / "bags.csv")
    facts = ("150 vectors", "5 to 5, median 5", "7 (15 bags), 12 (15 bags)", "60/20/20", "60% to 60%")
    for fact in (*facts, "0.0% of 30 bags", "2 columns: a [/km2], b", "0 problems, 0 warnings"):
        assert fact in out
    assert "1,797" in majority("check", "digits")[1]
    refused("check", "digits", "--bag-column", "b")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--scenario", "small"), ("scenario is not for bags of your own", "leave it out")),
        (("--features", "nose"), ("column nose of --features is not there", "(a, b)")),
        (("--image-size", "8"), ("--image-size 8", "vectors", "leave it out")),
    ],
)
def test_options_that_do_not_apply(tmp_path, refused, make, says, words, facts):
    make.table().to_csv(tmp_path / "bags.csv", index=False)
    err = refused("train", tmp_path / "bags.csv", *TRAIN, "--out", tmp_path / "run", *words)
    assert says(err, *facts)


def test_a_link_to_itself(tmp_path, refused):
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert "there is no file" in refused("check", tmp_path / "loop.csv")
