"""Which columns of a manifest become features, and the warnings about the others."""

import datetime

import numpy as np
import pandas as pd
import pytest

from majority import load_source
from majority.io.custom import ReadOptions
from majority.io.custom.load import load_custom

CONSTANT = "the same in all rows of each bag"


def test_a_column_that_identifies_the_bag_is_warned_of_by_check_and_train(tmp_path, majority, check, make, says):
    table, place = make.table(), tmp_path / "bags.csv"
    table["patient_id"] = make.column(table, list(range(100, 130)))
    table.to_csv(place, index=False)
    facts = ("warning: column patient_id ", CONSTANT, "--features a,b")
    code, out = check(place)
    assert code == 0
    assert says(out, *facts)
    assert says(majority("train", place, "--recipe", "quick", "--epochs", 1, "--out", tmp_path / "run")[1], *facts)
    code, out = check(place, "--features", "a,b")
    assert "0 problems, 0 warnings" in out
    table.assign(cohort=make.column(table, [1, 2, 3])).to_csv(place, index=False)
    assert says(check(place)[1], "columns patient_id, cohort ", CONSTANT)


@pytest.mark.parametrize(
    "harmless",
    [
        lambda make: make.table(bags=40, size=1),
        lambda make: make.table(version=3),
        lambda make: make.table().assign(rare=lambda t: (t["bag"] == "slide3") & (t.index == 15)),
        lambda make: make.table(bags=20, size=2).assign(rare=lambda t: (t["bag"] == "slide3") * 1),
    ],
    ids=["bags of one", "one value in the file", "rare, and not constant", "rare, and constant by chance"],
)
def test_columns_that_are_constant_within_bags_by_chance_are_not_warned_of(tmp_path, check, make, harmless):
    harmless(make).to_csv(tmp_path / "bags.csv", index=False)
    code, out = check(tmp_path / "bags.csv")
    assert code == 0
    assert CONSTANT not in out


def test_dates_are_left_out_and_booleans_are_numbers(tmp_path, check, make, says):
    table, place = make.table(), tmp_path / "bags.parquet"
    table["stained"] = np.arange(len(table)) % 3 == 0
    table["scanned"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(table)) ** 2, "h")
    table["day"] = datetime.date(2020, 1, 1)
    table["vector"] = [np.ones(3)] * len(table)
    table["remark"] = None
    table.to_parquet(place)
    source = load_source(place)
    assert source.columns == ("a", "b", "stained")
    assert np.array_equal(source.bags.store[:, 2], table["stained"])
    code, out = check(place)
    assert code == 0
    assert says(out, "warning: columns scanned, day ", "not used", "dates or times")
    assert says(out, "warning: column remark ", "not used", "nothing")
    assert says(out, "warning: column vector ", "not used", "lists", "one column per number")
    code, out = check(place, "--features", "a,scanned")
    assert code == 1
    assert says(out, "column scanned ", "dates or times", "--features", "(a, b")


@pytest.mark.parametrize(
    ("cells", "example"),
    [(["<0.1", "n/a"], "row 2 is '<0.1'"), ([None, "?"], "row 3 is '?'"), ([None, None], "row 2 is empty")],
)
def test_a_column_with_too_few_numbers_is_reported_with_their_share(tmp_path, check, make, says, cells, example):
    place, table = tmp_path / "bags.csv", make.table(bags=20)
    table.assign(dose=np.resize([*cells, "1.5", *cells], len(table))).to_csv(place, index=False)
    facts = ("column dose ", "20 of 100 cells", example)
    code, out = check(place)
    assert code == 0
    assert says(out, "warning: ", *facts)
    code, out = check(place, "--features", "a,dose")
    assert code == 1
    assert says(out, "problem: ", *facts, "--features", "(a, b")


