"""Which columns of a manifest become features, and what a user is told of the others."""

import datetime

import numpy as np
import pandas as pd
import pytest

from majority import load_source
from majority.sources.custom import ReadOptions
from majority.sources.custom.load import load_custom

TELLING = "the same in all rows of each bag"


def checked(majority, place, *words):
    code, out, err = majority("check", place, *words)
    assert err == ""
    return code, " ".join(out.split())


def test_a_column_that_tells_the_bag_is_warned_of_by_check_and_train(tmp_path, majority, make):
    table, place = make.table(), tmp_path / "bags.csv"
    table["patient_id"] = make.column(table, list(range(100, 130)))
    table.to_csv(place, index=False)
    warning = f"warning: column patient_id is {TELLING}, which tells the bag but not an instance's class: "
    code, out = checked(majority, place)
    assert code == 0
    assert f"{warning}remove, or name the other features with --features a,b" in out
    assert warning in majority("train", place, "--recipe", "quick", "--epochs", 1, "--out", tmp_path / "run")[1]
    code, out = checked(majority, place, "--features", "a,b")
    assert "0 problems, 0 warnings" in out
    table.assign(cohort=make.column(table, [1, 2, 3])).to_csv(place, index=False)
    assert f"columns patient_id, cohort are {TELLING}" in checked(majority, place)[1]


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
def test_columns_that_may_well_be_the_same_within_bags_are_not_warned_of(tmp_path, majority, make, harmless):
    harmless(make).to_csv(tmp_path / "bags.csv", index=False)
    code, out = checked(majority, tmp_path / "bags.csv")
    assert code == 0
    assert TELLING not in out


def test_dates_are_left_out_and_truth_values_are_numbers(tmp_path, majority, make):
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
    code, out = checked(majority, place)
    assert code == 0
    assert "warning: columns scanned, day are not used: they hold dates or times" in out
    assert "warning: column remark is not used: it holds nothing" in out
    assert "column vector is not used: it holds lists (write a column for each number)" in out
    code, out = checked(majority, place, "--features", "a,scanned")
    assert code == 1
    assert "column scanned holds dates or times, asked for as a feature: name other columns (a, b" in out


def test_truth_values_of_a_csv_with_an_empty_cell(tmp_path, majority, make):
    table = make.table(bags=20)
    table["stained"] = (np.arange(len(table)) % 3 == 0).astype(object)
    table.loc[7, "stained"] = None
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert "row 9: feature stained is empty or NaN" in checked(majority, tmp_path / "bags.csv")[1]


def test_a_column_appended_to_many_is_seen(tmp_path, majority, make):
    table, rng = make.table().drop(columns=["a", "b"]), np.random.default_rng(0)
    many = pd.DataFrame(rng.normal(size=(len(table), 64)), columns=[f"f{i:02}" for i in range(64)])
    pd.concat([table, many.assign(age=rng.normal(size=len(table)))], axis=1).to_csv(tmp_path / "a.csv", index=False)
    assert "65 columns: f00 to f63, age" in checked(majority, tmp_path / "a.csv")[1]
    unlike = many.rename(columns=lambda name: name[1:] + "pixels")
    pd.concat([table, unlike], axis=1).to_csv(tmp_path / "b.csv", index=False)
    assert "64 columns: 00pixels, 01pixels, 02pixels, 03pixels, 04pixels, ..., 59pixels" in checked(
        majority, tmp_path / "b.csv"
    )[1].replace("│ │ │ ", "")


def test_a_column_without_a_name_is_called_by_its_place(tmp_path, majority, make):
    make.table().to_csv(tmp_path / "bags.csv")  # with the index
    out = checked(majority, tmp_path / "bags.csv")[1]
    assert "3 columns: unnamed1, a, b" in out
    assert "column unnamed1 numbers the rows" in out


def test_rows_that_were_shuffled_keep_numbers_that_say_nothing(tmp_path, majority, make):
    table = make.table().assign(id=lambda t: 1000 + np.arange(len(t)))
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "bags.csv", index=False)
    assert (
        "warning: column id numbers the rows and is taken as a feature" in checked(majority, tmp_path / "bags.csv")[1]
    )


