"""Tables as spreadsheet programs write them: other separators, other spellings, missing columns."""

import unicodedata

import numpy as np
import pytest

from majority import load_source


def test_semicolons_and_decimal_commas_are_read(tmp_path, make):
    table = make.table()
    table.to_csv(tmp_path / "commas.csv", index=False)
    table.to_csv(tmp_path / "points.csv", index=False, sep=";")
    table.to_csv(tmp_path / "semicolons.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    plain, *others = (load_source(tmp_path / f"{name}.csv").bags for name in ("commas", "points", "semicolons"))
    for bags in others:
        assert np.array_equal(bags.store, plain.store)
        assert bags.classes == plain.classes


def test_a_table_in_another_encoding_is_refused(tmp_path, majority, make, says):
    make.table(höhe=1).to_csv(tmp_path / "bags.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert says(out, "bags.csv", "UTF-8", "commas, semicolons or tabs")


@pytest.mark.parametrize(
    ("separator", "name"), [(";", "height, cm"), (";", "N, P, K, Ca, Mg, Na"), (",", "a; b; c; d; e; f; g")]
)
def test_a_name_may_contain_the_separator_of_other_tables(tmp_path, make, separator, name):
    table = make.table().drop(columns="label").rename(columns={"a": name})
    text = table.to_csv(index=False, sep=separator, decimal="," if separator == ";" else ".")
    (tmp_path / "bags.csv").write_text(text.replace(f'"{name}"', name), encoding="utf-8-sig")
    bags = load_source(tmp_path / "bags.csv").bags
    assert np.allclose(bags.store, table[[name, "b"]])


@pytest.mark.parametrize("features", [(), ("--features", "a,b")])
def test_decimal_commas_are_one_problem_per_column_and_hide_no_other(tmp_path, majority, make, says, features):
    table = make.table(bags=4)
    for name in ("a", "b"):
        table[name] = table[name].astype(str).str.replace(".", ",")
    table.loc[3, "b"] = None
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv", *features)
    assert code == 1
    for name in ("a", "b"):
        assert says(out, "row 1", f"column {name} ", "decimal commas", "1234,5")
    assert "row 5: feature b is empty, NaN or NA" in out
    assert "\n3 problems, " in out


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (("1,001", "2,500", "875"), ","),
        (("1,001", "2,500.25", "875"), ","),
        (("1,001", "0,123", "875"), ","),
        (("1.234,56", "-12,25", "1.000"), ";"),
        (("1.234.567", "2.000", "875"), ";"),
    ],
)
def test_thousands_separators_are_one_problem(tmp_path, majority, make, says, cells, separator):
    table = make.table()
    table["pop"] = np.resize(cells, len(table))
    table.to_csv(tmp_path / "bags.csv", index=False, sep=separator)
    for features in ((), ("--features", "a,pop")):
        code, out, _ = majority("check", tmp_path / "bags.csv", *features)
        assert code == 1
        assert says(out, "row 1", "column pop ", "thousands separators", "1234.5, not 1,234.5")
        assert "\n1 problem, " in out


def test_numbers_as_plain_text_have_no_separators(tmp_path, make):
    table = make.table()
    table["pop"] = np.resize(["1.234", "2.345"], len(table))
    table.to_parquet(tmp_path / "bags.parquet")
    assert load_source(tmp_path / "bags.parquet").bags.store[:2, 2].tolist() == pytest.approx([1.234, 2.345])


def test_names_that_differ_only_in_capitals_or_spaces_are_warned_of(tmp_path, majority, make, says):
    table = make.table(bags=40)
    table["bag_label"] = make.column(table, ["tumour", "stroma", "Tumour", "STROMA"])
    table["group"] = make.column(table, [f"case {number}" for number in range(5)])
    table.loc[table["bag"] == "slide39", "group"] = "case  4"
    table.loc[0, "bag"] = "Slide0"
    table.drop(columns="label").to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert says(out, "labels ", "'tumour' and 'Tumour'", "only in capitals, spaces", "and 1 more")
    assert says(out, "bags ", "'Slide0' and 'slide0'", "only in capitals, spaces")
    assert says(out, "groups ", "'case 4' and 'case  4'", "only in capitals, spaces")


def test_a_number_written_in_two_ways_is_warned_of(tmp_path, majority, make, says):
    table = make.table(bags=40)
    table["bag_label"] = make.column(table, ["7", "12", "7.0", "12"])
    table["group"] = make.column(table, ["1", "01", "v1", "v1.0", "5"])
    table.drop(columns="label").to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert says(out, "warning: labels", "'7' and '7.0'", "or .0")
    assert "warning: groups" not in out


def test_names_in_two_unicode_forms_are_printed_with_escapes(tmp_path, majority, make, says):
    table = make.table(bags=40)
    table["group"] = make.column(table, ["Bär", unicodedata.normalize("NFD", "bär"), "c", "d", "e"])
    composed, decomposed = (unicodedata.normalize(form, "Präparat") for form in ("NFC", "NFD"))
    table["bag"] = composed + table["bag"]
    table.loc[0, "bag"] = decomposed + "slide0"
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    assert says(out, "bags ", r"'Pra\u0308paratslide0' and 'Pr\xe4paratslide0'", "Unicode form")
    assert says(out, "groups ", r"'B\xe4r' and 'ba\u0308r'", "Unicode form")


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["NA", "N/A", "NaN", "null", "None"])
def test_a_name_that_marks_missing_numbers_is_warned_of(tmp_path, majority, make, says, name):
    table = make.table(bags=44)
    label = make.column(table, ["7", "12", "7", name])
    table.loc[table["bag"].isin(["slide0", "slide2"]), "bag"] = name
    table.drop(columns="label").assign(bag_label=label).to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 0
    for kind in ("bag", "class"):
        assert says(out, f"warning: {name} ", f"name of a {kind}", "missing", "fill the cells")


def test_other_problems_are_found_without_labels(tmp_path, majority, make, says):
    table = make.table().drop(columns="bag_label")
    table["a"] = table["a"].astype(object)
    table.loc[3, "a"] = "?"
    table.to_csv(tmp_path / "bags.csv", index=False)
    code, out, _ = majority("check", tmp_path / "bags.csv")
    assert code == 1
    assert says(out, "row 1", "no column bag_label", "`majority predict`", "need no labels")
    assert "row 5: feature a is '?'" in out


def test_the_path_of_missing_training_bags_is_named(tmp_path, majority, make, says):
    place = tmp_path / "bags.csv"
    make.table().to_csv(place, index=False)
    words = ("--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", tmp_path / "run")
    assert majority("train", place, *words)[0] == 0
    place.rename(tmp_path / "elsewhere.csv")
    code, _, err = majority("report", tmp_path / "run")
    assert code == 2
    assert says(err, f"{tmp_path / 'run'} was trained on", "link", f"at {place}")
