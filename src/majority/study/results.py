"""The results of a study's finished cells, read from its run folders or from the lines they were gathered in."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..files import read_json, read_lines, write_lines
from ..runs import RESULT
from ..training import METRICS

RESULTS = "results.jsonl"
CURVE_POINTS = 100  # of each learning curve that are kept
CURVES = ("train_loss", "val_loss", "train_bag_accuracy", "val_bag_accuracy")


def gather(study: str | Path) -> list[dict]:
    """One dict a finished cell: its result.json, `cell` (its folder below the study's) and its thinned `curve`.

    Where there are no run folders, the lines of the folder's .jsonl files; a .jsonl file gives its lines.
    """
    study = Path(study)
    if study.is_file():
        return read_lines(study)
    places = sorted(study.rglob(RESULT))
    if places:
        return [_cell(place.parent, study) for place in places]
    results = [line for file in sorted(study.glob("*.jsonl")) for line in read_lines(file)]
    if not results:
        raise InputError(f"{study} holds no finished runs: give the --out of `majority study`, or a .jsonl it wrote")
    return results


def save(study: Path) -> Path:
    """Write STUDY/results.jsonl: what reports are made from, in one file that travels."""
    place = study / RESULTS
    write_lines(place, gather(study))
    return place


def _cell(folder: Path, study: Path) -> dict:
    history = read_lines(folder / METRICS)
    step = -(-len(history) // CURVE_POINTS) or 1
    kept = [*history[::step], *(history[-1:] if (len(history) - 1) % step else [])]
    curve = {"epoch": [record["epoch"] for record in kept]}
    curve |= {name: [round(record[name], 5) for record in kept] for name in CURVES}
    return read_json(folder / RESULT) | {"cell": str(folder.relative_to(study)), "curve": curve}
