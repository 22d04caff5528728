"""Tables as people's spreadsheets write them: other separators, other spellings, columns left out."""

import unicodedata

import numpy as np
import pytest

from majority import load_source


def test_semicolons_and_decimal_commas_of_a_spreadsheet_are_read(tmp_path, make):
    table = make.table()
    table.to_csv(tmp_path / "commas.csv", index=False)
    table.to_csv(tmp_path / "points.csv", index=False, sep=";")
    table.to_csv(tmp_path / "semicolons.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    plain, *others = (load_source(tmp_path / f"{name}.csv").bags for name in ("commas", "points", "semicolons"))
    for bags in others:
        assert np.array_equal(bags.store, plain.store)
        assert bags.classes == plain.classes


def test_a_spreadsheet_of_another_encoding_may_keep_its_semicolons(tmp_path, majority, make):
    make.table(höhe=1).to_csv(tmp_path / "bags.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert "): save it again as UTF-8, with commas or semicolons" in out


@pytest.mark.parametrize(
    ("separator", "name"), [(";", "height, cm"), (";", "N, P, K, Ca, Mg, Na"), (",", "a; b; c; d; e; f; g")]
)
def test_a_name_may_hold_what_separates_other_tables(tmp_path, make, separator, name):
    table = make.table().drop(columns="label").rename(columns={"a": name})
    text = table.to_csv(index=False, sep=separator, decimal="," if separator == ";" else ".")
    (tmp_path / "bags.csv").write_text(text.replace(f'"{name}"', name), encoding="utf-8-sig")
    bags = load_source(tmp_path / "bags.csv").bags
    assert np.allclose(bags.store, table[[name, "b"]])


@pytest.mark.parametrize("features", [(), ("--features", "a,b")])
def test_decimal_commas_are_one_problem_a_column_and_hide_no_other(tmp_path, majority, make, features):
    table = make.table(bags=4)
    for name in ("a", "b"):
        table[name] = table[name].astype(str).str.replace(".", ",")
    table.loc[3, "b"] = None
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv", *features)
    assert code == 1
    for name in ("a", "b"):
        assert f"row 1: column {name} has decimal commas: write points: 1.5, not 1,5" in out
    assert "row 5: feature b is empty or NaN" in out
    assert "\n3 problems, " in out


THOUSANDS = "column pop has thousands separators: write 1234.5, not 1,234.5 or 1.234,5"
EITHER = (
    "column pop has thousands separators or decimal commas, as in 1,001: write 1001 if it is a thousand, 1.001 if not"
)


@pytest.mark.parametrize(
    ("cells", "separator", "message"),
    [
        (("1,001", "2,500", "875"), ",", EITHER),
        (("875", "1,001", "-12,345"), ",", EITHER),
        (("1,001", "2,500,000", "875"), ",", THOUSANDS),
        (("1,001", "2,500.25", "875"), ",", THOUSANDS),
        (("1,001", "0,123", "875"), ",", "column pop has decimal commas: write points: 1.5, not 1,5"),
        (("1,001", "2,25", "875"), ",", "column pop has decimal commas: write points: 1.5, not 1,5"),
        (("1.234,56", "2,25", "875"), ",", THOUSANDS),
        (("1.234,56", "-12,25", "1.000"), ";", THOUSANDS),
        (("1.234.567", "2.000", "875"), ";", THOUSANDS),
        (("1,234,567", "2,000", "875"), ";", THOUSANDS),
    ],
)
@pytest.mark.parametrize("features", [(), ("--features", "a,pop")])
def test_thousands_separators_are_a_problem_whose_cure_changes_no_number(
    tmp_path, majority, make, cells, separator, message, features
):
    table = make.table()
    table["pop"] = np.resize(cells, len(table))
    table.to_csv(tmp_path / "bags.csv", index=False, sep=separator)
    code, out, _ = majority("check", tmp_path / "bags.csv", *features)
    assert code == 1
    assert f"row 1: {message}\n" in out
    assert "\n1 problem, " in out


def test_text_of_plain_numbers_has_no_separators(tmp_path, make):
    table = make.table()
    table["pop"] = np.resize(["1.234", "2.345"], len(table))
    table.to_parquet(tmp_path / "bags.parquet")
    assert load_source(tmp_path / "bags.parquet").bags.store[:2, 2].tolist() == pytest.approx([1.234, 2.345])


def test_names_that_differ_in_capitals_or_blanks_alone_are_warned_of(tmp_path, majority, make):
    table = make.table(bags=40)
    table["bag_label"] = make.column(table, ["tumour", "stroma", "Tumour", "STROMA"])
    table["group"] = make.column(table, [f"case {number}" for number in range(5)])
    table.loc[table["bag"] == "slide39", "group"] = "case  4"
    table.loc[0, "bag"] = "Slide0"
    table.drop(columns="label").to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    alone = "differ in capitals or blanks alone"
    assert f"labels 'tumour' and 'Tumour' {alone} (and 1 more such): if they are one, write them alike" in out
    assert f"bags 'Slide0' and 'slide0' {alone}: if" in out
    assert f"groups 'case 4' and 'case  4' {alone}: if" in out


def test_one_number_written_in_two_ways_is_warned_of(tmp_path, majority, make):
    table = make.table(bags=40)
    table["bag_label"] = make.column(table, ["7", "12", "7.0", "12"])
    table["group"] = make.column(table, ["1", "01", "v1", "v1.0", "5"])
    table.drop(columns="label").to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert "labels '7' and '7.0' differ in .0 alone: if they are one, write them alike" in out
    assert "warning: groups" not in out


def test_names_in_two_unicode_forms_are_told_so_that_they_can_be_seen(tmp_path, majority, make):
    table = make.table(bags=40)
    table["group"] = make.column(table, ["Bär", unicodedata.normalize("NFD", "bär"), "c", "d", "e"])
    composed, decomposed = (unicodedata.normalize(form, "Präparat") for form in ("NFC", "NFD"))
    table["bag"] = composed + table["bag"]
    table.loc[0, "bag"] = decomposed + "slide0"
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    cure = "if they are one, write them alike, e.g. by unicodedata.normalize('NFKC', name)"
    names = r"'Pra\u0308paratslide0' and 'Pr\xe4paratslide0'"
    assert f"bags {names} differ in their Unicode form alone: {cure}" in out
    assert rf"groups 'B\xe4r' and 'ba\u0308r' differ in their Unicode form, capitals or blanks alone: {cure}" in out


@pytest.mark.parametrize("name", ["NA", "N/A", "NaN", "null", "None"])
def test_a_missing_name_is_taken_as_a_name_and_that_is_said(tmp_path, majority, make, name):
    table = make.table(bags=44)
    label = make.column(table, ["7", "12", "7", name])
    table.loc[table["bag"].isin(["slide0", "slide2"]), "bag"] = name
    table.drop(columns="label").assign(bag_label=label).to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    cure = "if it stands for a missing one, fill its cells or leave its rows out"
    assert f"warning: {name} is taken as the name of a bag: {cure}" in out
    assert f"warning: {name} is taken as the name of a class: {cure}" in out


def test_what_else_is_wrong_is_found_without_labels(tmp_path, majority, make):
    table = make.table().drop(columns="bag_label")
    table["a"] = table["a"].astype(object)
    table.loc[3, "a"] = "?"
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert (
        "there is no column bag_label: a manifest has the columns bag, bag_label, and path or numbers; `majority" in out
    )
    assert "row 5: feature a is '?'" in out


def test_bags_that_were_moved_are_told_with_their_place(tmp_path, majority, make):
    place = tmp_path / "bags.csv"
    make.table().to_csv(place, index=False)
    words = ("--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", tmp_path / "run")
    assert majority("train", place, *words)[0] == 0
    place.rename(tmp_path / "elsewhere.csv")
    code, _, err = majority("report", tmp_path / "run")
    assert code == 2
    assert f"run was trained on are not where they were: put them, or a link, at {place}\n" in err
