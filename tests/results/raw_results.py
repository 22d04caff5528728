"""The raw files of results/ and the tables of pages, as the tests in this folder read them."""

import json
from functools import cache
from pathlib import Path
from statistics import mean, stdev

from majority.run.study.paper_values import printed_accuracy

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
SCENARIOS = ("small", "various", "large")


@cache
def read(file: str) -> list[dict]:
    """The rows of a raw file. All tests share them: do not change them."""
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


def published(method: str, *sources: str) -> str:
    """The cell of the published accuracies, means over the sources."""
    values = [[printed_accuracy(method, scenario, source) for source in sources] for scenario in SCENARIOS]
    return "not in the paper" if values[0][0] is None else ", ".join(f"{mean(some):.3f}" for some in values)
