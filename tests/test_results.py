"""Tables and plots in results/ and in the pages are made again from the raw files and compared."""

import csv
import json
import re
import shutil
import sys
from collections import defaultdict
from itertools import chain
from pathlib import Path
from statistics import mean, stdev

import pytest
from numpy import sort

from majority import load_source
from majority.study import difficulty
from majority.study.paper_values import printed_accuracy, printed_consistency
from majority.study.results import read_results

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
PAPER, DIGITS = "# The published protocol, as far as measured", "# Every method but additive-transmil on digits"
SCENARIOS = ("small", "various", "large")
MAIN = ("count", "soft-count", "output-mean", "log-mean")  # of the paper's tables


@pytest.mark.parametrize(
    ("folder", "runs", "title"), [("paper", "paper-*.jsonl", PAPER), ("digits", "results.jsonl", DIGITS)]
)
def test_the_tables_of_a_study_are_those_of_its_runs(majority, tmp_path, folder, runs, title):
    for file in (RESULTS / folder).glob(runs):
        shutil.copy(file, tmp_path)
    assert majority("report", tmp_path)[0] == 0
    written = {file.name for file in tmp_path.glob("*tables.*")} | {"summary.csv"}
    committed = {file.name for file in (RESULTS / folder).iterdir()}
    assert {"tables.md", "summary.csv"} <= written & committed
    for name in written & committed:
        first, rest = (tmp_path / name).read_text().split("\n", 1)
        if first.startswith("# "):  # the title of a page is the name of its folder
            first = title
        assert f"{first}\n{rest}" == (RESULTS / folder / name).read_text(), name


@pytest.mark.parametrize("folder", ["census", "census-unmixed"])
def test_the_tables_of_census_are_those_of_its_runs(monkeypatch, tmp_path, folder):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census_tables import write_tables

    shutil.copy(RESULTS / folder / "runs.jsonl", tmp_path)
    write_tables(tmp_path)
    written = {file.name for file in tmp_path.iterdir()}
    assert written == {file.name for file in (RESULTS / folder).iterdir()} - {
        "ablation.jsonl",
        "default.jsonl",
        "views.jsonl",
        "unknown.jsonl",
        "unknown.csv",
    }
    for name in written:
        assert (tmp_path / name).read_text() == (RESULTS / folder / name).read_text(), name


def test_the_command_of_census_on_digits_finds_its_runs_finished(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    from census import main

    shutil.copy(RESULTS / "census/runs.jsonl", tmp_path)
    words = ["digits", "--folds", "0-4", "--lines", "census", "--work", tmp_path / "work", "--out", tmp_path]
    monkeypatch.setattr(sys, "argv", ["census.py", *map(str, words)])
    main()
    assert (tmp_path / "runs.jsonl").read_text() == (RESULTS / "census/runs.jsonl").read_text()


def test_the_table_and_plots_of_what_makes_bags_hard_are_those_of_its_runs(tmp_path):
    difficulty.write(read_results(RESULTS / "difficulty/results.jsonl"), tmp_path)
    assert (tmp_path / "difficulty.csv").read_text() == (RESULTS / "difficulty/difficulty.csv").read_text()
    plots = {path.name for path in tmp_path.glob("*.svg")}
    assert plots == {path.name for path in (DOCS / "figures").glob("difficulty-*.svg")}
    for name in plots:
        assert (tmp_path / name).read_text() == (DOCS / "figures" / name).read_text(), name


def test_no_file_names_a_folder_of_a_machine():
    folders = [f"/{name}/" for name in ("tmp", "home", "work", "root", "Users")]
    for file in RESULTS.rglob("*.*"):
        assert not any(folder in file.read_text() for folder in folders), file


# ---------------------------------------------------------------------- tables in the pages


def read(file: str) -> list[dict]:
    return [json.loads(line) for line in (RESULTS / file).read_text().splitlines()]


def full_length(source: str, name: str) -> list[dict]:
    """By the name of the cell: other options, recipes, precisions and seeds of a method have other names."""
    rows = read("paper/paper-1500-epochs.jsonl")
    return [row for row in rows if row["source"] == source and row["cell"].split("/")[2] == name]


def cells(rows: list[dict], folds: range) -> list[str]:
    """Mean and deviation of the instance accuracy over folds, one cell per scenario."""
    accuracy = {(row["scenario"], row["fold"]): row.get("test", row)["instance_accuracy"] for row in rows}
    assert len(accuracy) == len(rows), "one run per scenario and fold"
    by_scenario = [[accuracy[scenario, fold] for fold in folds] for scenario in SCENARIOS]
    return [f"{mean(values):.3f} ± {stdev(values):.3f}" for values in by_scenario]


def census_row(source: str, line: str = "census", folds: range = range(2, 5)) -> list[str]:
    rows = read("census/runs.jsonl")
    return cells([row for row in rows if (row["source"], row["line"]) == (source, line)], folds)


def digits_row(method: str, folds: range = range(2, 5)) -> list[str]:
    return cells([row for row in read("digits/results.jsonl") if row["method"] == method], folds)


def vectors_row(source: str, recipe: str) -> list[str]:
    rows = read("recipes/vectors.jsonl")
    return cells([row for row in rows if (row["source"], row["recipe"]) == (source, recipe)], range(3))


def embed_runs() -> dict[int, dict]:
    """By fold, with the default method."""
    return {row["fold"]: row for row in read("embed/runs.jsonl") if row["method"] == "auto"}


def embed_cell(folds: range) -> str:
    values = [embed_runs()[fold]["test"]["instance_accuracy"] for fold in folds]
    return f"{mean(values):.3f} ± {stdev(values):.3f}"


def table_rows(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip().replace("**", "") for cell in line.strip("| ").split(" | ")] for line in lines]


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
    assert shown == expected


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


