"""Classifier: a trained model that predicts. One safetensors file holds its weights, normalisation and class names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
from torch import nn

from ..data.bags import Bags
from ..data.device import choose_device
from ..data.winners import lead_of, majority_of
from ..errors import InputError
from ..files import decode_json
from ..nn.model import Model, ModelSpec, check_options_of, rebuild_model, shapes_of
from ..nn.weights import check_weights, read_weights, write_weights
from ..parsing import parse_record
from .evaluate import all_batches, outputs

CLASSIFIER = "best.safetensors"  # in a run folder
REFITTED = "refit.safetensors"  # in a run folder: trained on all bags, also the test bags
FORMAT = "majority-classifier-1"
CURE = "replace it with an intact copy, or train again in another folder"  # a finished run is not repeated


def check_threshold(abstain_below: float | None) -> None:
    is_number = isinstance(abstain_below, Real) and not isinstance(abstain_below, bool)
    if abstain_below is not None and not (is_number and 0 <= abstain_below <= 1):
        raise InputError(f"threshold {abstain_below}: give a probability from 0 to 1 (--abstain-below, abstain_below)")


class BagPredictions(NamedTuple):
    counts: np.ndarray  # (b, C) instances predicted as each class; without those that it abstains from
    majority: np.ndarray  # (b,) class name with the highest count (first class on ties; the background if none votes)
    share: np.ndarray  # (b,) share of that class among the voting instances; 0 if none votes
    margin: np.ndarray  # (b,) share minus the share of the next class
    weighted_counts: np.ndarray | None = None  # (b, C) sums of their weights, by which the others are; None: no weights


class _Notes(TypedDict):
    columns: NotRequired[list[str] | None]
    temperature: NotRequired[float]


class Classifier:
    """Classifies single instances, and bags by counting their instances.

    >>> from majority import Bags, build_model
    >>> bags = Bags.from_lists([np.zeros((3, 2)), np.ones((1, 2))], labels=["cat", "dog"])
    >>> classifier = Classifier(build_model(bags, "log-mean"))
    >>> classifier.predict_proba(np.zeros((5, 2), "float32")).shape
    (5, 2)
    >>> classifier
    Classifier(method log-mean, instances of shape (2,), classes: cat, dog)
    """

    def __init__(
        self, model: Model, device: str = "auto", columns: Sequence[str] | None = None, temperature: float = 1.0
    ):
        """`columns` are the names of the features if they come from a table. A data frame is then read by name.

        `temperature` divides the logarithms of probabilities; an audit finds it (`--calibrate`).
        """
        self.temperature = temperature
        self.device, self.columns = choose_device(device), None if columns is None else tuple(columns)
        self.model = model.to(self.device).eval()
        self.classes = np.asarray(model.spec.classes)

    def __repr__(self) -> str:
        spec = self.model.spec
        shown = ", ".join(spec.classes[:10]) + (", ..." if len(spec.classes) > 10 else "")
        return f"Classifier(method {spec.method}, instances of shape {spec.instance_shape}, classes: {shown})"

    # ------------------------------------------------------------------ single instances

    def predict_proba(self, instances: Any) -> np.ndarray:  # (n, C)
        """The probability of each class for each instance: uint8 images, vectors, or a data frame, as in training."""
        if self.model.head.needs_bag:
            raise InputError(
                f"method {self.model.spec.method} classifies an instance only within its bag: "
                "use predict_bags, or train a method that classifies single instances"
            )
        instances = np.asarray(self._select_columns(instances))
        self.model.spec.check(instances)
        if len(instances) == 0:
            return np.empty((0, len(self.classes)), np.float32)
        n = len(instances)
        one_each = Bags(instances, np.arange(n), np.arange(n + 1), np.zeros(n, np.int64), self.classes)
        return np.concatenate([probabilities for _, probabilities in self.stream(one_each)])

    def _select_columns(self, instances: Any) -> Any:
        if self.columns is None or not hasattr(instances, "columns"):
            return instances
        missing = [name for name in self.columns if name not in instances.columns]
        if missing:
            known = ", ".join(self.columns)
            raise InputError(f"there is no column {missing[0]}: this classifier was trained on {known}")
        return instances[list(self.columns)]

    def predict(self, instances: Any, abstain_below: float | None = None) -> np.ndarray:  # (n,)
        """The class name of each instance; an empty text if its probability is below `abstain_below`."""
        check_threshold(abstain_below)
        return self.name_classes(self.predict_proba(instances), abstain_below)

    def name_classes(self, probabilities: np.ndarray, abstain_below: float | None = None) -> np.ndarray:  # (n,)
        """(n, C) -> the name of the class with the highest probability of each row, or an empty text."""
        names = self.classes[probabilities.argmax(axis=1)]
        return names if abstain_below is None else np.where(probabilities.max(axis=1) < abstain_below, "", names)

    # ------------------------------------------------------------------ bags

    def stream(self, bags: Bags, calibrated: bool = True) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield a few bags at a time: their numbers (b,) and the probabilities of their instances (n, C)."""
        self.model.spec.check(bags.store)
        for batch, output in outputs(self.model, all_batches(bags, self.device)):
            logs = output.instance_log_probs
            if calibrated and self.temperature != 1:
                logs = (logs / self.temperature).log_softmax(dim=1)
            yield batch.bags, logs.exp().cpu().numpy()

    def predict_bags(self, bags: Bags, abstain_below: float | None = None) -> BagPredictions:
        """Count the predicted classes in each bag; of weighted instances, the largest sum of weights is the majority.

        Instances whose probability is below `abstain_below` are not counted. The majority of a bag without counted
        instances is an empty text.
        """
        check_threshold(abstain_below)
        counts = np.zeros((len(bags), len(self.classes)), np.int64)
        weighted = None if bags.weights is None else np.zeros(counts.shape)
        for numbers, probabilities in self.stream(bags):
            rows, counted = np.repeat(numbers, bags.sizes[numbers]), probabilities.max(axis=1) >= (abstain_below or 0)
            cells = rows[counted], probabilities.argmax(axis=1)[counted]
            np.add.at(counts, cells, 1)
            if weighted is not None and bags.weights is not None:
                np.add.at(weighted, cells, bags.weights[bags.positions(numbers)][counted])
        return self.summarise_counts(counts, weighted)

    def summarise_counts(self, counts: np.ndarray, weighted: np.ndarray | None = None) -> BagPredictions:
        """(b, C) instances predicted as each class, and sums of their weights -> the majority of each bag."""
        background = self.model.spec.background
        index = None if background is None else background.index
        votes = counts if weighted is None else weighted
        majority = np.where(counts.any(axis=1), self.classes[majority_of(votes, index)], "")
        return BagPredictions(counts, majority, *lead_of(votes, index), weighted)

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path, about: dict[str, Any] | None = None) -> Path:
        """Write one .safetensors file."""
        path = Path(path)
        notes: dict[str, Any] = {
            "format": FORMAT,
            "spec": self.model.spec.as_dict(),
            "about": about or {},
            "columns": self.columns,
        }
        notes |= {} if self.temperature == 1 else {"temperature": self.temperature}
        write_weights(path, self.model.state_dict(), {"majority": json.dumps(notes)})
        return path

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", backbone: nn.Module | None = None) -> Classifier:
        """Read a file that `save` has written, or the classifier of a run folder: as in `majority predict` for other
        bags, the one that was trained on all bags, if there is one. A custom backbone must be passed again."""
        path = Path(path)
        if path.is_dir():
            path = path / (REFITTED if (path / REFITTED).is_file() else CLASSIFIER)
        if not path.is_file():
            raise InputError(f"there is no classifier file {path}: give a file or a finished run folder")
        weights, metadata = read_weights(path, CURE)
        notes = decode_json(metadata.get("majority", "{}"), path, CURE)
        if notes.get("format") != FORMAT:
            raise InputError(f"{path} has format {notes.get('format')!r}, this version reads {FORMAT!r}")
        spec = ModelSpec.from_record(notes.get("spec"), path, CURE)
        parsed = parse_record(_Notes, notes, path, CURE)
        columns, temperature = parsed.get("columns"), parsed.get("temperature", 1.0)
        if not 0 < temperature < float("inf"):
            raise InputError(f"{path} is damaged (temperature {temperature}): {CURE}")
        if columns is not None and (len(columns),) != spec.instance_shape:
            raise InputError(f"{path} is damaged ({len(columns)} columns, instances {spec.instance_shape}): {CURE}")
        check_weights(weights, shapes_of(spec, backbone), path, CURE)  # before memory is taken for them
        model = rebuild_model(spec, backbone)
        check_options_of(model)
        model.load_state_dict(weights)
        return cls(model, device, columns, temperature)


class AveragedClassifier(Classifier):
    """The mean of the probabilities of several classifiers with the same classes, such as those of all folds."""

    def __init__(self, members: Sequence[Classifier]):
        first = members[0]
        for member in members[1:]:
            if member.model.spec.classes != first.model.spec.classes or member.columns != first.columns:
                raise InputError(
                    "classifiers of different classes or columns cannot be averaged: train them on one source"
                )
        self.members = tuple(members)
        self.device, self.columns, self.model, self.classes = first.device, first.columns, first.model, first.classes
        self.temperature = 1.0  # each member has its own

    def __repr__(self) -> str:
        return f"{len(self.members)} x {self.members[0]!r}"

    def stream(self, bags: Bags, calibrated: bool = True) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for batches in zip(*(member.stream(bags, calibrated) for member in self.members), strict=True):
            yield batches[0][0], np.mean([probabilities for _, probabilities in batches], axis=0)

    def save(self, path: str | Path, about: dict[str, Any] | None = None) -> Path:
        raise InputError("the mean of several classifiers is not a single file: save each of them")
