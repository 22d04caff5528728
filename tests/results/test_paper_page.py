"""The page of the paper's tables: every figure is that of the raw files, or a published one."""

from collections import defaultdict
from itertools import chain
from statistics import mean

import pytest
import raw_results
from raw_results import (
    DOCS,
    ROOT,
    SCENARIOS,
    cells,
    full_length,
    published,
    read,
)

from majority.run.study.paper_values import printed_accuracy, printed_consistency

MAIN = ("count", "soft-count", "output-mean", "log-mean")  # of the paper's tables


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
    monkeypatch.setattr(raw_results, "read", lambda file: rows)
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
    assert len(shown) == 4
    for name, *row in shown:
        runs = accuracies(full_length("cifar10", name.replace("`", "").replace(", ", "-")))
        measured = [f"{runs[s, 0]:.3f}" if (s, 0) in runs else "not run" for s in SCENARIOS]
        assert row == [*measured, published(method_of(name), "cifar10")], name


def test_the_variants_of_count_are_those_of_the_raw_file():
    shown = paper_table("Variants of `count` on CIFAR-10, fold 0")
    assert [method_of(name) for name, *_ in shown] == ["count", "count-of-counts", "count-mpem"]
    for name, *row in shown:
        runs = accuracies(full_length("cifar10", method_of(name)))
        assert row == [f"{runs[scenario, 0]:.3f}" for scenario in SCENARIOS], name
    runs = {run["scenario"]: run for run in full_length("cifar10", "count-mpem")}
    chosen, left_out = ([runs[s][key] for s in SCENARIOS] for key in ("mpem", "left_out"))
    shares = [one["share_not_of_label"] for one in left_out]
    text = paper_text()
    assert "chose r = {}, {} and {}".format(*(one["r"] for one in chosen)) in text
    assert "left out {:,}, {:,} and {:,} of 25,600".format(*(one["instances"] for one in left_out)) in text
    wrong = [round(one["instances"] * share) for one, share in zip(left_out, shares, strict=True)]
    assert "Of these, {:,}, {:,} and {:,} are not of their bag's class".format(*wrong) in text
    assert "class: {:.0f}, {:.0f} and {:.0f} %,".format(*(100 * share for share in shares)) in text
    of_all = [one["share_not_of_label_all"] for one in left_out]
    assert "where {:.0f}, {:.0f} and {:.0f} % of all".format(*(100 * share for share in of_all)) in text


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
