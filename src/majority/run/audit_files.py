"""The files of an audit: audit.json (the design), to-label.csv, and the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import InputError
from ..files import read_json, write_json
from ..predict.audit import Sample

if TYPE_CHECKING:
    import pandas as pd

DESIGN, TO_LABEL, PAGE, ANSWERS = "audit.json", "to-label.csv", "label.html", "answers.csv"
CANNOT_TELL, OTHER = "cannot tell", "another class"
SHOWN = 5  # names in a message


class AuditRecord(BaseModel):
    """What is needed to compute figures from answers: no classifier and no bags."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["majority-audit-1"] = "majority-audit-1"
    audit: str  # identifies the classifier, its bags and the seed
    classifier: str  # a hash of its weights
    seed: int
    source: str | None  # another than the run's own
    classes: tuple[str, ...]
    sizes: tuple[int, ...]  # instances in each stratum
    expected: tuple[float, ...]  # share of errors that is expected there
    predicted_shares: tuple[float, ...]
    mean_probabilities: tuple[float, ...]
    mean_confidence: float
    bags: tuple[str, ...]  # of the drawn instances
    instances: tuple[str, ...]
    strata: tuple[int, ...]
    probabilities: tuple[tuple[float, ...], ...]

    @property
    def ids(self) -> list[str]:
        return [f"{self.audit}-{number:04d}" for number in range(1, len(self.bags) + 1)]

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    def sample(self, positions: np.ndarray, true: np.ndarray) -> Sample:
        """The answers for the drawn instances at these positions."""
        return Sample(
            np.array(self.strata)[positions],
            true,
            np.array(self.probabilities)[positions],
            np.array(self.sizes),
            np.array(self.expected),
            np.array(self.predicted_shares),
            np.array(self.mean_probabilities),
            self.mean_confidence,
        )


def write_record(folder: Path, record: AuditRecord) -> None:
    write_json(folder / DESIGN, record.model_dump(mode="json") | {"checksum": record.checksum})


def read_record(folder: Path) -> AuditRecord:
    """The design of an audit, as it was written."""
    path = folder / DESIGN
    if not path.is_file():
        raise InputError(f"{folder} holds no {DESIGN}: keep the answers in the folder that `majority audit` made")
    content = read_json(path, f"restore the file, or audit again with another --out than {folder}")
    checksum = content.pop("checksum", None)
    try:
        record = AuditRecord.model_validate(content)
    except ValidationError:
        record = None
    if record is None or record.checksum != checksum:
        what = f"{path} was edited or is of another version, so its figures could be wrong"
        raise InputError(f"{what}: put the original back, or audit again with another --out")
    return record


# ---------------------------------------------------------------------- answers


@dataclass(frozen=True)
class Answers:
    positions: np.ndarray  # (m,) of the answered instances among the drawn ones
    true: np.ndarray  # (m,) class; C: another class
    cannot_tell: int
    missing: int  # without an answer


def read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: save the answers on the page {PAGE}, or fill {TO_LABEL}") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a CSV file ({error}): save the answers again") from None


def read_answers(record: AuditRecord, table: pd.DataFrame, name: str = "answers") -> Answers:
    """The answers by their id; a cell that is empty is no answer."""
    for column in ("id", "answer"):
        if column not in table.columns:
            raise InputError(f"{name} has no column {column}: keep the columns of {TO_LABEL}, or save the page again")
    numbers = {id: position for position, id in enumerate(record.ids)}
    answers: dict[int, str] = {}
    for row, cells in enumerate(table.fillna("").astype(str).to_dict("records"), start=2):
        answer, position = cells["answer"].strip(), numbers.get(cells["id"])
        _check_row(record, cells, position, f"{name}, row {row}")
        if answer and answers.setdefault(position or 0, answer) != answer:
            what = f"{name}, row {row}: {cells['id']} is {answer} here and {answers[position or 0]} above"
            raise InputError(f"{what}: keep one of them")
    _check_classes(record, answers, name)
    known = {i: answer for i, answer in sorted(answers.items()) if answer != CANNOT_TELL}
    if not known:
        raise InputError(f"{name} names no class: fill the column answer, at least for some rows")
    codes = [len(record.classes) if answer == OTHER else record.classes.index(answer) for answer in known.values()]
    missing = len(record.bags) - len(answers)
    return Answers(np.array([*known]), np.array(codes), len(answers) - len(known), missing)


def _check_row(record: AuditRecord, cells: Mapping[Hashable, Any], position: int | None, place: str) -> None:
    if position is None:
        what = f"{place}: {cells['id'] or 'an empty id'} is none of the {len(record.bags)} instances of this audit"
        raise InputError(f"{what}: give the answers of this audit (its ids begin with {record.audit})")
    for column, expected in (("bag", record.bags[position]), ("instance", record.instances[position])):
        if column in cells and cells[column] != expected:
            what = f"{place}: {column} of {cells['id']} is {cells[column]}, and {expected} was drawn"
            raise InputError(f"{what}: change only the column answer")


def _check_classes(record: AuditRecord, answers: dict[int, str], name: str) -> None:
    unknown = sorted(set(answers.values()) - {*record.classes, CANNOT_TELL, OTHER})
    if unknown:
        listed = ", ".join(unknown[:SHOWN]) + (", ..." if len(unknown) > SHOWN else "")
        cure = f"write one of {', '.join(record.classes)}, or {OTHER}, or {CANNOT_TELL}"
        raise InputError(f"{name} has answers that are no class of this run ({listed}): {cure}")
