"""Every table of measured figures in the README and in docs/, from raw files: `make tables`, `make tables-check`.

python benchmarks/pages.py            writes them again
python benchmarks/pages.py --check    fails if one is not that of its raw files, or if a figure has no source

A page holds `<!-- table: NAME -->` and `<!-- end of table -->`; what is between them is made by the function of that
name in TABLES. Tables and plots that lie beside raw files in results/ are made, too.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

import audit
import pandas as pd
import paper as paper_runs
from helpers import SCENARIOS, markdown, mean, read_raw, spread
from paper import printed_accuracy, printed_consistency

from majority.run.study import tables
from majority.run.study.figures import StudyFigures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARKED = re.compile(r"(<!-- table: (.+?) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
FIGURE = re.compile(r"^\|.*\b0\.\d{3}\b.*", re.MULTILINE)  # the row of a table with a measured share

FULL, EARLY = "paper/paper-1500-epochs.jsonl", "paper/paper-patience-50-fold-0.jsonl"

# Cells that stop after 300 epochs without a lower validation loss have this in their name.
OTHERS = {
    "feature-mean": "feature-mean",
    "feature-max": "feature-max-patience-300",
    "feature-pnorm": "feature-pnorm-patience-300",
    "feature-lse": "feature-lse-patience-300",
    "attention": "attention",
    "additive": "additive",
    "count-only": "count-only",
    "adjusted-mean": "adjusted-mean",
}

# The sets of results/default/runs.jsonl in the order of the tables: their name in the raw file, and on pages.
OWN = {
    "demo-insects": "insects, as a table",
    "traps": "insects, as images",
    "brain": "brain cells",
    "crops": "crops",
    "nuclei": "nuclei",
    "abstracts": "sentences of abstracts",
}
BENCHMARKS = {"digits": "digits", "cifar10": "CIFAR-10", "svhn28": "SVHN", "pathmnist": "PathMNIST"}
COLUMNS = {"naive": "naive", "count": "`count`", "default": "**default**", "supervised": "all instance labels"}


# ---------------------------------------------------------------------- raw files


@cache
def read(file: str) -> list[dict]:
    """The lines of a raw file, with the test figures beside the names of the run; none if it was not measured."""
    path = RESULTS / file
    return [line | (line.get("test") or {}) for line in read_raw(path)] if path.exists() else []


def values(file: str, figure: str = "instance_accuracy", **wanted: object) -> list[float]:
    """The figure of the lines that have what is wanted."""
    return [float(line[figure]) for line in read(file) if all(line.get(name) == wanted[name] for name in wanted)]


# ---------------------------------------------------------------------- the default


def of_default(source: str, scenario: str, figure: str = "instance_accuracy", row: str = "default") -> list[float]:
    return values("default/runs.jsonl", figure, source=source, scenario=scenario, row=row)


def measured() -> Iterator[tuple[str, str, str]]:
    """What a page calls each measured set, its name in the raw file, and its scenario."""
    for source, name in OWN.items():
        if of_default(source, "own"):
            yield name, source, "own"
    for source, name in BENCHMARKS.items():
        for scenario in SCENARIOS:
            if of_default(source, scenario):
                yield f"{name}, {scenario.capitalize()}", source, scenario


def accuracy_by_row(columns: Iterable[str]) -> str:
    columns = [row for row in columns if values("default/runs.jsonl", row=row)]
    rows = ([name, *(spread(of_default(*of, row=row)) for row in columns)] for name, *of in measured())
    return markdown(["Data", *(COLUMNS[row] for row in columns)], rows)


def readme() -> str:
    return accuracy_by_row(COLUMNS)


def default_in_full() -> str:
    figures = {"macro_f1": 3, "calibration_error": 3, "bag_accuracy": 3, "seconds": 0}
    head = ["Data", "accuracy", "macro F1", "calibration error", "bags right", "seconds", "folds"]
    rows = []
    for name, *of in measured():
        accuracy = of_default(*of)
        shown = (mean(of_default(*of, figure), digits) for figure, digits in figures.items())
        rows.append([name, spread(accuracy), *shown, str(len(accuracy))])
    return markdown(head, rows)


# ---------------------------------------------------------------------- tables and embeddings

LEARNERS = {  # rows of results/tables/results.jsonl
    "naive forest": "naive forest",
    "divided forest": "divided forest",
    "forest": "`forest`",
    "quick": "`quick`",
    "default": "**default**",
}


def held_back_tables() -> str:
    """Accuracy on sets and folds that nothing was chosen on, and means of other figures."""
    read_lines = (line for line in read("tables/results.jsonl") if line["row"] in LEARNERS)
    lines = pd.DataFrame(line for line in read_lines if not line["development"])
    columns = [row for row in LEARNERS if (lines["row"] == row).any()]
    lines = lines[lines.groupby("cell")["row"].transform("nunique") == len(columns)]  # like with like

    def row(name: str, of: pd.DataFrame, figure: str, digits: int = 3) -> list[str]:
        return [name, *(mean(of[of["row"] == column][figure].tolist(), digits) for column in columns)]

    rows = [row(f"{name} ({of['cell'].nunique()})", of, "accuracy") for name, of in lines.groupby("set", sort=False)]
    means = {"accuracy": 3, "macro_f1": 3, "calibration_error": 3, "cpu_seconds": 1}
    rows += [row(f"mean {figure.replace('_', ' ')}", lines, figure, digits) for figure, digits in means.items()]
    return markdown(["", *(LEARNERS[column] for column in columns)], rows)


# ---------------------------------------------------------------------- the paper's tables


def full_length(source: str, name: str, figure: str = "instance_accuracy") -> list[list[float]]:
    """By scenario: the cells of the paper's protocol with this name, at full length, in the order of folds."""
    cells = [f"{source}/{scenario}/{name}/fold" for scenario in SCENARIOS]
    lines = sorted(read(FULL), key=lambda line: line["cell"])
    return [[line[figure] for line in lines if line["cell"].startswith(cell)] for cell in cells]