def test_columns_with_too_few_numbers_are_one_warning(tmp_path, check, make):
    table = make.table(bags=20)
    for number in range(30):
        table[f"dose{number}"] = np.where(np.arange(len(table)) % 7 < number % 3, "1.5", "n/a or none")
    table.to_csv(tmp_path / "bags.csv", index=False)
    _, out = check(tmp_path / "bags.csv")
    assert out.count("too few numbers") == 1
    assert out.count("not used") == 2  # the other columns are text


def test_booleans_of_a_csv_with_an_empty_cell(tmp_path, check, make, says):
    table = make.table(bags=20)
    table["stained"] = (np.arange(len(table)) % 3 == 0).astype(object)
    for cell in (None, "NA"):
        table.loc[7, "stained"] = cell
        table.to_csv(tmp_path / "bags.csv", index=False)
        assert says(check(tmp_path / "bags.csv")[1], "row 9", "feature stained is empty, NaN or NA")


def test_a_column_after_many_numbered_ones_is_shown(tmp_path, check, make):
    table, rng = make.table().drop(columns=["a", "b"]), np.random.default_rng(0)
    many = pd.DataFrame(rng.normal(size=(len(table), 64)), columns=[f"f{i:02}" for i in range(64)])
    pd.concat([table, many.assign(age=rng.normal(size=len(table)))], axis=1).to_csv(tmp_path / "a.csv", index=False)
    assert "65 columns: f00 to f63, age" in check(tmp_path / "a.csv")[1]
    unlike = many.rename(columns=lambda name: name[1:] + "pixels")
    pd.concat([table, unlike], axis=1).to_csv(tmp_path / "b.csv", index=False)
    cells = " ".join(check(tmp_path / "b.csv")[1].split()).replace("│ │ │ ", "")
    assert "64 columns: 00pixels, 01pixels, 02pixels, 03pixels, 04pixels, ..., 59pixels" in cells


def test_a_column_without_a_name_is_named_by_its_number(tmp_path, check, make):
    make.table().to_csv(tmp_path / "bags.csv")  # with the index
    out = check(tmp_path / "bags.csv")[1]
    assert "3 columns: unnamed1, a, b" in out
    assert "column unnamed1 numbers the rows" in out


def test_row_numbers_of_shuffled_rows_are_warned_of(tmp_path, check, make, says):
    table = make.table().assign(id=lambda t: 1000 + np.arange(len(t)))
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "bags.csv", index=False)
    assert says(check(tmp_path / "bags.csv")[1], "warning: column id ", "numbers the rows", "--features")


def test_sorted_ids_with_gaps_are_warned_of(tmp_path, check, make, says):
    table, place, rng = make.table(), tmp_path / "bags.csv", np.random.default_rng(0)
    gaps = np.cumsum(rng.integers(1, 9, len(table)))
    table.assign(nr=5000 + gaps).to_csv(place, index=False)
    assert says(check(place)[1], "warning: column nr ", "increases from row to row", "--features")
    features = {
        "a sum of pixels": rng.permutation(gaps * 1000),
        "a position within the bag": gaps % 100,
        "a count": rng.poisson(40, len(table)),
        "a measurement by which rows are sorted": np.sort(rng.normal(size=len(table))),
        "a code by which rows are sorted": np.sort(rng.integers(0, 5, len(table))),
    }
    for kind, numbers in features.items():
        table.assign(nr=numbers).to_csv(place, index=False)
        assert "0 problems, 0 warnings" in check(place)[1], kind


def test_a_column_of_images_under_another_name(tmp_path, check, make, says):
    table = make.table().assign(Image="a.png")
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert says(check(tmp_path / "bags.csv")[1], "column Image ", "not used", "text", "rename it to path")
    table.drop(columns=["a", "b"]).to_csv(tmp_path / "bags.csv", index=False)
    code, out = check(tmp_path / "bags.csv")
    assert code == 1
    assert says(out, "row 1", "no features", "rename the column Image to path", "columns of numbers")


