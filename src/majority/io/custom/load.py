"""Reading bags of your own: `load_custom` returns them or raises one error that lists the first
problems, `check` returns all findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.labels import SEPARATOR, describe_kinds, split_label
from ...errors import InputError, count_noun
from ...files import check_regular, missing_file
from .bag_table import check_possible, named_classes, sorted_classes
from .content import Content, check_known_classes, count_true_classes, warn_of_further_classes
from .custom_bags import SPLITS, CustomBags
from .feature_folder import read_folder
from .findings import Findings, Problem, UnreadableError
from .image_folder import is_image_folder, read_image_folder
from .manifest import read_manifest
from .names import abbreviate_names
from .parquet import is_parquet
from .read_options import ReadOptions


@dataclass(frozen=True)
class SourceCheck:
    """The result of `check_source`."""

    summary: dict[str, str]  # what the source contains; empty if it could not be read
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(path: Path, options: ReadOptions) -> SourceCheck:
    """The summary of a manifest or a folder, with all problems and warnings."""
    content, findings = _read(path, options)
    if content is not None and not findings.problems:
        try:
            bags = content.to_custom_bags(path.resolve().stem, options, findings)
            if options.training:
                bags.make_parts()
        except InputError as error:  # raised by Bags or by the division into parts, as `majority train` would
            findings.add_error(content.file, error)
    return SourceCheck(
        {} if content is None else summarise(content, options.training), findings.problems, findings.warnings
    )


def load_custom(path: Path, options: ReadOptions) -> CustomBags:
    """The bags of a manifest or a folder. If there are problems, one error lists them."""
    content, findings = _read(path, options)
    findings.raise_problems(path, for_classifier=options.for_classifier)
    assert content is not None  # otherwise there are problems
    return content.to_custom_bags(path.resolve().stem, options, findings)


def _read(path: Path, options: ReadOptions) -> tuple[Content | None, Findings]:
    if not path.exists():
        raise missing_file(path, "file or folder")
    if not path.is_dir():
        check_regular(path)
    findings = Findings()
    try:
        content = _reader(path)(path, options, findings)
    except UnreadableError:
        return None, findings
    check_known_classes(content, options, findings)
    if options.labels and len(content.bags) == len(content.sizes):  # otherwise some bags have problems
        check_possible(content.bags, content.sizes, content.file, options.classes or (), findings)
    if content.instance_labels is not None:
        warn_of_further_classes(content.bags, content.instance_labels, options, findings)
        if options.training:
            _compare_with_true_classes(content, content.instance_labels, findings)
    return content, findings


def _reader(path: Path) -> Callable[[Path, ReadOptions, Findings], Content]:
    if not path.is_dir() or is_parquet(path):
        return read_manifest
    return read_image_folder if is_image_folder(path) else read_folder


def _compare_with_true_classes(content: Content, instance_labels: np.ndarray, findings: Findings) -> None:
    """Warn of bag labels that are not the most common true class, in bags in which all true classes are known."""
    bags = content.bags
    labels = bags["label"].to_numpy()  # (b,)
    counts = count_true_classes(content.sizes, instance_labels, content.weights)  # (bags, true classes)
    counts = counts[labels[counts.index] != ""]
    names = np.array(sorted({*named_classes(bags)}))
    counts = counts.reindex(columns=names, fill_value=0)  # a --background is not counted
    allowed = [counts.columns.isin(split_label(label)) for label in labels[counts.index]]
    own = np.where(np.array(allowed).reshape(counts.shape), counts.to_numpy(), -1).max(axis=1, initial=-1)
    outvoted = counts.index[own < counts.max(axis=1)]
    if len(outvoted):
        example = bags["bag"].iloc[outvoted[0]]
        count = "1 bag has" if len(outvoted) == 1 else f"{len(outvoted)} bags have"
        by_weight = "" if content.weights is None else " by weight"
        findings.warn(f"{count} a label other than the most common true class{by_weight}, e.g. {example}")


def summarise(content: Content, training: bool) -> dict[str, str]:
    """What the source contains, even if it has problems."""
    bags, sizes, store = content.bags, content.sizes, content.store
    shape, kind = "", "images"
    if store is not None:
        shape = f" of {'x'.join(map(str, store.shape[1:]))}"
        if content.image_files is not None:
            shape += content.image_files.changes(store.shape[1:])
        if store.ndim == 2:
            kind = f"vectors ({store.dtype})"
    labels = bags["label"] if "label" in bags else pd.Series(dtype=object)
    several = labels.str.contains(SEPARATOR, regex=False) if len(labels) else labels.astype(bool)
    counts = labels[~several].value_counts()
    classes = [f"{name} ({count_noun(counts[name], 'bag')})" for name in sorted_classes(set(counts.index) - {""})]
    splits = ", ".join(f"{split} {(bags['split'] == split).sum()}" for split in SPLITS) if "split" in bags else ""
    summary = {
        "bags": f"{len(bags):,}",
        "instances": f"{sizes.sum():,} {kind}{shape}",
        "bag sizes": f"{sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.0f}",
        "classes": ", ".join(classes) or "-",
        **_summarise_labels(bags, several),
        "splits": splits or ("none given: divided 60/20/20 by class" if training else "none given"),
        "groups": f"{bags['group'].nunique():,}" if "group" in bags else "none given",
    }
    usable_weights = content.weights is None or bool((content.weights > 0).all())
    if content.weights is not None and usable_weights:
        low, high = content.weights.min(), content.weights.max()
        summary["weights"] = f"{low:g} to {high:g}, median {np.median(content.weights):g}"
    if content.columns:
        summary["features"] = f"{count_noun(len(content.columns), 'column')}: {abbreviate_names(content.columns)}"
    if content.embedding is not None:
        facts = content.embedding
        sides = "x".join(map(str, facts.image_shape))
        summary["embedded by"] = f"{Path(facts.model).name} (sha256 {facts.sha256[:12]}...), from images of {sides}"
    if content.instance_labels is not None and usable_weights:
        summary |= _summarise_true_classes(sizes, content.instance_labels, content.weights)
    return summary


def _summarise_labels(bags: pd.DataFrame, several: pd.Series) -> dict[str, str]:
    """How many labels say less or more than the winner."""
    if "label" not in bags:
        return {}
    ranked = int((bags["second_label"] != "").sum()) if "second_label" in bags else 0
    shown = describe_kinds(int(several.sum()), ranked, int((bags["label"] == "").sum()))
    return {"labels": shown} if shown else {}


def _summarise_true_classes(
    sizes: np.ndarray, instance_labels: np.ndarray, weights: np.ndarray | None
) -> dict[str, str]:
    counts, summary = count_true_classes(sizes, instance_labels, weights).to_numpy(), {}
    if len(counts) < len(sizes):
        known = f"{(instance_labels != '').sum():,} of {sizes.sum():,} instances"
        summary["true classes"] = f"known for {known}; bags with all classes known: {len(counts):,}"
    if len(counts):
        top = counts.max(axis=1)
        shares, ties = top / counts.sum(axis=1), ((counts == top[:, None]).sum(axis=1) > 1).sum()
        summary["majority"] = f"{shares.min():.0%} to {shares.max():.0%} of a bag, median {np.median(shares):.0%}"
        summary["ties"] = f"{ties} of {len(counts)} bags"
    return summary
