"""The page that compares recipes: tables of images on a CPU are those of the raw files."""

from collections import defaultdict
from statistics import mean, stdev

from raw_results import DOCS, read, table_rows


def test_the_tables_of_images_on_a_cpu_are_those_of_their_runs():
    page = (DOCS / "benchmarks/recipes.md").read_text().split("## Images on a CPU")[1].split("\n## ")[0]
    titles = {"cifar10": "CIFAR-10", "svhn28.npz": "SVHN (28x28)", "pathmnist": "PathMNIST"}
    found = defaultdict(dict)
    for row in read("recipes/images-patches.jsonl"):
        found[row["source"], row["recipe"]][row["fold"]] = row["test"]["instance_accuracy"]
    assert {tuple(sorted(folds)) for folds in found.values()} == {(2, 3, 4)}
    shown = {cell: f"{mean(folds.values()):.3f} ± {stdev(folds.values()):.3f}" for cell, folds in found.items()}
    for source, title in titles.items():
        cells = [title, *(shown[source, recipe] for recipe in ("quick", "census"))]
        assert f"| {' | '.join(cells)} |" in page.replace("**", ""), cells
        assert all(found[source, "census"][fold] > found[source, "quick"][fold] for fold in (2, 3, 4))
    gains = [mean(found[source, "census"].values()) - mean(found[source, "quick"].values()) for source in titles]
    assert "by {:.3f}, {:.3f} and {:.3f} on average".format(*gains) in page
    expected = [
        [row[2].split()[0], row[3]]
        for row in table_rows(DOCS / "get-started/what-to-expect.md")
        if row[1:2] == ["100 of 32"]
    ]
    assert expected == [[f"`{recipe}`", shown["pathmnist", recipe]] for recipe in ("census", "quick")]


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


def test_the_table_of_plans_for_a_cpu_is_that_of_its_trials():
    page = (
        (DOCS / "benchmarks/recipes.md").read_text().split("## How the plan for a CPU was chosen")[1].split("\n## ")[0]
    )
    found = defaultdict(lambda: defaultdict(dict))  # by fold, plan and source; of two runs the first
    for row in read("recipes/cpu-plan-trials.jsonl"):
        if row["bags"] == 400 and not row.get("other"):
            found[row["fold"]][_plan_of_trial(row)].setdefault(row["source"], f"{row['instance_accuracy']:.3f}")
    sources = ("cifar10", "svhn28", "pathmnist")
    rows = [
        [cell.strip() for cell in line.replace("**", "").split("|")[1:-1]] for line in page.splitlines() if "|" in line
    ]
    assert len(rows) == 13
    for epochs, *plan, cifar10, svhn, pathmnist in rows[2:]:
        accuracies = found[0][epochs.removesuffix(" (the plan before)"), *plan]
        assert [cifar10, svhn, pathmnist] == [accuracies[source] for source in sources]
    shown = " ".join(page.split())
    chosen, before, quick = (
        [found[1][plan][source] for source in sources]
        for plan in (
            ("12, 10", "1", "none", "34"),
            ("8, 3", "3", "mirror and turn\\*, crop", "25"),
            ("`quick`, 40 epochs", "", "none", "40"),
        )
    )
    on_fold_1 = [", ".join(one[:2]) + f" and {one[2]}" for one in (chosen, before, quick)]
    text = "the plan in bold has {}, the plan before it {}, and `quick` {}".format(*on_fold_1)
    assert f"On fold 1, {text}" in shown


def _plan_of_trial(row: dict) -> tuple[str, ...]:
    """The first cells of its row in the table."""
    if row["recipe"] == "quick":
        return "`quick`, 40 epochs", "", "none", "40"
    names = {(): "none", ("flip",): "mirror", ("flip", "rotate90"): "mirror and turn\\*"}
    views = "mirror and turn\\*, crop" if "crop" in row["augment"] else names[tuple(row["augment"])]
    teachers, epochs, of_each = (row[name] for name in ("teachers", "epochs", "teacher_epochs"))
    return f"{epochs}, {of_each}", str(teachers), views, str(2 * epochs + teachers * of_each)