# ---------------------------------------------------------------------- the page of the paper's tables


def published(method: str, *sources: str) -> str:
    """The cell of the published accuracies, means over the sources."""
    values = [[printed_accuracy(method, scenario, source) for source in sources] for scenario in SCENARIOS]
    return "not in the paper" if values[0][0] is None else ", ".join(f"{mean(some):.3f}" for some in values)


def paper_table(title: str) -> list[list[str]]:
    """The rows of the first table after a title."""
    after = (DOCS / "benchmarks/paper.md").read_text().split(title)[1]
    table = next(part for part in after.split("\n\n") if part.startswith("| Method |"))
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def method_of(cell: str) -> str:
    return cell.split("`")[1]


def accuracies(rows: list[dict]) -> dict[tuple[str, int], float]:
    return {(row["scenario"], row["fold"]): row["test"]["instance_accuracy"] for row in rows}


def stopped_early(source: str) -> dict[tuple[str, str], dict]:
    """Runs of fold 0 by method and scenario."""
    rows = read("paper/paper-patience-50-fold-0.jsonl")
    return {(row["method"], row["scenario"]): row for row in rows if row["cell"].startswith(f"{source}/")}


def paper_text() -> str:
    return " ".join((DOCS / "benchmarks/paper.md").read_text().split())


def differences(one: list[dict], other: list[dict], scenario: str) -> list[float]:
    """Of the instance accuracy, fold by fold."""
    minuend, subtrahend = accuracies(one), accuracies(other)
    return [minuend[key] - subtrahend[key] for key in sorted(minuend) if key[0] == scenario]


def test_runs_at_full_length_are_selected_by_the_name_of_their_cell(monkeypatch):
    names = ("count", "count-of-counts", "count-mpem", "count-seed-1", "soft-count")
    rows = [{"source": "cifar10", "method": "count", "cell": f"cifar10/large/{name}/fold0"} for name in names]
    monkeypatch.setattr(sys.modules[__name__], "read", lambda file: rows)
    assert full_length("cifar10", "count") == rows[:1]


def test_two_runs_of_one_scenario_and_fold_are_refused():
    rows = [{"scenario": scenario, "fold": 0, "instance_accuracy": 0.5} for scenario in (*SCENARIOS, "large")]
    with pytest.raises(AssertionError, match="one run per scenario and fold"):
        cells(rows, range(1))