def published(method: str, source: str) -> list[float | None]:
    return [printed_accuracy(method, scenario, source) for scenario in SCENARIOS]


def beside_published(rows: Iterable[tuple[str, Iterable[str], Iterable[float | None]]]) -> str:
    """Of each method what was measured and, in brackets, what is printed in the paper."""
    cells = []
    for name, ours, theirs in rows:
        both = zip(ours, theirs, strict=True)
        cells.append([f"`{name}`", *(own if printed is None else f"{own} ({printed:.3f})" for own, printed in both)])
    return markdown(["Method", "Small", "Various", "Large"], cells)


def paper(source: str, methods: Sequence[str]) -> str:
    return beside_published((name, map(spread, full_length(source, name)), published(name, source)) for name in methods)


def paper_claims() -> str:
    sources = {"CIFAR-10": "cifar10", "SVHN": "svhn28", "PathMNIST": "pathmnist"}
    methods = ("count", "soft-count", "output-mean")

    def furthest(source: str) -> str:
        """The largest difference between a mean over folds and the printed value."""
        both = [zip(full_length(source, name), published(name, source), strict=True) for name in methods]
        return f"{max(abs(fmean(ours) - theirs) for pairs in both for ours, theirs in pairs):.3f}"

    def wins(better: str, other: str, source: str) -> str:
        """In how many folds of the three scenarios the one is more accurate than the other."""
        pairs = zip(full_length(source, better), full_length(source, other), strict=True)
        found = [ours > theirs for both in pairs for ours, theirs in zip(*both, strict=True)]
        return f"{sum(found)} of {len(found)}"

    def by_source(text: Callable[[str], str]) -> str:
        return ", ".join(f"{name} {text(source)}" for name, source in sources.items())

    def by_scenario(values: Iterable[Sequence[float]], form: str = ".3f") -> str:
        return ", ".join(f"{fmean(each):{form}}" for each in values)

    def others() -> list[float]:
        return [
            max(values(FULL, cell=f"cifar10/{of}/{cell}/fold0")[0] for cell in [*OTHERS.values()][:6])
            for of in SCENARIOS
        ]

    rates = {name: by_scenario(full_length("cifar10", name, "consistency_rate")) for name in methods}
    surplus = {part: ", ".join(surplus_of("output-mean", part)) for part in ("train", "test")}
    of_counts = by_scenario(values(FULL, cell=f"cifar10/{of}/count-of-counts/fold0") for of in SCENARIOS)
    fold0 = by_scenario(values(FULL, cell=f"cifar10/{of}/count/fold0") for of in SCENARIOS)
    best = by_scenario([value] for value in others())
    rows = [
        [
            'Accuracies of `count`, `soft-count` ("w/o Count") and `output-mean`',
            f"largest difference of a mean: {by_source(furthest)}",
            "reproduced on CIFAR-10; mostly a little lower on the other two",
        ],
        [
            "Counting is better than averaging",
            f"`count` above `output-mean` in {by_source(lambda of: wins('count', 'output-mean', of))} folds",
            "holds, except on PathMNIST Various, where nothing separates the methods",
        ],
        [
            "Counting is better than pooled features, attention and additive heads",
            f"CIFAR-10, fold 0: the best of six {best}; `count` {fold0}",
            "holds on CIFAR-10; `additive-transmil` is not run at full length",
        ],
        [
            "The temperature in the softmax of instances helps, most on Small",
            f"`count` above `soft-count` in {by_source(lambda of: wins('count', 'soft-count', of))} folds",
            "holds in most folds; the gain is large on SVHN Small only",
        ],
        [
            "The bag's class is a softmax of counts",
            f"CIFAR-10, fold 0: of counts {of_counts}; of proportions {fold0}",
            "the printed values are those of proportions",
        ],
        [
            "The label that is predicted agrees with the count most often with counting",
            f"CIFAR-10: `count` {rates['count']}; `output-mean` {rates['output-mean']}",
            "holds on Various, not on Small",
        ],
        [
            "Averaging overestimates the majority, most on Small",
            f"`output-mean` on CIFAR-10: training bags {surplus['train']}; test bags {surplus['test']}",
            "holds for training bags; on test bags every method underestimates it",
        ],
    ]
    return markdown(["The paper says", "Measured: Small, Various, Large", "Verdict"], rows)


