"""The files of an audit: audit.json (the design), to-label.csv, and the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import InputError
from ..files import read_json
from ..io.custom import ColumnNames
from ..io.custom.corrections import read_filled
from ..predict.audit import Sample, estimate
from ..predict.audit_design import Whole
from ..predict.audit_figures import OTHER, AuditFigures, agreement_of

DESIGN, TO_LABEL, PAGE, ANSWERS = "audit.json", "to-label.csv", "label.html", "answers.csv"
CANNOT_TELL = "cannot tell"


class AuditRecord(BaseModel):
    """What is needed to compute figures from answers: no classifier and no bags."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["majority-audit-1"] = "majority-audit-1"
    audit: str  # identifies the classifier, its bags and the seed
    classifier: str  # a hash of its weights
    seed: int
    source: str | None  # another than the run's own
    names: ColumnNames | None  # of its columns
    whole: Whole
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


def figures_from(record: AuditRecord, given: Sequence[str | Path | pd.DataFrame]) -> AuditFigures:
    """What the answers in files or frames say, each of one annotator, who is called as the file. An instance counts if
    all who name a class name the same."""
    by: dict[str, dict[str, str]] = {}
    for number, one in enumerate(given, start=1):
        if isinstance(one, str | Path):
            name, who = str(one), Path(one).stem
            table = read_table(Path(one))
        else:
            name, who, table = "answers", f"annotator {number}", one.set_axis(range(2, len(one) + 2))
        by[name if who in by else who] = answers_in(record, table, name)
    told = {who: {id: answer for id, answer in of.items() if answer != CANNOT_TELL} for who, of in by.items()}
    given_by = pd.DataFrame(by).sort_index()  # id x annotator
    named = given_by.mask(given_by == CANNOT_TELL)
    agreed = named[named.nunique(axis=1) == 1].bfill(axis=1)
    if agreed.empty:
        raise InputError(f"{', '.join(by)}: no answer names a class: fill the column answer, at least in some rows")
    drawn = [record.ids.index(id) for id in agreed.index]
    strata, probabilities = np.array(record.strata)[drawn], np.array(record.probabilities)[drawn]
    true = np.array([(*record.whole.classes, OTHER).index(answer) for answer in agreed.iloc[:, 0]])
    return replace(
        estimate(Sample.of(record.whole, strata, true, probabilities)),
        cannot_tell=int(named.isna().all(axis=1).sum()),
        without_answer=len(record.bags) - len(given_by),
        agreement=agreement_of(told) if len(by) > 1 else None,
    )


def read_table(path: Path) -> pd.DataFrame:
    return read_filled(path, ("id", "answer"), "answers", "`majority audit`", ("bag", "instance"))


def answers_in(record: AuditRecord, table: pd.DataFrame, name: str) -> dict[str, str]:
    """The answer by id; a cell that is empty is no answer."""
    drawn = dict(zip(record.ids, zip(record.bags, record.instances, strict=True), strict=True))
    answers: dict[str, str] = {}
    for row, cells in table.fillna("").astype(str).to_dict("index").items():
        id, answer, place = cells["id"], cells["answer"].strip(), f"{name}, row {row}"
        if id not in drawn:
            what = f"{place}: {id or 'an empty id'} is none of the {len(drawn)} instances of this audit"
            raise InputError(f"{what}: give the answers of this audit (its ids begin with {record.audit})")
        for column, expected in zip(("bag", "instance"), drawn[id], strict=True):
            if cells.get(column, expected) != expected:
                what = f"{place}: {column} of {id} is {cells[column]}, and {expected} was drawn"
                raise InputError(f"{what}: change only the column answer")
        if answer not in ("", *record.whole.classes, CANNOT_TELL, OTHER):
            cure = f"write one of {', '.join(record.whole.classes)}, or {OTHER}, or {CANNOT_TELL}"
            raise InputError(f"{place}: {answer} is no class of this run: {cure}")
        if answer and answers.setdefault(id, answer) != answer:
            raise InputError(f"{place}: {id} is {answer} here and {answers[id]} above: keep one of them")
    return answers