@pytest.mark.parametrize(
    ("source", "title", "folds"),
    [
        ("cifar10", "CIFAR-10, 1,500 epochs", range(5)),
        ("pathmnist", "PathMNIST (28x28), 1,500 epochs", range(3)),
        ("svhn28.npz", "SVHN (28x28, 50,000 images; the paper has", range(3)),
    ],
)
def test_the_full_length_tables_of_the_paper_are_those_of_the_raw_file(source, title, folds):
    shown = paper_table(title)
    assert [method_of(name) for name, *_ in shown] == ["count", "soft-count", "output-mean", "log-mean"]
    for name, *row in shown:
        method = method_of(name)
        expected = [*cells(full_length(source, method), folds), published(method, source.removesuffix(".npz"))]
        assert row == expected, method


def test_the_other_methods_of_the_paper_at_full_length_are_those_of_the_raw_file():
    shown = paper_table("Other methods on CIFAR-10, fold 0")
    assert len(shown) == 3
    for name, *row in shown:
        runs = accuracies(full_length("cifar10", name.replace("`", "").replace(", ", "-")))
        measured = [f"{runs[s, 0]:.3f}" if (s, 0) in runs else "not run" for s in SCENARIOS]
        assert row == [*measured, published(method_of(name), "cifar10")], name


def test_the_consistency_table_of_the_paper_is_that_of_the_raw_file():
    shown = paper_table("Consistency rate of the CIFAR-10 runs")
    assert len(shown) == 4
    for name, *row in shown:
        method, rates = method_of(name), defaultdict(list)
        for run in full_length("cifar10", method):
            rates[run["scenario"]].append(run["test"]["consistency_rate"])
        printed = [printed_consistency(method, s) for s in SCENARIOS]
        theirs = "not in the paper" if method == "log-mean" else ", ".join(f"{rate:.3f}" for rate in printed)
        assert row == [*(f"{mean(rates[s]):.3f}" for s in SCENARIOS), theirs], method
        assert {len(some) for some in rates.values()} == {5}


def surplus(method: str, scenario: str, part: str) -> list[list[int]]:
    """Overestimation per bag, fold by fold, of folds 2 to 4."""
    runs = {run["fold"]: run for run in full_length("cifar10", method) if run["scenario"] == scenario}
    return [runs[fold]["overestimation_per_bag"][part] for fold in (2, 3, 4)]


def test_the_overestimation_table_of_the_paper_is_that_of_the_same_folds_of_the_raw_file():
    shown = paper_table("## Overestimation")
    assert [method_of(name) for name, *_ in shown] == ["count", "soft-count", "output-mean", "log-mean"]
    for name, *row in shown:
        for scenario, cell in zip(SCENARIOS, row, strict=True):
            means = [mean(chain(*surplus(method_of(name), scenario, part))) for part in ("train", "test")]
            assert cell == " / ".join(f"{value:+.1f}".replace("-", "−") for value in means), (name, scenario)
            assert all(mean(fold) < 0 for fold in surplus(method_of(name), scenario, "test")), (name, scenario)
    sizes = [sum(map(len, surplus("count", "small", part))) for part in ("train", "test")]
    assert "folds 2 to 4 for every method, one seed: {:,} training bags and {} test bags".format(*sizes) in paper_text()
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "means over folds 2 to 4: {:,} training and {} test bags per scenario".format(*sizes) in readme
    first = [mean(surplus("output-mean", scenario, "train")[0]) for scenario in ("small", "various")]
    assert (
        "is an exception on Small and Various (−{:.1f} and −{:.1f})".format(*(-value for value in first))
        in paper_text()
    )
    runs = {(run["scenario"], run["fold"]): run["best_epoch"] + 1 for run in full_length("cifar10", "output-mean")}
    assert f"these runs kept epochs {runs['small', 2]} and {runs['various', 2]}" in paper_text()
    most = max(mean(chain(*surplus("count", scenario, "train"))) for scenario in SCENARIOS)
    assert f"and `count` at most {most:.1f} too many" in paper_text()


def test_the_early_stopping_table_of_the_paper_is_that_of_the_raw_file():
    sources = ("cifar10", "pathmnist", "svhn28")
    runs = [stopped_early(source) for source in sources]
    shown = paper_table("## Early stopping")
    assert len(shown) == 6
    for name, *row in shown:
        method = method_of(name)
        means = [mean(some[method, s]["test"]["instance_accuracy"] for some in runs) for s in SCENARIOS]
        assert row == [*(f"{value:.3f}" for value in means), published(method, *sources)], method


