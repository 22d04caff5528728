"""Studies: sources x scenarios x methods x folds, each cell a run folder, summarised in one report."""

from .grid import run_study
from .workers import Cell, FinishedCell, run_cells

__all__ = ["Cell", "FinishedCell", "run_cells", "run_study"]
