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

from helpers import SCENARIOS, add_training_options, make_parser, markdown, mean, numbers, read_raw, spread, train

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
    """A row per source and scenario: accuracy of each row of ROWS, then seconds of the default alone."""
    groups = defaultdict(lambda: defaultdict(list))
    for line in lines:
        groups[line["source"], line["scenario"]][line["row"]].append(line)
    rows = []
    for place, of in groups.items():
        accuracies = [spread([line["instance_accuracy"] for line in of[row]]) for row in ROWS]
        rows.append([*place, *accuracies, mean([line["seconds"] for line in of["default"]], 0)])
    return markdown(["source", "scenario", *ROWS, "seconds"], rows)


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
