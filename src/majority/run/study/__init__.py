"""Studies: sources x scenarios x methods x folds, each cell a run folder, summarised in one table."""

from .cells import Cell, FinishedCell
from .grid import run_study
from .tables import aggregate, as_csv, as_markdown
from .workers import run_cells

__all__ = ["Cell", "FinishedCell", "aggregate", "as_csv", "as_markdown", "run_cells", "run_study"]