def test_ids_with_gaps_in_the_order_of_the_rows_are_warned_of(tmp_path, majority, make):
    table, place, rng = make.table(), tmp_path / "bags.csv", np.random.default_rng(0)
    gaps = np.cumsum(rng.integers(1, 9, len(table)))
    warning = "warning: column nr grows from row to row, as an id does, and is taken as a feature: remove it, or name"
    table.assign(nr=5000 + gaps).to_csv(place, index=False)
    assert warning in checked(majority, place)[1]
    features = {
        "a sum of pixels": rng.permutation(gaps * 1000),
        "a place within the bag": gaps % 100,
        "a count": rng.poisson(40, len(table)),
        "a measure by which rows are sorted": np.sort(rng.normal(size=len(table))),
        "a code by which rows are sorted": np.sort(rng.integers(0, 5, len(table))),
    }
    for said, numbers in features.items():
        table.assign(nr=numbers).to_csv(place, index=False)
        assert "0 problems, 0 warnings" in checked(majority, place)[1], said


def test_images_under_another_name(tmp_path, majority, make):
    table = make.table().assign(Image="a.png")
    table.to_csv(tmp_path / "bags.csv", index=False)
    out = checked(majority, tmp_path / "bags.csv")[1]
    assert "column Image is not used: it holds text (if Image names images, call it path)" in out
    table.drop(columns=["a", "b"]).to_csv(tmp_path / "bags.csv", index=False)
    code, out = checked(majority, tmp_path / "bags.csv")
    assert code == 1
    assert "row 1: there are no features: call the column Image path, if it names images, or add columns" in out


def test_columns_beside_images_are_not_used_and_that_is_said(tmp_path, majority, make):
    table, place = make.images(tmp_path, bags=20), tmp_path / "bags.csv"
    table.assign(age=range(60)).to_csv(place, index=False)
    used = "not used: the instances are the images of the column path"
    assert f"warning: column age is {used}" in checked(majority, place)[1]
    table.assign(age=range(60), site="north").to_csv(place, index=False)
    assert f"warning: columns age, site are {used}" in checked(majority, place)[1]


def test_options_that_cannot_apply_are_refused(tmp_path, majority, make):
    make.table().to_csv(tmp_path / "vectors.csv", index=False)
    make.images(tmp_path).to_csv(tmp_path / "images.csv", index=False)
    make.folder(tmp_path / "slides")
    for source, words, message in [
        ("vectors.csv", ["--image-size", 8], "--image-size 8 says how large images are to be: {} holds vectors, leave"),
        ("images.csv", ["--features", "a,b"], "--features a,b names columns of a manifest: {} holds images, leave it"),
        ("slides", ["--image-size", 8], "--image-size 8 says how large images are to be: {} holds vectors, leave it"),
        ("slides", ["--features", "a"], "--features a names columns of a manifest: {} holds vectors in files, leave"),
    ]:
        place = tmp_path / source
        for command in (["check", place], ["train", place, "--out", tmp_path / "run"]):
            code, _, err = majority(*command, *words)
            assert code == 2
            assert message.format(place) in err
    assert not (tmp_path / "run").exists()


def test_images_for_a_run_of_vectors_and_the_other_way_round(tmp_path, majority, make):
    make.table().to_csv(tmp_path / "vectors.csv", index=False)
    make.images(tmp_path, bags=20).to_csv(tmp_path / "images.csv", index=False)
    for kind in ("vectors", "images"):
        words = ("--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", tmp_path / f"run-{kind}")
        assert majority("train", tmp_path / f"{kind}.csv", *words)[0] == 0
    for run, source, message in [
        ("vectors", "images.csv", "the run classifies vectors, but {} names images: give a table with the columns "),
        ("images", "vectors.csv", "the run classifies images, but {} names none: add a column path"),
    ]:
        code, _, err = majority("predict", tmp_path / f"run-{run}", tmp_path / source, "--out", tmp_path / "p.csv")
        assert code == 2
        assert message.format(tmp_path / source) in err


def other_tables(table):
    """Tables for a run of the features a, b and age, and what is said of them."""
    trained = "the run was trained on a, b, age"
    yield table.drop(columns="age"), f"row 1: there is no column age: {trained}; add the column"
    yield table.rename(columns={"age": "Age"}), f"row 1: there is no column age (did you mean Age?): {trained}; add the"
    yield table.assign(age="old"), f"row 1: column age holds text: {trained}; write numbers into it"
    gap = table.copy()
    gap.loc[3, "age"] = None
    yield gap, "row 5: feature age is empty or NaN: write a finite number, or leave the row out"


