"""Tables of studies, and what they hold if nothing disturbs a study."""

import csv
from pathlib import Path

from majority.run.experiment import How, run_experiment
from majority.run.study.figures import StudyFigures
from majority.run.study.grid import study_cells
from majority.run.study.tables import long_csv
from majority.run.study_config import StudyConfig


def rows_of(out: Path) -> list[dict[str, str]]:
    """The instance accuracy of each row of a study."""
    with (out / "tables.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["figure"] == "instance_accuracy" and not row["reference"]]


def undisturbed_rows(source: str, folder: Path, epochs: int) -> list[dict[str, str]]:
    """Of two methods on two folds, trained in this process, one after the other."""
    options = {"bags": 20, "bag_size": 8, "recipe": "quick", "epochs": epochs}
    grid = {"scenarios": ("large",), "methods": ("log-mean", "naive"), "folds": (0, 1)}
    cells = study_cells(StudyConfig(sources=(source,), **grid, options=options), folder)
    results = [run_experiment(cell.config, place, How("cpu")) for place, cell in cells]
    (folder / "tables.csv").write_text(long_csv(StudyFigures(results)))
    return rows_of(folder)
