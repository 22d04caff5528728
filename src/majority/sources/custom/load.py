"""check: read everything of a source, report what it holds and everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import InputError, count_noun
from .bag_table import sorted_classes
from .content import Content, check_known_classes, warn_of_further_classes
from .custom_bags import SPLITS, CustomBags
from .feature_folder import read_folder
from .findings import Findings, Problem, UnreadableError
from .manifest import read_manifest
from .names import shown_names
from .request import ReadOptions, as_pixel_size


@dataclass(frozen=True)
class Check:
    summary: dict[str, str]  # what the source holds; empty where it could not be read
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(path: str | Path, image_size: int | None = None, features: tuple[str, ...] | None = None) -> Check:
    """The summary of a manifest or a folder, every problem, and warnings."""
    wish = ReadOptions(image_size=as_pixel_size(image_size), features=features)
    content, findings = _read(Path(path), wish)
    if content is not None and not findings.problems:
        try:
            content.make(Path(path).resolve().stem, wish, findings).make_parts()
        except InputError as error:  # what Bags itself or the dealing of `train` refuses
            findings.refused(content.file, error)
    return Check({} if content is None else summarise(content), findings.problems, findings.warnings)


def load_custom(path: Path, wish: ReadOptions) -> CustomBags:
    """The bags of a manifest or a folder; all problems in one message where there are any."""
    content, findings = _read(path, wish)
    findings.refuse(path, of_run=wish.of_run)
    return content.make(path.resolve().stem, wish, findings)


def _read(path: Path, wish: ReadOptions) -> tuple[Content | None, Findings]:
    if not path.exists():
        raise InputError(f"there is no file or folder {path}: check the path")
    findings = Findings()
    try:
        content = read_folder(path, wish, findings) if path.is_dir() else read_manifest(path, wish, findings)
    except UnreadableError:
        return None, findings
    check_known_classes(content, wish, findings)
    if content.instance_labels is not None:
        warn_of_further_classes(content, wish, findings)
        if wish.training:
            _compare_with_truth(content, findings)
    return content, findings


def _compare_with_truth(content: Content, findings: Findings) -> None:
    """A warning about bag labels that the true classes of all the bag's instances do not bear out."""
    labels, counts = content.bags["label"].to_numpy(), content.true_counts()  # (b,), (bags, true classes)
    of_bag = labels[counts.index]
    counts = counts.reindex(columns=np.unique(labels), fill_value=0)  # a --background does not vote
    own = counts.to_numpy()[np.arange(len(counts)), counts.columns.get_indexer(of_bag)]
    outvoted = counts.index[own < counts.max(axis=1)]
    if len(outvoted):
        example = content.bags["bag"].iloc[outvoted[0]]
        count = "1 bag has" if len(outvoted) == 1 else f"{len(outvoted)} bags have"
        findings.warn(f"{count} a label other than their most common true class, e.g. {example}")


def summarise(content: Content) -> dict[str, str]:
    """What was found, problems or not."""
    bags, sizes, store = content.bags, content.sizes, content.store
    shape = "" if store is None else "x".join(map(str, store.shape[1:]))
    changes = "" if content.image_files is None else content.image_files.changes(store.shape[1:])
    kind = "images" if content.paths is not None else f"vectors ({store.dtype})"
    wins = bags.get("label", pd.Series(dtype=object)).value_counts()
    splits = ", ".join(f"{split} {(bags['split'] == split).sum()}" for split in SPLITS) if "split" in bags else ""
    summary = {
        "bags": f"{len(bags):,}",
        "instances": f"{sizes.sum():,} {kind}" + (f" of {shape}{changes}" if shape else ""),
        "bag sizes": f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}",
        "classes": ", ".join(f"{name} wins {wins[name]}" for name in sorted_classes(set(wins.index) - {""})) or "-",
        "splits": splits or "none given: dealt 60/20/20 by class",
        "groups": f"{bags['group'].nunique():,}" if "group" in bags else "none given",
    }
    if content.columns:
        summary["features"] = f"{count_noun(len(content.columns), 'column')}: {shown_names(content.columns)}"
    if content.instance_labels is not None:
        summary |= _truth(content)
    return summary


def _truth(content: Content) -> dict[str, str]:
    counts, summary = content.true_counts().to_numpy(), {}
    if len(counts) < len(content.bags):
        known = f"{(content.instance_labels != '').sum():,} of {content.sizes.sum():,} instances"
        summary["true classes"] = f"known of {known}; bags known in full: {len(counts):,}"
    if len(counts):
        top = counts.max(axis=1)
        shares, ties = top / counts.sum(axis=1), ((counts == top[:, None]).sum(axis=1) > 1).sum()
        summary["majority"] = f"{shares.min():.0%} to {shares.max():.0%} of a bag, median {np.median(shares):.0%}"
        summary["ties"] = f"{ties} of {len(counts)} bags"
    return summary
