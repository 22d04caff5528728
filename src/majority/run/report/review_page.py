"""The page of a review: the bags whose label is probably wrong, with their pictures."""

from __future__ import annotations

from pathlib import Path

from ...errors import count_noun
from ...files import write_text
from ..review import Review
from . import sections
from .blocks import Block, Lead, Note, Section, write_html


def write_review_page(path: Path, review: Review) -> Path:
    found = sections.count_probable(review)
    labelled = count_noun(review.labelled, "labelled bag")
    about = (
        f"The labels of {found:,} of {labelled} are probably wrong; the counts contradict {len(review.suspicions):,}."
    )
    how = f"Write the right labels into the column corrected_label of {path.stem}.csv, and train again with --labels."
    blocks: list[Block] = [Lead(about), Note(f"The most certain come first. {how}")]
    if review.parts:
        blocks.append(Note(sections.legend(next(iter(review.parts.values())).classes)))
    section = Section("suspicious", "", "Labels to look at", [*blocks, sections.suspicious(review)])
    write_text(path, write_html("review", path.stem, [section]))
    return path
