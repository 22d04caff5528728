"""Studies: sources x scenarios x methods x folds, each cell a run folder, one table at the end."""

from .grid import Study
from .tables import aggregate, as_csv, as_markdown

__all__ = ["Study", "aggregate", "as_csv", "as_markdown"]