def test_columns_besides_images_are_not_used(tmp_path, check, make, says):
    table, place = make.images(tmp_path, bags=20), tmp_path / "bags.csv"
    table.assign(age=range(60)).to_csv(place, index=False)
    assert says(check(place)[1], "warning: column age ", "not used", "column path")
    table.assign(age=range(60), site="north").to_csv(place, index=False)
    assert says(check(place)[1], "warning: columns age, site ", "not used", "column path")


def test_options_that_do_not_apply_are_refused(tmp_path, majority, make, says):
    make.table().to_csv(tmp_path / "vectors.csv", index=False)
    make.images(tmp_path).to_csv(tmp_path / "images.csv", index=False)
    make.folder(tmp_path / "slides")
    for source, words, content in [
        ("vectors.csv", ["--image-size", 8], "vectors"),
        ("images.csv", ["--features", "a,b"], "images"),
        ("slides", ["--image-size", 8], "vectors"),
        ("slides", ["--features", "a"], "vectors in files"),
    ]:
        place = tmp_path / source
        for command in (["check", place], ["train", place, "--out", tmp_path / "run"]):
            code, _, err = majority(*command, *words)
            assert code == 2
            assert says(err, f"{words[0]} {words[1]} ", str(place), content, "leave it out")
    assert not (tmp_path / "run").exists()


def test_images_for_a_run_of_vectors_and_vice_versa(tmp_path, majority, make, says):
    make.table().to_csv(tmp_path / "vectors.csv", index=False)
    make.images(tmp_path, bags=20).to_csv(tmp_path / "images.csv", index=False)
    for kind in ("vectors", "images"):
        words = ("--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", tmp_path / f"run-{kind}")
        assert majority("train", tmp_path / f"{kind}.csv", *words)[0] == 0
    for run, source, cure in [("vectors", "images.csv", "columns a, b"), ("images", "vectors.csv", "column path")]:
        code, _, err = majority("predict", tmp_path / f"run-{run}", tmp_path / source, "--out", tmp_path / "p.csv")
        assert code == 2
        assert says(err, f"the run classifies {run}", str(tmp_path / source), cure)


def other_tables(table):
    """Tables for a run of the features a, b and age, and the facts of the message about each."""
    trained = "the run was trained on a, b, age"
    yield table.drop(columns="age"), ("row 1", "no column age", trained, "add the column")
    yield table.rename(columns={"age": "Age"}), ("row 1", "no column age", "mean Age?", trained, "add the column")
    yield table.assign(age="old"), ("row 1", "column age ", "text", trained, "write numbers")
    gap = table.copy()
    gap.loc[3, "age"] = None
    yield gap, ("row 5", "feature age is empty, NaN or NA", "leave the row out")


def test_missing_features_of_a_run_are_reported_with_its_features(tmp_path, majority, make, says):
    table, run = make.table(), tmp_path / "run"
    table["age"] = np.random.default_rng(0).normal(size=len(table))
    table.to_csv(tmp_path / "bags.csv", index=False)
    words = ("--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", run)
    assert majority("train", tmp_path / "bags.csv", *words)[0] == 0
    for other, facts in other_tables(table):
        other.to_csv(tmp_path / "new.csv", index=False)
        for command in (
            ["predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv"],
            ["evaluate", run, tmp_path / "new.csv"],
        ):
            code, _, err = majority(*command)
            assert code == 2
            assert "new.csv has a problem:\n" in err
            assert says(err, f"{tmp_path / 'new.csv'}, ", *facts)
    table[["bag", "bag_label"]].to_csv(tmp_path / "new.csv", index=False)
    code, _, err = majority("evaluate", run, tmp_path / "new.csv")
    assert code == 2
    assert "new.csv has 3 problems:" in err
    assert "there are no features" not in err