def test_what_the_page_of_the_paper_says_of_full_length_is_that_of_the_raw_file():
    text, runs = paper_text(), {name: full_length("cifar10", name) for name in MAIN}
    away = {}
    for name in ("count", "soft-count", "output-mean"):
        found = accuracies(runs[name])
        means = {s: mean(found[s, fold] for fold in range(5)) for s in SCENARIOS}
        away[name] = max(abs(means[s] - printed_accuracy(name, s, "cifar10")) for s in SCENARIOS)
    largest = max(away.values())
    assert f"the instance accuracies are, within {largest:.3f}" in text
    assert f"within {max(away['count'], away['soft-count']):.3f} of the published values in all three" in text
    assert f"`output-mean` within {away['output-mean']:.3f}" in text

    lead = {name: [differences(runs["count"], runs[name], s) for s in SCENARIOS] for name in MAIN[1:]}
    ranges = {name: f"{min(chain(*some)):.2f} to {max(chain(*some)):.2f}" for name, some in lead.items()}
    above = f"above `output-mean` by {ranges['output-mean']} and above `log-mean` by {ranges['log-mean']}"
    assert above in text
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"averaging (`output-mean`) on every fold, by {ranges['output-mean']}" in readme
    means = [mean(some) for some in lead["soft-count"]]
    assert "above `soft-count` by {:.3f}, {:.3f} and {:.3f} on average".format(*means) in text
    assert f"which is worth {min(means):.2f} to {max(means):.2f}" in readme
    assert [sum(value < 0 for value in some) for some in lead["soft-count"]] == [1, 0, 0], "one fold of Small"


def test_what_the_page_of_the_paper_says_of_other_sets_is_that_of_the_raw_file():
    def lead(source, other, scenario, of="count"):
        return differences(full_length(source, of), full_length(source, other), scenario)

    for average in ("output-mean", "log-mean"):
        for of in ("count", "soft-count"):
            for scenario in ("small", "large"):
                assert min(lead("pathmnist", average, scenario, of)) > 0
        assert [value > 0 for value in lead("pathmnist", average, "various")] == [False, True, True]
        assert all(min(lead("svhn28.npz", average, scenario)) > 0 for scenario in SCENARIOS)
    means = [
        mean(value for (s, _), value in accuracies(full_length("pathmnist", name)).items() if s == "various")
        for name in MAIN
    ]
    assert max(means) - min(means) < 0.02
    to_soft = {scenario: lead("svhn28.npz", "soft-count", scenario) for scenario in SCENARIOS}
    assert min(to_soft["small"] + to_soft["various"] + to_soft["large"][:2]) > 0
    assert f"`soft-count` is {-to_soft['large'][2]:.3f} above it on fold 2 of Large" in paper_text()


def test_what_the_page_of_the_paper_says_of_consistency_is_that_of_the_raw_file():
    text, rates = paper_text(), {}
    for name in MAIN:
        for run in full_length("cifar10", name):
            rates.setdefault((name, run["scenario"]), []).append(run["test"])
    small = {name: [run["consistency_rate"] for run in rates[name, "small"]] for name in ("output-mean", "count")}
    ours, theirs = mean(small["count"]), printed_consistency("count", "small")
    assert f"on Small, `count` has {ours:.3f} instead of {theirs:.3f}" in text
    assert f"`count` is {theirs - ours:.3f} below the published rate" in text
    assert "than `count` ({:.3f} and {:.3f})".format(*map(mean, small.values())) in text
    spans = [f"{min(some):.2f} to {max(some):.2f}" for some in small.values()]
    assert "`output-mean` varies from {} and that of `count` from {}".format(*spans) in text
    correct = [mean(run["bag_accuracy"] for run in rates[name, "small"]) for name in ("output-mean", "count")]
    assert (
        "predicts {:.0f} % of the Small test bags correctly and `count` {:.0f} %".format(
            *(100 * share for share in correct)
        )
        in text
    )
    large = [mean(run["consistency_rate"] for run in rates[name, "large"]) for name in MAIN]
    assert f"On Large, all rates are at least {min(large):.3f}" in text