def test_features_that_a_run_does_not_find_are_told_with_what_it_was_trained_on(tmp_path, majority, make):
    table, run = make.table(), tmp_path / "run"
    table["age"] = np.random.default_rng(0).normal(size=len(table))
    table.to_csv(tmp_path / "bags.csv", index=False)
    words = ("--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", run)
    assert majority("train", tmp_path / "bags.csv", *words)[0] == 0
    for other, message in other_tables(table):
        other.to_csv(tmp_path / "new.csv", index=False)
        for command in (
            ["predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv"],
            ["evaluate", run, tmp_path / "new.csv"],
        ):
            code, _, err = majority(*command)
            assert code == 2
            assert f"new.csv has a problem:\n  {tmp_path / 'new.csv'}, {message}" in err
    table[["bag", "bag_label"]].to_csv(tmp_path / "new.csv", index=False)
    code, _, err = majority("evaluate", run, tmp_path / "new.csv")
    assert code == 2
    assert "new.csv has 3 problems:" in err
    assert "there are no features" not in err


def test_a_name_with_a_comma_is_asked_for_in_quotes(tmp_path, majority, make):
    table, place = make.table().rename(columns={"a": "Höhe, cm"}), tmp_path / "bags.csv"
    table["patient_id"] = make.column(table, list(range(100, 130)))
    table.to_csv(place, index=False)
    code, out = checked(majority, place)
    assert "name the other features with --features '\"Höhe, cm\",b'" in out
    code, out = checked(majority, place, "--features", '"Höhe, cm", b')
    assert (code, "features │ 2 columns: Höhe, cm, b" in out) == (0, True)
    code, out = checked(majority, place, "--features", "Höhe, cm,b")
    assert code == 1
    for piece in ("Höhe", "cm"):
        asked = f"there is no column {piece}, asked for as a feature"
        assert f"{asked}: a name with a comma stands in quotes: --features '\"Höhe, cm\"'" in out


def test_features_asked_for_by_a_name_that_is_nearly_right(tmp_path, majority, make):
    make.table(site="north").rename(columns={"a": "Age"}).to_csv(tmp_path / "bags.csv", index=False)
    _, out = checked(majority, tmp_path / "bags.csv", "--features", "age,site")
    assert (
        "there is no column age (did you mean Age?), asked for as a feature: name other columns (Age, b, site)" in out
    )
    assert "column site holds text, asked for as a feature: name other columns (Age, b)" in out
    assert "there are no features" not in out


@pytest.mark.parametrize("index", [["bag"], ["bag", "bag_label"], [], ["label", "a"]])
def test_an_index_of_pandas_in_parquet_is_columns_as_it_is_in_the_file(tmp_path, make, index):
    table = make.table()
    table.to_parquet(tmp_path / "plain.parquet")
    (table.set_index(index) if index else table[::-1][::-1]).to_parquet(tmp_path / "bags.parquet")
    plain, source = (load_source(tmp_path / f"{name}.parquet") for name in ("plain", "bags"))
    assert source.columns == ("a", "b")
    assert source.bags.fingerprint() == plain.bags.fingerprint()


@pytest.mark.parametrize(("offset", "dtype"), [(0, "float32"), (2_460_000, "float64"), (1_714_546_800, "float64")])
def test_small_differences_of_large_numbers_are_kept(tmp_path, make, offset, dtype):
    """Such as Julian dates, or seconds since 1970."""
    table = make.table()
    part = np.random.default_rng(0).uniform(0, 1, len(table)).round(4)
    table.assign(a=part + offset).to_csv(tmp_path / "bags.csv", index=False)
    store = load_source(tmp_path / "bags.csv").bags.store
    assert store.dtype == dtype
    np.testing.assert_allclose(store[:, 0] - offset, part, atol=1e-6)


def test_an_index_that_is_a_column_too_or_counts_rows_is_no_further_one(tmp_path, make):
    table = make.table()
    table.to_parquet(tmp_path / "plain.parquet")
    table.set_index("bag", drop=False).to_parquet(tmp_path / "both.parquet")
    table.rename_axis("row").to_parquet(tmp_path / "counted.parquet")
    columns = {name: load_source(tmp_path / f"{name}.parquet").columns for name in ("plain", "both", "counted")}
    assert len({*columns.values()}) == 1, columns