def test_a_name_with_a_comma_needs_quotes(tmp_path, check, make, says):
    table, place = make.table().rename(columns={"a": "Höhe, cm"}), tmp_path / "bags.csv"
    table["patient_id"] = make.column(table, list(range(100, 130)))
    table.to_csv(place, index=False)
    code, out = check(place)
    assert says(out, "warning: column patient_id ", "--features '\"Höhe, cm\",b'")
    code, out = check(place, "--features", '"Höhe, cm", b')
    assert code == 0
    assert says(out, "features ", "2 columns: Höhe, cm, b")
    code, out = check(place, "--features", "Höhe, cm,b")
    assert code == 1
    for piece in ("Höhe", "cm"):
        assert says(out, f"no column {piece},", "quotes", "--features '\"Höhe, cm\"'")


def test_a_misspelt_feature(tmp_path, check, make, says):
    make.table(site="north").rename(columns={"a": "Age"}).to_csv(tmp_path / "bags.csv", index=False)
    _, out = check(tmp_path / "bags.csv", "--features", "age,site")
    assert says(out, "no column age (did you mean Age?)", "--features", "(Age, b, site)")
    assert says(out, "column site ", "text", "--features", "(Age, b)")
    assert "there are no features" not in out


@pytest.mark.parametrize("index", [["bag"], ["bag", "bag_label"], [], ["label", "a"]])
def test_an_index_in_a_parquet_file_becomes_columns(tmp_path, make, index):
    table = make.table()
    table.to_parquet(tmp_path / "plain.parquet")
    (table.set_index(index) if index else table[::-1][::-1]).to_parquet(tmp_path / "bags.parquet")
    plain, source = (load_source(tmp_path / f"{name}.parquet") for name in ("plain", "bags"))
    assert source.columns == ("a", "b")
    assert source.bags.fingerprint() == plain.bags.fingerprint()


@pytest.mark.parametrize(("offset", "dtype"), [(0, "float32"), (2_460_000, "float64"), (1_714_546_800, "float64")])
def test_small_differences_of_large_numbers_are_kept(tmp_path, make, offset, dtype):
    """For example Julian dates, or seconds since 1970."""
    table = make.table()
    part = np.random.default_rng(0).uniform(0, 1, len(table)).round(4)
    table.assign(a=part + offset).to_csv(tmp_path / "bags.csv", index=False)
    store = load_source(tmp_path / "bags.csv").bags.store
    assert store.dtype == dtype
    np.testing.assert_allclose(store[:, 0] - offset, part, atol=1e-6)


def test_an_index_that_is_also_a_column_or_counts_rows_adds_no_column(tmp_path, make):
    table = make.table()
    table.to_parquet(tmp_path / "plain.parquet")
    table.set_index("bag", drop=False).to_parquet(tmp_path / "both.parquet")
    table.rename_axis("row").to_parquet(tmp_path / "counted.parquet")
    columns = {name: load_source(tmp_path / f"{name}.parquet").columns for name in ("plain", "both", "counted")}
    assert len({*columns.values()}) == 1, columns


def test_lists_instead_of_names_are_a_problem(tmp_path, majority, make, says):
    make.table().assign(label=lambda table: [["a", "b"]] * len(table)).to_parquet(tmp_path / "bags.parquet")
    code, out, err = majority("check", tmp_path / "bags.parquet")
    assert (code, err) == (1, "")
    assert says(out, "row 1", "column label ", "lists", "one name")


def test_lists_instead_of_coordinates_are_a_problem(tmp_path, majority, make, says):
    make.table().assign(x=lambda table: [[1, 2]] * len(table), y=1.0).to_parquet(tmp_path / "bags.parquet")
    code, out, err = majority("check", tmp_path / "bags.parquet")
    assert (code, err) == (1, "")
    assert says(out, "bags.parquet", "column x ", "lists", "remove the columns x and y")


def test_a_constant_large_number_needs_no_double_precision(tmp_path, make):
    make.table().assign(day=20_240_501).to_csv(tmp_path / "bags.csv", index=False)
    assert load_source(tmp_path / "bags.csv").bags.store.dtype == "float32"


