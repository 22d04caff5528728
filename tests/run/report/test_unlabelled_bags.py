"""The report of a run about bags without labels: predictions, and nothing about their accuracy."""

import csv
import re

import numpy as np
import pytest

VERDICT = re.compile(r"\b(right|wrong|correct|accuracy|precision|recall|truly|true)\b|[✓✗]", re.IGNORECASE)
MIDDLE = {"a": 0, "b": 4, "void": 20}


def rows(mixtures, seed=0):
    """(bag, class, feature) of each instance; a mixture gives the number of instances of each class of a bag."""
    rng = np.random.default_rng(seed)
    return [
        (f"s{number}", name, f"{rng.normal(MIDDLE[name]):.3f}")
        for number, mixture in enumerate(mixtures)
        for name, count in mixture.items()
        for _ in range(count)
    ]


def write(path, header, lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    return path


NEW = [{"a": 6, "b": 2}, {"a": 3, "b": 4}, {"b": 7}, {"a": 5, "b": 3}]


@pytest.fixture(scope="module")
def folder(succeeds, tmp_path_factory):
    """Runs on vectors, one of them with a background."""
    folder = tmp_path_factory.mktemp("unlabelled")
    for name, more in (("plain", {}), ("voters", {"void": 3})):
        mixtures = [{"ab"[i % 2]: 5, "ab"[1 - i % 2]: i % 3, **more} for i in range(40)]
        lines = [(bag, "ab"[int(bag[1:]) % 2], feature) for bag, _, feature in rows(mixtures)]
        source = write(folder / f"{name}.csv", ["bag", "bag_label", "f0"], lines)
        words = ["--method", "log-mean", "--recipe", "quick", "--epochs", "60", "--out", folder / name]
        words += ["--background", "void", "--background-share", "0.33"] if more else []
        succeeds("train", source, *words)
    return folder


def page_of(succeeds, folder, run, source):
    """The output of the command, the page, and the rows of `predict --bags` for the same bags."""
    out = succeeds("report", folder / run, source)
    succeeds("predict", folder / run, source, "--bags", "--out", folder / "rows.csv")
    with (folder / "rows.csv").open() as file:
        return out, folder / run / f"report-{source.stem}.html", [*csv.DictReader(file)]


def text_of(page):
    """The text of the sections about bags."""
    return [page.locator(f"#{part}").inner_text() for part in ("bags", "mosaics", "maps", "gallery")
            if page.locator(f"#{part}").count()]  # fmt: skip


def table_of(page):
    cells = page.locator("#figures tbody tr").evaluate_all("all => all.map(r => [...r.cells].map(c => c.innerText))")
    return {name.strip(): (int(bags), int(instances)) for name, bags, instances, _ in cells}


def expected_table(predicted):
    names = [name[2:-1] for name in predicted[0] if name.startswith("n(")]
    return {
        name: (sum(row["majority"] == name for row in predicted), sum(int(row[f"n({name})"]) for row in predicted))
        for name in names
    }


def test_the_page_agrees_with_predict(succeeds, folder, opened):
    mixtures = [*({**mixture, "void": 2} for mixture in NEW), {"void": 4}]
    source = write(folder / "new.csv", ["bag", "f0"], [(bag, feature) for bag, _, feature in rows(mixtures, 1)])
    out, path, predicted = page_of(succeeds, folder, "voters", source)
    assert out.splitlines()[-1] == str(path)
    assert f"{source} has no bag labels" in out
    assert "no accuracy" in out
    page = opened(path)
    heading = page.locator("#figures h2").inner_text()
    assert "no labels" in heading
    assert "not known" in heading
    assert table_of(page) == expected_table(predicted)
    cards = page.locator("#figures .card b").all_inner_texts()
    assert cards[:2] == [str(len(predicted)), str(len(rows(mixtures, 1)))]
    voided = sum(int(row["n(void)"]) for row in predicted)
    assert voided > 0
    assert cards[2:] == [f"{100 * voided / int(cards[1]):.1f} %"]
    assert predicted[-1]["majority"] == "void", "nobody votes"
    closest = sorted(predicted, key=lambda row: (float(row["margin"]), float(row["share"])))
    shown = page.locator("#bags .bag")
    for i, row in enumerate(closest):
        words = " ".join(shown.nth(i).inner_text().split())
        assert words.startswith(f"bag {row['bag']} predicted majority {row['majority']}")
        assert f"share {100 * float(row['share']):.1f} %, margin {100 * float(row['margin']):.1f} %" in words
        pieces = shown.nth(i).locator(".bar span").evaluate_all("all => all.map(one => one.title)")
        counts = {name: int(row[f"n({name})"]) for name in table_of(page)}
        assert pieces == [f"{name}: {n} of {sum(counts.values())}" for name, n in counts.items() if n]
    assert shown.count() == len(closest)
    assert page.locator("#classes, .verdict, [data-correct]").count() == 0
    assert not [word for text in text_of(page) for word in VERDICT.findall(text)]


def test_figures_of_instances_are_shown_if_some_have_labels(succeeds, folder, opened):
    lines = [(bag, feature, name if i % 2 else "") for i, (bag, name, feature) in enumerate(rows(NEW, 1))]
    source = write(folder / "some.csv", ["bag", "f0", "label"], lines)
    out, path, _ = page_of(succeeds, folder, "plain", source)
    assert "no bag labels" in out
    assert "accuracy of instances only" in out
    page = opened(path)
    assert "accuracy is known for instances only" in page.locator("#figures h2").inner_text()
    figures = page.locator("#figures").inner_text()
    assert "instance figures are over the 15 of 30 instances" in figures.lower()
    assert "instance accuracy" in figures
    assert "bag accuracy" not in figures
    assert "Classes, by instances" in page.locator("#classes").inner_text()
    assert page.locator("#classes .matrix").count() == 1
    assert page.locator(".verdict, [data-correct], #filter input").count() == 0


def test_an_empty_column_of_labels_means_no_labels_and_bags_without_one_come_last(succeeds, folder):
    lines = [(bag, "", feature, "new") for bag, _, feature in rows(NEW, 1)]
    source = write(folder / "empty.csv", ["bag", "bag_label", "f0", "split"], lines)
    assert "no bag labels" in page_of(succeeds, folder, "plain", source)[0]
    lines = [(bag, "a" if bag == "s0" else "", feature) for bag, _, feature in rows(NEW, 1)]
    succeeds("report", folder / "plain", write(folder / "half.csv", ["bag", "bag_label", "f0"], lines))
    page = (folder / "plain/report-half.html").read_text()
    bags = len({bag for bag, *_ in lines})
    assert f"{bags - 1} bags without a label come last" in page
    assert page.index("bag s0") < page.index("predicted majority <")


def test_maps_and_images_show_no_accuracy(succeeds, folder, opened, tmp_path):
    from PIL import Image

    rng, lines = np.random.default_rng(0), []
    for number in range(24):
        for i in range(4):
            light = (number + (i == 0)) % 2
            path = tmp_path / f"{number}-{i}.png"
            Image.fromarray((rng.integers(0, 60, (8, 8, 3)) + 190 * light).astype("uint8")).save(path)
            lines.append((number, "ab"[number % 2], path.name, 10 * i, number))
    source = write(tmp_path / "mine.csv", ["bag", "bag_label", "path", "x", "y"], lines)
    words = ["--recipe", "quick", "--method", "adjusted-mean", "--epochs", "2", "--out", tmp_path / "run"]
    succeeds("train", source, *words)
    Image.fromarray(np.zeros((16, 16), "uint8")).save(tmp_path / "0-0.png")
    new = write(tmp_path / "new.csv", ["bag", "path", "x", "y"], [(line[0], *line[2:]) for line in lines[:24]])
    out, path, predicted = page_of(succeeds, tmp_path, "run", new)
    assert "warning: " in out, "one image has another size"
    page = opened(path)
    assert table_of(page) == expected_table(predicted)
    for part in ("mosaics", "maps"):
        assert page.locator(f"#{part} .bag").count() == 6
        assert "smallest margins first" in page.locator(f"#{part} .tally >> xpath=..").inner_text()
    assert page.locator(".cross").count() == 0, "crosses"
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert len(text_of(page)) == 4
    assert not [word for text in text_of(page) for word in VERDICT.findall(text)]
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