def test_lists_in_the_place_of_names_are_a_problem(tmp_path, majority, make):
    make.table().assign(label=lambda table: [["a", "b"]] * len(table)).to_parquet(tmp_path / "bags.parquet")
    code, out, err = majority("check", tmp_path / "bags.parquet")
    assert (code, err) == (1, "")
    assert "row 1: column label holds lists: write one name into each cell" in out


def test_lists_in_the_place_of_coordinates_are_a_problem(tmp_path, majority, make):
    make.table().assign(x=lambda table: [[1, 2]] * len(table), y=1.0).to_parquet(tmp_path / "bags.parquet")
    code, out, err = majority("check", tmp_path / "bags.parquet")
    assert (code, err) == (1, "")
    assert "bags.parquet: column x holds lists: write a number, or remove the columns x and y" in out


def test_a_large_number_that_all_rows_share_asks_for_no_more_digits(tmp_path, make):
    make.table().assign(day=20_240_501).to_csv(tmp_path / "bags.csv", index=False)
    assert load_source(tmp_path / "bags.csv").bags.store.dtype == "float32"


def test_a_column_half_of_which_are_numbers_is_one_of_numbers_with_mistakes(tmp_path, majority, make):
    table = make.table(bags=10, size=4)
    table.assign(c=[1.5, "x"] * 20).to_csv(tmp_path / "bags.csv", index=False)
    code, out = checked(majority, tmp_path / "bags.csv")
    assert (code, "row 3: feature c is 'x': write a finite number" in out) == (1, True)


def test_a_table_for_a_run_has_all_its_digits_whatever_its_rows(tmp_path, make):
    """In training they may have been needed, where these rows alone do not ask for them."""
    make.table().assign(a=1_714_546_801).to_csv(tmp_path / "bags.csv", index=False)
    of_run = ReadOptions(labels=False, training=False, classes=("7", "12"), features=("a", "b"))
    assert {*load_custom(tmp_path / "bags.csv", of_run).bags.store[:, 0].tolist()} == {1_714_546_801}


def test_coordinates_are_those_of_their_rows_in_any_order_of_rows(tmp_path, make):
    table = make.table(bags=10, size=4).assign(x=range(40), y=range(100, 140))
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "bags.csv", index=False)
    bags = load_source(tmp_path / "bags.csv").bags
    x, y = bags.coordinates.T
    np.testing.assert_allclose(bags.instances()[:, 0], table["a"][x], rtol=1e-6)
    assert (y - x == 100).all()


def test_names_that_parquet_holds_as_bytes_are_their_text(tmp_path, make):
    table = make.table().assign(bag_label=lambda t: t["bag_label"] + " ä")
    for name in ("bag", "bag_label"):
        table[name] = table[name].str.encode("utf-8")
    table.drop(columns="label").to_parquet(tmp_path / "bags.parquet")
    bags = load_source(tmp_path / "bags.parquet").bags
    assert bags.classes == ("12 ä", "7 ä")
    assert bags.names[:2].tolist() == ["slide0", "slide1"]


def test_halves_in_parquet_are_numbers_as_others_are(tmp_path, majority, make):
    table = make.table().assign(c=lambda table: table["a"].astype(np.float16))
    table.loc[1] = table.loc[0]
    table.to_parquet(tmp_path / "bags.parquet")
    code, out = checked(majority, tmp_path / "bags.parquet")
    assert code == 0
    assert "1 row is the same as another of the bag in every cell" in out
    source = load_source(tmp_path / "bags.parquet")
    assert source.columns == ("a", "b", "c")
    np.testing.assert_array_equal(source.bags.store[:, 2], table["a"].astype(np.float16).astype(np.float32))


def test_a_code_with_leading_zeros_is_warned_of(tmp_path, majority, make):
    rng, place = np.random.default_rng(1), tmp_path / "bags.csv"
    table = make.table().assign(customer=[f"{number:06}" for number in rng.integers(0, 200_000, 150)], share=0.5)
    table.to_csv(place, index=False)
    place.write_text(place.read_text().replace("\n", "\n\n", 2))  # blank lines have no cells
    code, out = checked(majority, place)
    assert code == 0
    cure = "and is taken as a feature: remove it, or name --features"
    assert f"column customer is written with leading zeros, as a code is, {cure}" in out
    assert out.count("leading zeros") == 1
    assert "leading zeros" not in checked(majority, place, "--features", "a,b")[1]
    table.assign(notes=["short", "long " * 40_000, *["short"] * 148]).to_csv(place, index=False)
    assert "0 problems" in checked(majority, place)[1]
