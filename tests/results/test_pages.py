"""README and the other pages: their tables are those of the raw files."""

import csv
import json
import re
from collections import defaultdict
from statistics import mean, stdev

import pytest
from raw_results import (
    DOCS,
    RESULTS,
    ROOT,
    SCENARIOS,
    cells,
    census_row,
    digits_row,
    embed_cell,
    embed_runs,
    full_length,
    published,
    read,
    table_rows,
    vectors_row,
)

from majority.run.study.paper_values import printed_accuracy


def test_the_results_of_the_readme_are_those_of_the_raw_files():
    rows = [row for row in table_rows(ROOT / "README.md") if any("±" in cell for cell in row)]
    shown = [row[1:] for row in rows]
    expected = [digits_row("count"), census_row("digits"), census_row("digits", "supervised")]
    expected += [census_row(source) for source in ("cifar10", "svhn28", "pathmnist")]
    for method in ("count", "soft-count", "output-mean"):
        measured, printed = cells(full_length("cifar10", method), range(5)), published(method, "cifar10").split(", ")
        expected.append([f"{ours} ({theirs})" for ours, theirs in zip(measured, printed, strict=True)])
    assert shown == expected


def test_the_figures_of_what_to_expect_are_those_of_the_raw_files():
    page = DOCS / "get-started/what-to-expect.md"
    with_deviation = [[cell for cell in row if "±" in cell] for row in table_rows(page)]
    shown = [row for row in with_deviation if row]
    expected = [census_row("digits", folds=range(5)), digits_row("adjusted-mean", range(5))]
    expected += [vectors_row(source, recipe) for source in ("digits", "pathmnist") for recipe in ("census", "quick")]
    expected.append([embed_cell(range(5))])
    expected += [census_row(source) for source in ("cifar10", "svhn28", "pathmnist")]
    on_cpu = [row[3] for row in table_rows(page) if row[1:2] == ["100 of 32"]]  # these have a test of their own
    assert [row for row in shown if row[0] not in on_cpu] == expected


def test_the_figures_of_pretrained_features_are_those_of_the_raw_files():
    page = DOCS / "benchmarks/pretrained.md"
    shown, runs = {row[0]: row[1:] for row in table_rows(page)}, embed_runs()
    for fold in range(5):
        (row,) = [found for name, found in shown.items() if name.startswith(str(fold))]
        assert row[0] == f"{runs[fold]['test']['instance_accuracy']:.3f}"
    assert shown["mean of folds 0 to 4"][0] == embed_cell(range(5))
    assert shown["mean of folds 2 to 4"] == [embed_cell(range(2, 5)), census_row("cifar10")[0]]
    text = " ".join(page.read_text().split())
    seconds = sorted(row["cpu_seconds"] for row in runs.values())
    assert f"{seconds[0]:.0f} to {seconds[-1]:.0f} CPU seconds" in text
    facts = json.loads((RESULTS / "embed/embedding.json").read_text())
    assert f"{facts['cpu_seconds']:.0f} CPU seconds to embed the {facts['images']:,} images" in text


def test_the_table_of_digits_is_that_of_the_study():
    rows = {tuple(row[1:3]): row[4:8] for row in table_rows(RESULTS / "digits/table.md")[1:]}
    page = [row for row in table_rows(DOCS / "benchmarks/digits.md") if len(row) == 6][1:]
    assert len(page) == len(rows) == 48
    for scenario, method, *figures in page:
        assert figures == rows[scenario.lower(), method.strip("`")], (scenario, method)


def test_the_table_of_the_background_class_is_that_of_its_runs():
    rows = json.loads((RESULTS / "background/digits.json").read_text())["rows"]
    page = [row for row in table_rows(DOCS / "benchmarks/background.md") if len(row) == 7][1:]
    for row, shown in zip(rows, page, strict=True):
        values = {name: [run[name] for run in row["runs"]] for name in row["mean"]}
        expected = [
            f"{mean(values[name]):.3f} ± {stdev(values[name]):.3f}" for name in ("instance_accuracy", "voter_accuracy")
        ]
        expected += [f"{mean(values[name]):.3f}" for name in ("background_precision", "background_recall")]
        prior = row["condition"]["prior"]
        assert shown[1:] == [row["condition"]["shares"], "none" if prior is None else str(prior), *expected], shown[0]