def test_a_column_with_half_numbers_is_a_feature_with_mistakes(tmp_path, check, make, says):
    table = make.table(bags=10, size=4)
    table.assign(c=[1.5, "x"] * 20).to_csv(tmp_path / "bags.csv", index=False)
    code, out = check(tmp_path / "bags.csv")
    assert code == 1
    assert says(out, "rows 3, 5, 7", "feature c is 'x' (20 times)", "finite number")


def test_a_table_for_a_run_is_read_in_double_precision(tmp_path, make):
    """The training data may have needed it, even if these rows do not."""
    make.table().assign(a=1_714_546_801).to_csv(tmp_path / "bags.csv", index=False)
    options = ReadOptions(labels=False, training=False, classes=("7", "12"), features=("a", "b"))
    assert {*load_custom(tmp_path / "bags.csv", options).bags.store[:, 0].tolist()} == {1_714_546_801}


def test_coordinates_follow_their_rows(tmp_path, make):
    table = make.table(bags=10, size=4).assign(x=range(40), y=range(100, 140))
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "bags.csv", index=False)
    bags = load_source(tmp_path / "bags.csv").bags
    x, y = bags.coordinates.T
    np.testing.assert_allclose(bags.instances()[:, 0], table["a"][x], rtol=1e-6)
    assert (y - x == 100).all()


def test_names_that_parquet_stores_as_bytes_are_read_as_text(tmp_path, make):
    table = make.table().assign(bag_label=lambda t: t["bag_label"] + " ä")
    for name in ("bag", "bag_label"):
        table[name] = table[name].str.encode("utf-8")
    table.drop(columns="label").to_parquet(tmp_path / "bags.parquet")
    bags = load_source(tmp_path / "bags.parquet").bags
    assert bags.classes == ("12 ä", "7 ä")
    assert bags.names[:2].tolist() == ["slide0", "slide1"]


def test_text_in_parquet_that_is_not_utf8_is_one_problem(tmp_path, check, make, says):
    make.table().assign(bag_label="tumöur").to_parquet(tmp_path / "bags.parquet", compression=None)
    content = (tmp_path / "bags.parquet").read_bytes()
    (tmp_path / "bags.parquet").write_bytes(content.replace("ö".encode(), b"\xff\xfe"))
    code, out = check(tmp_path / "bags.parquet")
    assert code == 1
    assert says(out, "bags.parquet", "UTF8", "save it again")


def test_half_precision_columns_are_features(tmp_path, check, make, says):
    table = make.table().assign(c=lambda table: table["a"].astype(np.float16))
    table.loc[1] = table.loc[0]
    table.to_parquet(tmp_path / "bags.parquet")
    code, out = check(tmp_path / "bags.parquet")
    assert code == 0
    assert says(out, "warning: 1 row is ", "every cell", "row 2 as row 1")
    source = load_source(tmp_path / "bags.parquet")
    assert source.columns == ("a", "b", "c")
    np.testing.assert_array_equal(source.bags.store[:, 2], table["a"].astype(np.float16).astype(np.float32))


def test_a_code_with_leading_zeros_is_warned_of(tmp_path, check, make, says):
    rng, place = np.random.default_rng(1), tmp_path / "bags.csv"
    table = make.table().assign(customer=[f"{number:06}" for number in rng.integers(0, 200_000, 150)], share=0.5)
    table.to_csv(place, index=False)
    place.write_text(place.read_text().replace("\n", "\n\n", 2))  # blank lines have no cells
    code, out = check(place)
    assert code == 0
    assert says(out, "warning: column customer ", "leading zeros", "--features")
    assert out.count("leading zeros") == 1
    assert "leading zeros" not in check(place, "--features", "a,b")[1]
    table.assign(notes=["short", "long " * 40_000, *["short"] * 148]).to_csv(place, index=False)
    assert "0 problems" in check(place)[1]