def test_what_the_page_of_the_paper_says_of_early_stopping_is_that_of_the_raw_files():
    text, early = paper_text(), stopped_early("cifar10")

    def costs(method):
        runs = accuracies(full_length("cifar10", method))
        return [runs[s, 0] - early[method, s]["test"]["instance_accuracy"] for s in SCENARIOS]

    assert "costs `count` {:.2f}, {:.2f} and {:.2f} of its full-length accuracy".format(*costs("count")) in text
    assert f"and `output-mean` at most {max(costs('output-mean')):.2f}" in text
    supervised, averaged = (early[name, "large"]["test"]["instance_accuracy"] for name in ("supervised", "output-mean"))
    assert f"on CIFAR-10 Large it has {supervised:.3f}, below `output-mean` ({averaged:.3f})" in text

    pooled = ("feature-mean", "feature-max", "feature-pnorm", "feature-lse", "attention")
    away = {}
    for source in ("cifar10", "pathmnist", "svhn28"):
        found = stopped_early(source)
        for name in (*pooled, "additive-transmil"):
            for s in SCENARIOS:
                away[source, name, s] = found[name, s]["test"]["instance_accuracy"] - printed_accuracy(name, s, source)
    same = {key: abs(value) for key, value in away.items() if key[0] != "svhn28" and key[1] in pooled}
    svhn = [abs(value) for key, value in away.items() if key[0] == "svhn28" and key[1] in pooled]
    assert max(same, key=same.get) == ("cifar10", "feature-mean", "small")
    assert f"is {mean(same.values()):.3f} on CIFAR-10 and PathMNIST ({len(same)} values; the largest is " in text
    assert f"the largest is {max(same.values()):.3f}, `feature-mean` on CIFAR-10 Small) and {mean(svhn):.3f} on" in text
    above = [value for (_, name, s), value in away.items() if name == "additive-transmil" and s != "small"]
    below = [-value for (_, name, s), value in away.items() if name == "additive-transmil" and s == "small"]
    assert f"is {min(above):.2f} to {max(above):.2f} above its published values on Various and Large" in text
    assert f"and {min(below):.3f} to {max(below):.3f} below on Small" in text


def test_what_the_page_of_the_paper_says_of_additive_is_that_of_the_raw_files():
    text, early = paper_text(), stopped_early("cifar10")
    full = {run["scenario"]: run for run in full_length("cifar10", "additive")}
    (exact,) = full_length("cifar10", "additive-float32")
    assert exact["scenario"] == "large"
    values = {s: full[s]["test"]["instance_accuracy"] for s in SCENARIOS}
    largest = max(abs(values[s] - printed_accuracy("additive", s, "cifar10")) for s in SCENARIOS)
    assert f"`additive` is within {largest:.3f} of its published values" in text
    costs = {s: values[s] - early["additive", s]["test"]["instance_accuracy"] for s in SCENARIOS}
    assert "early stopping costs {various:.2f} and {large:.2f}, and".format(**costs) in text
    assert min(run["best_epoch"] for run in (full["various"], full["large"], exact)) + 1 > 1_390
    kept = full["small"]["best_epoch"]
    assert kept == early["additive", "small"]["best_epoch"]
    assert f"On Small, both lengths kept epoch {kept + 1}, so the difference of {costs['small']:.3f}" in text


# ---------------------------------------------------------------------- other pages


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
        of_cells[row["source"], row["scenario"]][row["method"]] = row
    for row in read("census/runs.jsonl"):
        if (row["line"], row["fold"]) == ("census", 2):
            named[row["source"], row["scenario"]] = row["instance_accuracy"]
    page = (DOCS / "benchmarks/census.md").read_text()
    for (source, scenario), of in of_cells.items():
        one, several = of["adjusted-mean"], of.get("auto")
        figures = [f"{accuracy:.3f}" for accuracy in (one["instance_accuracy"], named[source, scenario])]
        figures.append("not run" if several is None else f"{several['instance_accuracy']:.3f}")
        cells = [f"{titles[source]} {scenario.capitalize()}", " + ".join(one["views"]["chosen"]), *figures]
        assert f"| {' | '.join(cells)} |" in page


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
    for name, background, *cells in shown:
        case = "rare" if "rarest" in background else "frequent"
        of_both = [found[name.lower(), case, condition] for condition in ("estimated", "true")]
        assert [len(folds) for folds in of_both] == [3, 3]
        assert cells == [f"{mean(folds):.3f}" for folds in of_both], (name, case)


