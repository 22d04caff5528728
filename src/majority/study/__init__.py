"""Studies: sources x scenarios x methods x folds, each cell a run folder, one table at the end."""

from .grid import Study, with_ranges
from .tables import aggregate, as_csv, as_markdown
from .workers import Done, run_cells

__all__ = ["Done", "Study", "aggregate", "as_csv", "as_markdown", "run_cells", "with_ranges"]
