"""Arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from .printing import log

if TYPE_CHECKING:
    from ..io.custom import ColumnNames
    from ..run.options import Option

SOURCE_HELP = (
    "A name from `majority list`, a .npz (MedMNIST's layout) or .mat (SVHN's layout) file; or bags of your own: "
    "a table (.csv, .tsv, .parquet), a folder of feature files, or a folder of images per bag."
)
Source = Annotated[str | None, Parameter(help=SOURCE_HELP, show_default=False)]
RunFolder = Annotated[Path, Parameter(help="A run folder: the --out of `majority train`.")]
OtherSource = Annotated[str | None, Parameter(help="Use the bags of this source instead of the run's own.")]
Device = Annotated[str, Parameter(help="auto, cpu, cuda, cuda:N or mps.")]
AllParts = Annotated[
    bool, Parameter(name="--all", help="Include training and validation bags.", negative="", show_default=False)
]
Shard = Annotated[
    str | None, Parameter(metavar="I/N", help="Do only part I of N parts, e.g. 2/8: for job arrays of a scheduler.")
]
On = Annotated[str, Parameter(metavar="PLACE", help="local (this machine), or ray: the Ray cluster at RAY_ADDRESS.")]


def of_columns() -> Mapping[str, Option]:
    from ..run.config import Columns
    from ..run.options import options_of

    return options_of(Columns)


def column_names(options: dict[str, Any]) -> ColumnNames | None:
    """None if no option was given: the columns are then called as in training."""
    from ..run.config import Columns
    from ..run.options import checked
    from ..run.reopen import column_names

    return column_names(checked(Columns, options)) if options else None


def note_on_names(*sources: str) -> None:
    """Print a note on each source whose name is also that of a file or folder."""
    for source in sources:
        if os.path.exists(source):  # otherwise nothing has to be imported
            from ..io import note_on_name

            if note := note_on_name(source):
                log(f"note: {note}")