def test_the_tables_of_images_on_a_cpu_are_those_of_their_runs():
    page = (DOCS / "benchmarks/recipes.md").read_text().split("## Images on a CPU")[1].split("\n## ")[0]
    titles = {"cifar10": "CIFAR-10", "svhn28.npz": "SVHN (28x28)", "pathmnist": "PathMNIST"}
    found = defaultdict(dict)
    for row in read("recipes/images-patches.jsonl"):
        found[row["source"], row["recipe"]][row["fold"]] = row["test"]["instance_accuracy"]
    assert {tuple(sorted(folds)) for folds in found.values()} == {(2, 3)}
    means = {cell: f"{mean(folds.values()):.3f}" for cell, folds in found.items()}
    for source, title in titles.items():
        cells = [title, *(means[source, recipe] for recipe in ("quick", "census"))]
        assert f"| {' | '.join(cells)} |" in page.replace("**", ""), cells
    expected = [
        [row[2].split()[0], row[3]]
        for row in table_rows(DOCS / "get-started/what-to-expect.md")
        if row[1:2] == ["100 of 32"]
    ]
    assert expected == [[f"`{recipe}`", means["pathmnist", recipe]] for recipe in ("census", "quick")]


def test_the_table_of_images_on_a_cpu_with_more_bags_is_that_of_its_runs():
    page = (DOCS / "benchmarks/recipes.md").read_text().replace("**", "")
    found = defaultdict(list)
    for row in read("recipes/images-patches-400.jsonl"):
        found[row["source"], row["recipe"]].append(row["test"]["instance_accuracy"])
    shown = {cell: f"{mean(folds):.3f} ± {stdev(folds):.3f}" for cell, folds in found.items() if len(folds) == 3}
    titles = {"cifar10": "CIFAR-10", "svhn28.npz": "SVHN (28x28)", "pathmnist": "PathMNIST"}
    for source, title in ((source, f"{title}, 400 bags") for source, title in titles.items()):
        cells = [title, *(shown.get((source, recipe), "not run") for recipe in ("quick", "census"))]
        assert f"| {' | '.join(cells)} |" in page, cells


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
    with (RESULTS / "losses/matrix.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    combinations = defaultdict(dict)  # (set, scenario, ratio, sizes, fold): {method: accuracy}
    for row in rows:
        key = tuple(row[name] for name in ("set", "scenario", "winner_ratio", "sizes", "fold"))
        combinations[key][row["method"]] = float(row["instance_accuracy"])
    best = {key: max(found[m] for m in found if m != "auto") for key, found in combinations.items()}
    shown = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page.replace("**", ""), re.MULTILINE)
    assert len(shown) == len(next(iter(combinations.values()))) == 8
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
    off = sum(float(row["share_ratio"]) > 1.5 for row in rows if row["method"] == "auto")
    assert f"not so in {off} of 41 cells" in " ".join(page.split())
    with (RESULTS / "losses/crops.csv").open(newline="") as file:
        crops = [float(row["instance_accuracy"]) for row in csv.DictReader(file)]
    folds = ", ".join(f"{value:.3f}" for value in crops)
    assert f"has {mean(crops):.3f} (folds 0 to 4: {folds})" in " ".join(page.split())


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
    (default,) = read("census/default.jsonl")
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


def test_what_runners_up_are_worth_on_digits_is_that_of_the_runs():
    page = " ".join((DOCS / "benchmarks/label-value.md").read_text().split("**Runners-up**")[1].split())
    found = defaultdict(list)
    for row in read("census/runs.jsonl"):
        if row["source"] == "digits" and row["fold"] in (2, 3, 4):
            found[row["line"], row["scenario"]].append(row["instance_accuracy"])
    gain = {s: mean(found["top2", s]) - mean(found["census", s]) for s in SCENARIOS}
    gap = mean(found["proportion", "small"]) - mean(found["census", "small"])
    assert f"{gain['small']:.3f} on Small" in page
    assert f"({gain['small'] / gap:.0%})".replace("%", " %") in page
    assert f"they cost {-gain['various']:.3f} and {-gain['large']:.3f}" in page
    tied = []
    for scenario in SCENARIOS:
        counts = sort(load_source("digits").make_parts(scenario=scenario, fold=2).train.class_counts(), axis=1)
        tied.append(f"{(counts[:, -2] == counts[:, -3]).mean():.0%}".replace("%", " %"))
    assert tied[0] == tied[1]
    assert f"In {tied[0]} of the training bags of Small and Various and {tied[2]} of those of Large" in page


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


