"""Studies: sources x scenarios x methods x folds, each cell a run folder, summarised in one table."""

from .cells import FinishedCell
from .grid import Study, join_ranges
from .tables import aggregate, as_csv, as_markdown
from .workers import run_cells

__all__ = ["FinishedCell", "Study", "aggregate", "as_csv", "as_markdown", "join_ranges", "run_cells"]
