"""Review of a finished run: the bags whose label its counts contradict."""

from __future__ import annotations

from pathlib import Path

from ..errors import count_noun
from ..io.custom import ColumnNames
from ..log import Log, no_log
from .classified_bags import ClassifiedBags, classify_bags
from .folder import RESULT, finished_file, fold_folders
from .reopen import open_bags, reopen
from .suspicious import Review, review_labels, write_doubtful_instances, write_suspicious_bags


def review_run(
    folder: str | Path,
    source: str | None = None,
    *,
    names: ColumnNames | None = None,
    device: str = "auto",
    log: Log = no_log,
) -> Review:
    """Compare the labels of all bags of a run with the counts of its classifier; or those of another source.

    In the folder of a cross-validation, each bag is judged by the classifier that has not seen it. Otherwise the
    classifier of the run has learned from the labels of its training bags.
    """
    folder = Path(folder)
    folds = fold_folders(folder) if source is None else []
    if folds:
        log(f"each bag is classified by the one of {count_noun(len(folds), 'classifier')} that has not seen its label")
        return review_labels({fold.name: _classify_test_bags(fold, device) for fold in folds})
    finished_file(folder, RESULT)
    if source is None:
        classifier, parts, opened = reopen(folder, device=device)
        bags = parts.present()
    else:
        classifier, bags, opened = open_bags(
            folder, source, labels=True, review=True, names=names, device=device, log=log
        )
    return review_labels({part: classify_bags(classifier, of_part, opened) for part, of_part in bags.items()})


def _classify_test_bags(fold: Path, device: str) -> ClassifiedBags:
    finished_file(fold, RESULT)
    classifier, parts, opened = reopen(fold, device=device)
    assert parts.test is not None  # every fold has test bags
    return classify_bags(classifier, parts.test, opened)


def write_review(path: Path, review: Review) -> Path:
    """Write the bags to `path` and the instances to a file beside it, whose path is returned."""
    instances = instances_path(path)
    write_suspicious_bags(path, review)
    write_doubtful_instances(instances, review)
    return instances


def instances_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-instances{path.suffix}")