def test_the_table_of_views_is_that_of_its_runs():
    page = (DOCS / "benchmarks/census.md").read_text().split("## Views chosen by the bags")[1].split("\n## ")[0]
    shown = re.findall(r"\d\.\d{3} / \d\.\d{3}", page)
    rows = read("census/views.jsonl")
    expected = [f"{row['val_loss']:.3f} / {row['instance_accuracy']:.3f}" for row in rows]
    assert sorted(shown) == sorted(expected)


def test_the_ratios_of_ragged_bags_are_those_of_the_raw_file():
    stages = json.loads((RESULTS / "speed/h200.json").read_text())["ragged_over_equal"]
    page = (DOCS / "benchmarks/performance.md").read_text().split("## Bags of different sizes")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| (`[a-z]+`[^(|]*) \([\d.]+ s[^|]*\| (.*) \|$", page, re.MULTILINE))
    assert len(rows) == len(stages)
    for stage, cases in stages.items():
        ratios = [f"{case['ragged_over_equal']:.2f}" for name, case in cases.items() if name != "equal"]
        recipe, _, part = stage.partition(", ")
        assert rows[f"`{recipe}`, {part}" if part else f"`{recipe}`"].split(" | ") == ratios, stage


def test_the_accuracies_with_more_bags_per_step_are_those_of_the_raw_file():
    found = defaultdict(list)
    for row in read("speed/same-accuracy-small-bags.jsonl"):
        found[row["loop"]].append(row["instance_accuracy"])
    page = " ".join((DOCS / "benchmarks/performance.md").read_text().split())
    for values in found.values():
        assert len(values) == 3
        assert f"{mean(values):.3f} ± {stdev(values):.3f}" in page


def test_the_table_of_estimated_background_shares_is_that_of_its_runs():
    found = defaultdict(list)
    for row in read("background/share.jsonl"):
        found[row["set"], row["case"], row["condition"]].append(row["instance_accuracy"])
    section = (DOCS / "benchmarks/background.md").read_text().split("## The share, estimated")[1].replace("**", "")
    shown = re.findall(r"^\| (\w+)[^|]*\| ([^|]+) \|[^|]*\|[^|]*\| ([\d.]+) \| ([\d.]+) \|$", section, re.MULTILINE)
    assert len(shown) == 6
    for name, background, *accuracies in shown:
        case = "rare" if "rarest" in background else "frequent"
        of_both = [found[name.lower(), case, condition] for condition in ("estimated", "true")]
        assert [len(folds) for folds in of_both] == [3, 3]
        assert accuracies == [f"{mean(folds):.3f}" for folds in of_both], (name, case)


def test_the_table_of_students_that_choose_their_labels_is_that_of_its_trials():
    page = (DOCS / "benchmarks/appendix.md").read_text().split("**Students that choose")[1].split("\n## ")[0]
    keys = ((), ("knn",), ("fix",), ("hard", "select"), ("fix", "select"), ("fix", "knn", "select"))
    keys += (("bag", "fix", "select"),)
    trials = {tuple(sorted(row["trial"])): row for row in read("census/student-trials.jsonl")}
    assert set(trials) == set(keys)
    shown = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    for key, (title, instances, bags) in zip(keys, shown, strict=True):
        row = trials[key]
        assert (instances, bags) == (f"{row['instance_accuracy']:.3f}", f"{row['bag_accuracy']:.2f}")
        right = row.get("kept_right" if "select" in key else "knn_train")
        if "% right" in title:
            assert f"{100 * right:.1f} % right" in title


def test_the_table_of_bag_losses_on_fixed_features_is_that_of_its_runs():
    page = (DOCS / "benchmarks/bag-losses.md").read_text().split("\n## ")[0].replace("**", "")
    with (RESULTS / "census/heads.csv").open(newline="") as file:
        means = {(row["source"], row["scenario"], row["method"]): row["mean"] for row in csv.DictReader(file)}
    columns = [(source, scenario) for source in ("cifar10", "svhn28", "pathmnist") for scenario in SCENARIOS]
    shown = re.findall(r"^\| `([a-z-]+)`[^|]*\| (.*) \|$", page, re.MULTILINE)
    assert len(shown) == 9
    for method, cells_shown in shown:
        expected = [float(means[*column, method]) for column in columns]
        assert [float(cell) for cell in cells_shown.split(" | ")] == pytest.approx(expected, abs=5.1e-4), method


def test_the_table_of_the_default_against_single_losses_is_that_of_its_runs():
    page = (DOCS / "benchmarks/bag-losses.md").read_text().split("## The default against single losses")[1]
    page = page.split("\n## ")[0]
    with (RESULTS / "losses/matrix.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    combinations = defaultdict(dict)  # (set, scenario, ratio, sizes, fold): {method: accuracy}
    for row in rows:
        key = tuple(row[name] for name in ("set", "scenario", "winner_ratio", "sizes", "fold"))
        combinations[key][row["method"]] = float(row["instance_accuracy"])
    several = ("weighted-mean", "auto")
    best = {key: max(found[m] for m in found if m not in several) for key, found in combinations.items()}
    shown = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page.replace("**", ""), re.MULTILINE)
    methods = next(iter(combinations.values()))
    assert len(shown) == len(methods) == 9
    for method, cells_shown in shown:
        means = [
            mean(found[method] for key, found in combinations.items() if key[0] in chosen)
            for chosen in (
                ["crops"],
                ["digits"],
                ["pathmnist"],
                ["cifar10"],
                ["crops", "digits", "pathmnist", "cifar10"],
            )
        ]
        below = [best[key] - found[method] for key, found in combinations.items()]
        expected = [f"{value:.3f}" for value in (*means, mean(below), max(below))]
        assert cells_shown.split(" | ") == expected, method
        if method in ("auto", "adjusted-mean"):
            assert f"in {sum(value > 0.03 for value in below)} of 41 cells" in " ".join(page.split()), method
    off = {m: sum(float(row["share_ratio"]) > 1.5 for row in rows if row["method"] == m) for m in methods}
    shares = f"not so in {off['auto']} of 41 cells (`weighted-mean`: {off['weighted-mean']}, `adjusted-mean`: "
    assert f"{shares}{off['adjusted-mean']})" in " ".join(page.split())
    with (RESULTS / "losses/crops.csv").open(newline="") as file:
        crops = [float(row["instance_accuracy"]) for row in csv.DictReader(file)]
    folds = ", ".join(f"{value:.3f}" for value in crops)
    assert f"has {mean(crops):.3f} (folds 0 to 4: {folds})" in " ".join(page.split())


def test_the_tables_of_class_offsets_are_those_of_their_runs():
    page = (DOCS / "benchmarks/bag-losses.md").read_text().split("## Class offsets")[1].split("\n## ")[0]
    found = defaultdict(dict)  # (winner ratio, scenario): {with offsets: {fold: accuracy}}
    for row in read("losses/offsets.jsonl"):
        of_cell = found[row["winner_ratio"], row["scenario"]].setdefault(row["class_offsets"], {})
        of_cell[row["fold"]] = row["test"]["instance_accuracy"]
    shown = re.findall(r"^\| (\d+):1 \| (.*) \|$", page, re.MULTILINE)
    assert [int(ratio) for ratio, _ in shown] == [1, 20, 100]
    for ratio, of_ratio in shown:
        for scenario, cell in zip(SCENARIOS, of_ratio.split(" | "), strict=True):
            runs = [of_cell.values() for _, of_cell in sorted(found.get((int(ratio), scenario), {}).items())]
            expected = ", ".join(f"{mean(folds):.3f} ± {stdev(folds):.3f}" for folds in runs)
            assert cell == (expected or "not run")
    gains = [
        of_cell[True][fold] - of_cell[False][fold] for key, of_cell in found.items() if key[0] > 1 for fold in (2, 3, 4)
    ]
    gained = f"gain in {sum(gain > 0 for gain in gains)} of {len(gains)} runs, up to {max(gains):.3f}"
    assert gained in " ".join(page.split())
    with (RESULTS / "losses/offset-trials.csv").open(newline="") as file:
        trials = [*csv.DictReader(file)]
    rows = re.findall(r"\| (0\.\d{4}) \| (\d+) \|$", page, re.MULTILINE)
    for kind, row in zip(dict.fromkeys(trial["offsets"] for trial in trials), rows, strict=True):
        of_kind = [trial for trial in trials if trial["offsets"] == kind]
        off = sum(float(trial["share_ratio"]) > 1.5 for trial in of_kind)
        assert row == (f"{mean(float(trial['instance_accuracy']) for trial in of_kind):.4f}", str(off)), kind


def test_the_variation_between_seeds_is_that_of_its_runs():
    page = (DOCS / "benchmarks/digits.md").read_text().split("## Variation between seeds")[1].split("\n## ")[0]
    runs = [*read("digits/results.jsonl"), *read("seeds/count-digits.jsonl")]
    of_count = [row for row in runs if (row["method"], row["scenario"]) == ("count", "small")]
    for seed, shown in re.findall(r"^\| (\d)[^|]*\| (.*) \|$", page, re.MULTILINE):
        folds = [row["test"]["instance_accuracy"] for row in of_count if row["seed"] == int(seed)]
        assert (len(folds), shown) == (5, f"{mean(folds):.3f} ± {stdev(folds):.3f}")


def test_the_table_of_the_stages_of_census_is_that_of_its_runs():
    page = (DOCS / "benchmarks/census.md").read_text().split("## What each stage is worth")[1].split("\n## ")[0]
    rows = {(row["scenario"], row["line"]): row for row in read("census/ablation.jsonl")}
    shown = re.findall(r"\| ([\d.]+, [\d.]+) \| ([\d.]+, [\d.]+) \| ([\d.]+, [\d.]+) \|$", page, re.MULTILINE)
    order = ("census", "one-teacher", "teachers", "teacher", "head", "count", "from-scratch")
    expected = [tuple(_accuracies(rows[scenario, line]) for scenario in SCENARIOS) for line in order]
    assert shown == expected

    def differences(one: str, other: str, *scenarios: str) -> str:
        found = [rows[s, one]["instance_accuracy"] - rows[s, other]["instance_accuracy"] for s in scenarios]
        return " and ".join(", ".join(f"{value:.3f}" for value in found).rsplit(", ", 1))

    text = " ".join(page.split())
    for one, other in (("teacher", "from-scratch"), ("one-teacher", "teacher"), ("one-teacher", "count")):
        assert differences(one, other, *SCENARIOS) in text, (one, other)
    assert differences("teacher", "head", "various", "large") in text
    gains = {s: rows[s, "census"]["instance_accuracy"] - rows[s, "one-teacher"]["instance_accuracy"] for s in SCENARIOS}
    costs = f"cost {-gains['various']:.3f} on Various and {-gains['large']:.3f} on Large"
    assert f"gained {gains['small']:.3f} on Small and {costs}" in text
    runs = [row for row in read("labels/wrong.jsonl") if (row["source"], row["wrong"]) == ("cifar10", 0)]
    (default,) = [row for row in runs if row["fold"] == 3]
    assert f"the whole recipe has {default['instance_accuracy']:.3f} on Various" in text


def _accuracies(row: dict) -> str:
    return f"{row['instance_accuracy']:.3f}, {row['bag_accuracy']:.2f}"


def test_the_table_of_bag_accuracy_and_calibration_is_that_of_its_runs():
    page = (DOCS / "benchmarks/census.md").read_text().split("## Bag accuracy and calibration")[1].split("\n## ")[0]
    found = defaultdict(list)
    for row in read("census/runs.jsonl"):
        if row["line"] == "census" and row["fold"] in (2, 3, 4):
            found[row["source"], row["scenario"]].append((row["bag_accuracy_by_count"], row["calibration_error"]))
    for source, title in {"cifar10": "CIFAR-10", "svhn28": "SVHN (28x28)", "pathmnist": "PathMNIST"}.items():
        of_scenarios = [[mean(values) for values in zip(*found[source, s], strict=True)] for s in SCENARIOS]
        cells = [f"{bags:.2f}, {error:.3f}" for bags, error in of_scenarios]
        assert f"| {title} | {' | '.join(cells)} |" in page, title


@pytest.mark.parametrize(
    ("source", "title", "printed"),
    [
        ("cifar10", "CIFAR-10 (32x32)", "cifar10"),
        ("svhn28", "SVHN", "svhn"),
        ("pathmnist", "PathMNIST", "pathmnist"),
    ],
)
def test_the_reference_rows_of_census_are_those_of_their_runs(source, title, printed):
    section = (DOCS / "benchmarks/census.md").read_text().split(f"\n## {title}")[1].split("\n## ")[0]
    shown = dict(re.findall(r"^\| (\D[^|]*?) \| (.*) \|$", section.replace("**", ""), re.MULTILINE))
    with (RESULTS / "census/heads.csv").open(newline="") as file:
        heads = {(row["scenario"], row["method"]): row for row in csv.DictReader(file) if row["source"] == source}
    runs = [row for row in read("census/runs.jsonl") if row["source"] == source]

    def accuracies(line: str, scenario: str) -> dict[int, float]:  # by fold, means over seeds
        found = defaultdict(list)
        for row in runs:
            if (row["line"], row["scenario"]) == (line, scenario):
                found[row["fold"]].append(row["instance_accuracy"])
        return {fold: mean(values) for fold, values in found.items()}

    def is_shown(start: str, values: list[float]) -> None:
        (cells_shown,) = (cells_shown for row, cells_shown in shown.items() if row.startswith(start))
        numbers = [float(cell.split(":")[0]) for cell in cells_shown.split(" | ")]
        assert numbers == pytest.approx(values, abs=5.1e-4), start

    is_shown("published in the paper", [printed_accuracy("count", scenario, printed) for scenario in SCENARIOS])
    early = [row for row in read("paper/paper-patience-50-fold-0.jsonl") if row["cell"].startswith(f"{source}/")]
    plain = [row for row in early if row["method"] not in ("proportion", "supervised")]
    best = {s: [row["test"]["instance_accuracy"] for row in plain if row["scenario"] == s] for s in SCENARIOS}
    assert [len(values) for values in best.values()] == [15, 15, 15]
    is_shown("best of 15 methods", [max(best[scenario]) for scenario in SCENARIOS])
    is_shown("clusters", [mean(accuracies("clusters", scenario).values()) for scenario in SCENARIOS])
    is_shown("linear head", [float(heads[scenario, "adjusted-mean"]["mean"]) for scenario in SCENARIOS])
    is_shown("linear probe", [float(heads[scenario, "supervised"]["mean"]) for scenario in SCENARIOS])
    for line, start in {
        "augmented": "`log-mean`, recipe `augm",
        "proportion": "prop",
        "supervised": "all labels given",
    }.items():
        is_shown(start, [mean(accuracies(line, scenario).values()) for scenario in SCENARIOS])
    gaps = []
    for scenario in SCENARIOS:
        ((fold, told),) = accuracies("supervised", scenario).items()
        gaps.append(told - accuracies("census", scenario)[fold])
    is_shown("all labels minus", gaps)


def test_the_fold_by_fold_tables_of_census_are_those_of_its_runs():
    page = (DOCS / "benchmarks/census.md").read_text()
    for source, title in {"cifar10": "CIFAR-10 (32x32)", "svhn28": "SVHN", "pathmnist": "PathMNIST"}.items():
        section = page.split(f"\n## {title}")[1].split("\n## ")[0]
        rows = [row for row in read("census/runs.jsonl") if (row["source"], row["line"]) == (source, "census")]
        for fold in (2, 3, 4):
            (shown,) = re.findall(rf"^\| `census`, fold {fold}\b[^|]*\| (.*) \|$", section, re.MULTILINE)
            accuracy = {row["scenario"]: row["instance_accuracy"] for row in rows if row["fold"] == fold}
            assert shown.split(" | ") == [f"{accuracy[scenario]:.3f}" for scenario in SCENARIOS], (source, fold)
        assert f"| {' | '.join(f'**{cell}**' for cell in census_row(source))} |" in section