def test_the_table_of_wrong_labels_is_that_of_its_runs():
    page = (DOCS / "benchmarks/labels.md").read_text().split("## Wrong labels")[1].split("\n## ")[0]
    runs, expected = read("labels/wrong.jsonl"), []
    for source in ("digits", "crops"):
        right = [row["instance_accuracy"] for row in runs if (row["source"], row["wrong"]) == (source, 0)]
        for share in sorted({row["wrong"] for row in runs if row["source"] == source}):
            rows = [row for row in runs if (row["source"], row["wrong"]) == (source, share)]
            assert sorted(row["fold"] for row in rows) == [2, 3, 4]
            accuracy = mean(row["instance_accuracy"] for row in rows)
            found = [str(sum(row["found"][name] for row in rows)) for name in ("wrong", "listed", "right")]
            expected.append([f"{accuracy:.3f}", f"{mean(right) - accuracy:.3f}" if share else "", *found])
    shown = [[cell.strip() for cell in line.split("|")[3:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == expected


def test_the_tables_of_labels_are_those_of_their_runs():
    page = (DOCS / "benchmarks/labels.md").read_text()

    def cell(rows):
        values = [row["instance_accuracy"] for row in rows]
        return f"{mean(values):.3f} ± {stdev(values):.3f}"

    runs = [row for row in read("labels/unlabelled.jsonl") if row["source"] == "digits"]
    for line in {(row["line"], row["labelled"]) for row in runs}:
        shown = [
            cell([row for row in runs if (row["line"], row["labelled"], row["scenario"]) == (*line, scenario)])
            for scenario in ("small", "various")
        ]
        assert f"| {line[1]} labelled" in page
        assert f"| {' | '.join(shown)} |" in page, line
    (few,) = (row for row in read("labels/unlabelled.jsonl") if row["source"] == "cifar10")
    rows = [row for row in read("census/ablation.jsonl") if (row["scenario"], row["line"]) == ("various", "census")]
    (all_labelled,) = (row["instance_accuracy"] for row in rows)
    lost = f"{all_labelled - few['instance_accuracy']:.3f} are lost"
    for words in (f"fold 3, one run: {few['instance_accuracy']:.3f}", f"[{all_labelled:.3f}]", lost):
        assert words in " ".join(page.split()), words
    runs = read("labels/top2.jsonl")
    assert {row["line"] for row in runs} == {"winner", "top2", "proportion"}
    lines = {"winner": "winners", "top2": "winners and runners-up", "proportion": "proportions (method `proportion`)"}
    shown = {row[0]: row[1:] for row in table_rows(DOCS / "benchmarks/labels.md")}
    for line, title in lines.items():
        by_recipe = {
            (row["recipe"], row["method"]): [
                one for one in runs if all(one[name] == row[name] for name in ("line", "recipe", "method"))
            ]
            for row in runs
            if row["line"] == line
        }
        kinds = [("census", "auto"), ("quick", "adjusted-mean"), ("quick", "soft-count")]
        if line == "proportion":
            kinds = [("census", "proportion"), ("quick", "proportion"), ("quick", "proportion")]
        assert shown[title] == [cell(by_recipe[kind]) for kind in kinds], title
    runs = read("labels/refit.jsonl")
    for source, bags in {(row["source"], row["bags"]) for row in runs}:
        rows = [row for row in runs if (row["source"], row["bags"]) == (source, bags)]
        figures = [f"{mean(row[name] for row in rows):.3f}" for name in ("split", "refit", "folds")]
        assert f"| {source}, {bags} bags | {len(rows)} | {' | '.join(figures)} |" in page