def paper_others() -> str:
    rows = []
    for name, cell in OTHERS.items():
        found = [values(FULL, cell=f"cifar10/{scenario}/{cell}/fold0") for scenario in SCENARIOS]
        rows.append((name, map(mean, found), published(name, "cifar10")))
    return beside_published(rows)


def paper_variants() -> str:
    names = {
        "count": "`count`",
        "count-of-counts": "`count`, softmax of the counts, as the text of the paper has it",
        "count-mpem": "`count`, recipe `mpem`, ratios 0.3, 0.5, 0.7",
    }
    cells = {name: [f"cifar10/{scenario}/{name}/fold0" for scenario in SCENARIOS] for name in names}
    found = {name: [values(FULL, cell=cell) for cell in cells[name]] for name in names}
    return markdown(["", "Small", "Various", "Large"], ([names[name], *map(mean, found[name])] for name in names))


def paper_consistency() -> str:
    rows = []
    for name in paper_runs.MAIN:
        theirs = [printed_consistency(name, scenario) for scenario in SCENARIOS]
        rows.append((name, map(mean, full_length("cifar10", name, "consistency_rate")), theirs))
    return beside_published(rows)


def surplus_of(method: str, part: str) -> list[str]:
    """By scenario: the mean overestimation of the majority on CIFAR-10."""
    with (RESULTS / "paper/overestimation.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["source"] == "cifar10" and line["cell"] == method]
    found = {(line["scenario"], line["part"]): f"{float(line['mean']):+.1f}" for line in lines}
    return [found[scenario, part] for scenario in SCENARIOS]


def paper_overestimation() -> str:
    rows = []
    for name in paper_runs.MAIN:
        both = zip(surplus_of(name, "train"), surplus_of(name, "test"), strict=True)
        rows.append([f"`{name}`", *map(" / ".join, both)])
    return markdown(["Method", "Small", "Various", "Large"], rows)


def paper_early() -> str:
    sources = {"cifar10": "cifar10", "svhn28": "svhn", "pathmnist": "pathmnist"}
    rows = []
    for name in ("count", "soft-count", "log-mean", "output-mean", "feature-mean", "attention"):
        ours, theirs = [], []
        for scenario in SCENARIOS:
            cells = [f"{source}/{scenario}/{name}/fold0" for source in sources]
            ours.append(mean([value for cell in cells for value in values(EARLY, cell=cell)]))
            printed = [printed_accuracy(name, scenario, source) for source in sources.values()]
            theirs.append(None if None in printed else fmean(printed))
        rows.append((name, ours, theirs))
    return beside_published(rows)


# ---------------------------------------------------------------------- speed


@cache
def read_json(file: str) -> dict:
    return json.loads((RESULTS / file).read_text())


def speed_of_training() -> str:
    loops = {
        "published": "as published: one Python transform per image, float32",
        "eager": "every kernel launched from Python (`--eager`)",
        "shipped": "**default**",
        "floor": "forward and backward pass alone, captured and compiled",
    }
    found = read_json("speed/h200.json")["loops"]["32x32 resnet18"]
    rows = ([name, f"{found[key]['seconds']:.3f}", f"{found[key]['peak_gib']:.1f} GiB"] for key, name in loops.items())
    return markdown(["Loop", "Seconds per epoch", "Peak GPU memory"], rows)


def speed_of_networks() -> str:
    loops = ("published", "eager", "shipped", "floor")
    found = read_json("speed/h200.json")["loops"]
    rows = ([name, *(f"{each[loop]['seconds']:.3f}" for loop in loops)] for name, each in found.items())
    return markdown(["Images, network", "as published", "`--eager`", "**default**", "lower bound"], rows)


def speed_of_commands() -> str:
    found = read_json("speed/startup-idle.json")["cpu_seconds"]["after"]
    return markdown(
        ["Command", "CPU seconds"], ([f"`majority {name}`", f"{of['median']:.2f}"] for name, of in found.items())
    )


TABLES: dict[str, Callable[[], str]] = {
    "readme": readme,
    "default": default_in_full,
    "tables": held_back_tables,
    "paper cifar10": lambda: paper("cifar10", paper_runs.MAIN),
    "paper pathmnist": lambda: paper("pathmnist", paper_runs.MAIN),
    "paper svhn": lambda: paper("svhn28", paper_runs.MAIN),
    "paper claims": paper_claims,
    "paper others": paper_others,
    "paper variants": paper_variants,
    "paper consistency": paper_consistency,
    "paper overestimation": paper_overestimation,
    "paper early": paper_early,
    "speed training": speed_of_training,
    "speed networks": speed_of_networks,
    "speed commands": speed_of_commands,
}


# ---------------------------------------------------------------------- files


def made_from_raw_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Write every file beside raw files that is made from them; yield it, and where it belongs."""
    out = folder / "paper"
    shutil.copytree(RESULTS / "paper", out, ignore=shutil.ignore_patterns("*.md", "*.csv", "*.svg"))
    paper_runs.write_overestimation(out / "paper-1500-epochs.jsonl")
    paper_runs.write_tables(out)
    yield from ((file, RESULTS / "paper" / file.name) for file in out.iterdir() if file.suffix != ".jsonl")
    (folder / "audit.md").write_text(audit.table_of(pd.read_csv(RESULTS / "audit/cells.csv")))
    yield folder / "audit.md", RESULTS / "audit/table.md"
    text = tables.markdown(tables.all_tables(StudyFigures(read_raw(RESULTS / "digits/results.jsonl"))), [])
    (folder / "digits.md").write_text("# Every method but additive-transmil on digits\n\n" + text)
    yield folder / "digits.md", RESULTS / "digits/tables.md"


def with_tables(text: str) -> str:
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[4]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for made, place in made_from_raw_files(Path(folder)):
            if not check:
                shutil.copy(made, place)
            elif not place.exists() or made.read_text() != place.read_text():
                wrong.append(f"{place.relative_to(ROOT)} is not that of its raw files")
    for page in PAGES:
        text = page.read_text()
        name, made = page.relative_to(ROOT), with_tables(text)
        if not check:
            page.write_text(made)
        elif made != text:
            wrong.append(f"{name}: a table is not that of its raw files")
        wrong += [f"{name}: no source of {row.strip()}" for row in FIGURE.findall(MARKED.sub("", text))]
    if wrong:
        raise SystemExit("\n".join([*wrong, "run `make tables`, and write figures as tables of benchmarks/pages.py"]))


if __name__ == "__main__":
    main()
