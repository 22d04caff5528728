"""Reading bags of your own: `load_custom` returns them or raises one error that lists the first
problems, `check` returns all findings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...errors import InputError, count_noun
from ...files import check_regular, missing_file
from .checks import OF_TRAINING
from .content import Content, make_bags
from .custom_bags import SPLITS, CustomBags
from .findings import Findings, Problem, ProblemError, abbreviate_names
from .folders import is_image_folder, read_feature_folder, read_image_folder
from .options import ReadOptions
from .rows import read_manifest
from .tables import is_parquet


@dataclass(frozen=True)
class SourceCheck:
    """The result of `check_source`."""

    summary: dict[str, str]  # what the source contains; empty if there are problems
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def check(path: Path, options: ReadOptions) -> SourceCheck:
    """The summary of a manifest or a folder, with all problems and warnings."""
    bags, findings = _read(path, options)
    if bags is None:
        return SourceCheck({}, findings.problems, findings.warnings)
    try:
        if options.training:
            bags.make_parts()
    except InputError as error:  # raised by the division into parts, as `majority train` would
        findings.add_problem(path, None, str(error), None)
    return SourceCheck(summarise(bags, options.training), findings.problems, bags.warnings_for(None))


def load_custom(path: Path, options: ReadOptions) -> CustomBags:
    """The bags of a manifest or a folder. If there are problems, one error lists them."""
    bags, findings = _read(path, options)
    findings.raise_problems(path)
    assert bags is not None  # otherwise there are problems
    return bags


def _read(path: Path, options: ReadOptions) -> tuple[CustomBags | None, Findings]:
    if not path.exists():
        raise missing_file(path, "file or folder")
    if not path.is_dir():
        check_regular(path)
    findings = Findings()
    is_table = not path.is_dir() or is_parquet(path)
    read = read_manifest if is_table else read_image_folder if is_image_folder(path) else read_feature_folder
    content: Content | None = None
    try:
        content = read(path, options, findings)
    except ProblemError as error:
        findings.problems.append(error.problem)
    if content is None or findings.problems:
        return None, findings
    try:
        bags = make_bags(content, path.resolve().stem, options, findings)
    except InputError as error:
        findings.add_problem(content.file, None, str(error), None)
        return None, findings
    if options.labels and not options.unlabelled and not bags.bags.labelled and "label" in content.bags:
        cure = "write the label of each bag that has one (only to predict, none is needed)"
        findings.add_problem(content.file, None, "no bag has a label", cure)
    elif options.training:
        for find in OF_TRAINING:
            findings.add(find(bags, content.file))
    return replace(bags, warnings=tuple(findings.warnings)), findings


def summarise(source: CustomBags, training: bool) -> dict[str, str]:
    """What the source contains."""
    bags, labels, split, files = source.bags, source.bags.bag_labels, source.split, source.image_files
    counts = zip(bags.classes, labels.counts.tolist(), strict=True)
    classes = [f"{name} ({count_noun(count, 'bag')})" for name, count in counts if count]
    splits = "" if split is None else ", ".join(f"{name} {(split == name).sum()}" for name in SPLITS)
    shape = "x".join(map(str, bags.store.shape[1:]))
    kind = f"vectors ({bags.store.dtype})" if bags.store.ndim == 2 else "images"
    summary = {
        "bags": f"{len(bags):,}",
        "instances": f"{len(bags.index):,} {kind} of {shape}",
        "image files": "" if files is None else str(files),
        "bag sizes": f"{bags.sizes.min():,} to {bags.sizes.max():,}, median {np.median(bags.sizes):,.0f}",
        "classes": ", ".join(classes) or "-",
        "labels": labels.describe_other_kinds() or "",
        "splits": splits or ("none given: divided 60/20/20 by class" if training else "none given"),
        "groups": "none given" if bags.groups is None else f"{len({*bags.groups.tolist()}):,}",
    }
    if source.encoder is not None:
        names = count_noun(len(source.encoder.names), "column")
        summary["features"] = f"{names}: {abbreviate_names(source.encoder.features)}"
    if source.embedding is not None:
        facts, sides = source.embedding, "x".join(map(str, source.embedding.image_shape))
        summary["embedded by"] = f"{Path(facts.model).name} (sha256 {facts.sha256[:12]}...), from images of {sides}"
    if bags.instance_labels is not None:
        complete = bags.fully_known
        known = f"{(bags.instance_labels >= 0).sum():,} of {len(bags.index):,} instances"
        summary["true classes"] = f"known for {known}; bags with all classes known: {complete.sum():,}"
        if complete.any():
            some = bags.subset(complete)
            shares = some.majority_proportions()
            summary["majority"] = f"{shares.min():.0%} to {shares.max():.0%} of a bag, median {np.median(shares):.0%}"
            summary["ties"] = f"{some.tie_rate():.1%} of {count_noun(len(some), 'bag')}"
    return {name: text for name, text in summary.items() if text}
