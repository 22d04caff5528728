"""The page of census: views that the bags choose, and instances of validation bags."""

import shutil
import sys
from collections import defaultdict
from itertools import product
from statistics import mean

from raw_results import DOCS, RESULTS, ROOT, read

COMMANDS = {
    "whole": "benchmarks/census.py digits --lines census",
    "few": "benchmarks/labels.py unlabelled digits --lines without",
}


def test_the_table_of_unknown_images_is_that_of_its_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census_tables import write_unknown

    for name in ("runs.jsonl", "unknown.jsonl"):
        shutil.copy(RESULTS / "census" / name, tmp_path)
    write_unknown(tmp_path)
    assert (tmp_path / "unknown.csv").read_text() == (RESULTS / "census/unknown.csv").read_text()

    titles = {"cifar10": "CIFAR-10", "svhn28": "SVHN (28x28)", "pathmnist": "PathMNIST"}
    of_cells, named = defaultdict(dict), {}
    for row in read("census/unknown.jsonl"):
        of_cells[row["source"], row["scenario"], row["fold"]][row["method"]] = row
    for row in read("census/runs.jsonl"):
        if row["line"] == "census":
            named[row["source"], row["scenario"], row["fold"]] = row["instance_accuracy"]
    expected, last = [], ""
    for source, scenario in product(titles, ("small", "large")):
        for fold in (2, 3, 4):
            if (of := of_cells.get((source, scenario, fold))) is None:
                continue
            one, several = of["adjusted-mean"], of.get("auto")
            figures = [f"{accuracy:.3f}" for accuracy in (one["instance_accuracy"], named[source, scenario, fold])]
            figures.append("not run" if several is None else f"{several['instance_accuracy']:.3f}")
            title = f"{titles[source]} {scenario.capitalize()}"
            expected.append(["" if title == last else title, str(fold), " + ".join(one["views"]["chosen"]), *figures])
            last = title
            assert one["instance_accuracy"] > named[source, scenario, fold] - 0.0045
    page = (DOCS / "benchmarks/census.md").read_text().split("**The whole recipe**")[1].split("\n## ")[0]
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected
    assert "No run is more than 0.004 (rounded) below" in page


def validation_instances_section():
    return (DOCS / "benchmarks/census.md").read_text().split("## Instances of validation bags")[1].split("\n## ")[0]


def test_the_table_of_two_seeds_is_that_of_its_runs():
    page = validation_instances_section().split("**Folds 3 and 4, two seeds.**")[1]
    runs = {(row["source"], row["fold"], row["line"], row["seed"]): row for row in read("census-small/runs.jsonl")}
    assert all(row["plan"]["census"]["validation_instances"] for row in runs.values())
    before = {
        (row["source"], row["fold"]): row["instance_accuracy"]
        for row in read("census/runs.jsonl")
        if (row["scenario"], row["line"], row.get("method")) == ("small", "census", "adjusted-mean")
    }
    expected, means = [], []
    for source, title in {"cifar10": "CIFAR-10", "svhn28": "SVHN (28x28)"}.items():
        found = []
        for fold in (3, 4):
            cells = [f"{title}, fold {fold}", f"{before[source, fold]:.3f}"]
            for line, seed in (("census", 0), ("census", 1), ("proportion", 0)):
                row = runs.get((source, fold, line, seed))
                cells.append("not run" if row is None else f"{row['instance_accuracy']:.3f}")
                found += [row["instance_accuracy"]] if row and line == "census" else []
            expected.append(cells)
        means.append(f"{mean(found):.3f}")
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected
    assert f"the means are {means[0]} and {means[1]}" in " ".join(page.split())


def test_the_table_of_validation_instances_is_that_of_its_runs():
    page = validation_instances_section()
    runs = read("census/validation-instances.jsonl")
    shown = {line.split("|")[1].strip(): line.split("|")[2:4] for line in page.splitlines() if line.startswith("| ")}
    for source, title in {"cifar10": "CIFAR-10", "svhn28": "SVHN (28x28)"}.items():
        for row in (row for row in runs if row["source"] == source and row["start"] == "random"):
            name = f"{title}, {'with validation bags' if row['validation_instances'] else 'training bags alone'}"
            figures = [f"{row[key]:.3f}" for key in ("instance_accuracy", "soft_labels_right")]
            assert [cell.strip() for cell in shown[name]] == figures
    trials = read("census/student-trials.jsonl")
    (base,) = (row for row in trials if row["trial"] == {})
    (alone,) = (cells for name, cells in shown.items() if name.startswith("CIFAR-10, training bags alone"))
    expected = [f"{base['instance_accuracy']:.3f}", f"{trials[1]['teachers_train']:.3f}"]
    assert [cell.strip() for cell in alone] == expected

    def gain(**chosen):
        groups = [
            [
                row["instance_accuracy"]
                for row in runs
                if row["validation_instances"] == takes_part and chosen.items() <= row.items()
            ]
            for takes_part in (True, False)
        ]
        return mean(groups[0]) - mean(groups[1])

    text = " ".join(page.split())
    digits = {
        (bags, scenario, name): gain(source="digits", bags=bags, scenario=scenario, command=command)
        for bags in (40, 100, 200)
        for scenario in ("small", "various")
        for name, command in COMMANDS.items()
        if bags == 200 or name == "few"
    }
    whole = [digits[200, scenario, "whole"] for scenario in ("small", "various")]
    assert f"lose {-whole[0]:.3f} on Small and {abs(whole[1]):.3f} on Various (n = 2 each)" in text
    small, various = ([digits[bags, name, "few"] for bags in (40, 100, 200)] for name in ("small", "various"))
    assert f"gain {small[0]:.3f}, {small[1]:.3f} and {small[2]:.3f} on Small" in text
    assert f"gain {various[0]:.3f} and {various[1]:.3f} and lose {-various[2]:.3f} on Various" in text
    assert f"`crops.csv` gains {gain(source='crops'):.3f}" in text
    assert f"loses {-gain(source='pathmnist'):.3f} (n = 1)" in text
    images = {row["validation_instances"]: row["images"] for row in runs if row["source"] == "svhn28"}
    assert f"{images[True] / images[False] - 1:.0%} more images".replace("%", " %") in text
