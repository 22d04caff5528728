"""The default beside what one would do otherwise, on the same bags.

    python benchmarks/default.py cifar10 pathmnist svhn28.npz --folds 2-4 --out results/default/runs.jsonl
    python benchmarks/default.py crops.csv --scenarios own --divisions 5 --folds 2-4 --out results/default/runs.jsonl

The rows, for --rows:

default     `majority train SOURCE`, nothing said
proportion  the same, given the true proportions of each bag
count       the paper's method as published: 1,500 epochs without augmentation
naive       each instance has the label of its bag
supervised  each instance has its own label: the upper bound

Each line of OUT is one training; one that has a line is not run again. table.md beside OUT has the mean ± standard
deviation over folds of each row.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from pathlib import Path
from statistics import fmean

from helpers import SCENARIOS, add_training_options, make_parser, mean_and_sd, numbers, read_raw, train

from majority.run.config import RunConfig
from majority.run.study import FinishedCell

ROWS: dict[str, dict] = {
    "default": {},
    "proportion": {"method": "proportion"},
    "count": {"method": "count", "recipe": "paper", "settings": {"training.epochs": 1_500}},
    "naive": {"method": "naive"},
    "supervised": {"method": "supervised"},
}
OWN = "own"  # the scenario of a file of bags
TINY = {"recipe": "quick", "epochs": 2}


def table(lines: list[dict]) -> str:
    """A row per source and scenario: accuracy of each row of ROWS, then figures of the default alone."""
    groups = defaultdict(list)
    for line in lines:
        groups[line["source"], line["scenario"], line["row"]].append(line)
    text = f"| source | scenario | {' | '.join(ROWS)} | macro F1 | calibration error | seconds | n |\n"
    text += "|---" * (len(ROWS) + 6) + "|\n"
    for source, scenario in dict.fromkeys(key[:2] for key in groups):
        shown = [_spread(groups[source, scenario, row]) for row in ROWS]
        ours = groups[source, scenario, "default"]
        for figure, digits in (("macro_f1", 3), ("calibration_error", 3), ("seconds", 0)):
            shown.append(f"{fmean(line[figure] for line in ours):.{digits}f}" if ours else "-")
        text += f"| {source} | {scenario} | {' | '.join(shown)} | {len(ours)} |\n"
    return text


def _spread(lines: list[dict]) -> str:
    if not lines:
        return "-"
    mean, deviation = mean_and_sd(line["instance_accuracy"] for line in lines)
    return f"{mean:.3f}" + (f" ± {deviation:.3f}" if deviation is not None else "")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help=f"{OWN}: the sources are files of bags")
    parser.add_argument("--folds", type=numbers, default="2-4")
    parser.add_argument("--divisions", type=int, help="number of folds of a file of bags")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="to test the code: recipe quick, 20 bags of 8, 2 epochs")
    add_training_options(parser, "runs/default")
    options = parser.parse_args()
    keys, cells = {}, {}
    for source, scenario, fold, row in product(
        options.sources, options.scenarios.split(","), options.folds, options.rows.split(",")
    ):
        bags = {"folds": options.divisions} if scenario == OWN else {"scenario": scenario}
        tiny = TINY | ({} if scenario == OWN else {"bags": 20, "bag_size": 8})
        changes = ROWS[row] | ({"settings": {}} | tiny if options.tiny else {})
        name = f"{Path(source).stem}/{scenario}/{row}/fold{fold}-seed{options.seed}"
        cells[name] = RunConfig.from_options(source, fold=fold, seed=options.seed, **bags, **changes)
        keys[options.work / name] = {"source": Path(source).stem, "scenario": scenario, "row": row}

    def line_of(cell: FinishedCell) -> dict:
        return cell.result | cell.result["test"] | keys[cell.folder]

    train(cells, options, line_of)
    options.out.with_name("table.md").write_text(table(read_raw(options.out)), encoding="utf-8")


if __name__ == "__main__":
    main()
