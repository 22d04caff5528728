"""Classifier: a trained network that predicts, or the mean of several, and its file: safetensors with weights and
normalisation, and notes from which the network is rebuilt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from annotated_types import Gt
from torch import nn

from ..data.bags import Bags
from ..data.column_encoder import ColumnEncoder
from ..data.device import choose_device
from ..data.instance_labels import UNKNOWN
from ..data.segments import Segments
from ..errors import InputError
from ..fields import from_json
from ..files import decode_json
from ..nn.model import Model, ModelSpec, rebuild_model
from ..nn.weights import check_weights, read_weights, write_weights
from .evaluate import all_batches, outputs
from .predictions import Predictions

CLASSIFIER = "best.safetensors"  # in a run folder
REFITTED = "refit.safetensors"  # in a run folder: trained on all bags, also the test bags
FORMAT = "majority-classifier-1"
CURE = "replace it with an intact copy, or train again in another folder"  # a finished run is not repeated


class Notes(NamedTuple):
    """What the file of a classifier says besides its weights."""

    format: str
    spec: ModelSpec
    about: dict[str, Any]
    encoder: ColumnEncoder | None = None  # how the columns of a table became features
    temperature: Annotated[float, Gt(0)] = 1.0


def check_threshold(abstain_below: float | None) -> None:
    is_number = isinstance(abstain_below, Real) and not isinstance(abstain_below, bool)
    if abstain_below is not None and not (is_number and 0 <= abstain_below <= 1):
        raise InputError(f"threshold {abstain_below}: give a probability from 0 to 1 (--abstain-below, abstain_below)")


class Classifier:
    """Classifies single instances, and bags by counting their instances.

    Args:
        model: A trained `Model`.
        device: auto, cpu, cuda, cuda:N or mps.
        columns: The names of the features, if instances are rows of a table.
        temperature: Divides the logarithms of the probabilities.

    >>> from majority import Bags, build_model
    >>> bags = Bags.from_lists([np.zeros((3, 2)), np.ones((1, 2))], labels=["cat", "dog"])
    >>> classifier = Classifier(build_model(bags, "log-mean"))
    >>> classifier.predict_proba(np.zeros((5, 2), "float32")).shape
    (5, 2)
    >>> classifier
    Classifier(method log-mean, instances of shape (2,), classes: cat, dog)
    """

    def __init__(
        self,
        model: Model,
        device: str = "auto",
        columns: Sequence[str] | ColumnEncoder | None = None,
        temperature: float = 1.0,
    ):
        """`columns` are the names of the features if they come from a table, or how its columns became features. A data
        frame is then read by name.

        `temperature` divides the logarithms of probabilities; an audit finds it (`--calibrate`).
        """
        self.temperature = temperature
        self.members: tuple[Classifier, ...] = ()  # of which this is the mean; see `mean_of`
        self.device = choose_device(device)
        self.encoder: ColumnEncoder | None
        if columns is None or isinstance(columns, ColumnEncoder):
            self.encoder = columns
        else:
            self.encoder = ColumnEncoder.of_numbers(columns)
        self.model = model.to(self.device).eval()
        self.classes = np.asarray(model.spec.classes)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the features, if they come from a table."""
        return None if self.encoder is None else self.encoder.features

    def __repr__(self) -> str:
        spec, number = self.model.spec, f"{len(self.members)} x " if self.members else ""
        shown = ", ".join(spec.classes[:10]) + (", ..." if len(spec.classes) > 10 else "")
        return f"{number}Classifier(method {spec.method}, instances of shape {spec.instance_shape}, classes: {shown})"

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
        return self.probabilities(one_each)

    def _select_columns(self, instances: Any) -> Any:
        if self.encoder is None or not hasattr(instances, "columns"):
            return instances
        missing = [name for name in self.encoder.names if name not in instances.columns]
        if missing:
            known = ", ".join(self.encoder.names)
            raise InputError(f"there is no column {missing[0]}: this classifier was trained on {known}")
        return instances[list(self.encoder.names)] if self.encoder.plain else self.encoder.encode_frame(instances)

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
        """Yield a few bags at a time, in order: their numbers (b,) and the probabilities of their instances (n, C)."""
        if self.members:
            for batches in zip(*(member.stream(bags, calibrated) for member in self.members), strict=True):
                yield batches[0][0], np.mean([probabilities for _, probabilities in batches], axis=0)
            return
        self.model.spec.check(bags.store)
        for batch, output in outputs(self.model, all_batches(bags, self.device)):
            logs = output.instance_log_probs
            if calibrated and self.temperature != 1:
                logs = (logs / self.temperature).log_softmax(dim=1)
            yield batch.bags, logs.exp().cpu().numpy()

    def probabilities(self, bags: Bags, calibrated: bool = True) -> np.ndarray:  # (n, C)
        return np.concatenate([probabilities for _, probabilities in self.stream(bags, calibrated)])

    def predict_bags(self, bags: Bags, abstain_below: float | None = None) -> Predictions:
        """Count the predicted classes in each bag; of weighted instances, the largest sum of weights is the majority.

        Instances whose probability is below `abstain_below` are not counted. The majority of a bag without counted
        instances is an empty text.
        """
        check_threshold(abstain_below)
        found = [(of.argmax(axis=1), of.max(axis=1)) for _, of in self.stream(bags)]
        guess, confidence = map(np.concatenate, zip(*found, strict=True))
        if abstain_below is not None:
            guess[confidence < abstain_below] = UNKNOWN
        spec = self.model.spec
        background = None if spec.background is None else spec.background.index
        return Predictions(bags, spec.classes, guess, confidence, background=background)

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path, about: dict[str, Any] | None = None) -> Path:
        """Write one .safetensors file."""
        if self.members:
            raise InputError("the mean of several classifiers is not a single file: save each of them")
        spec, encoder = asdict(self.model.spec), None if self.encoder is None else asdict(self.encoder)
        facts = {"spec": spec, "about": about or {}, "encoder": encoder, "temperature": self.temperature}
        write_weights(Path(path), self.model.state_dict(), {"majority": json.dumps({"format": FORMAT} | facts)})
        return Path(path)

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
        content = decode_json(metadata.get("majority", "{}"), path, CURE)
        if content.get("format") != FORMAT:
            raise InputError(f"{path} has format {content.get('format')!r}, this version reads {FORMAT!r}")
        notes = from_json(Notes, content, path, CURE)
        try:
            model = rebuild_model(notes.spec, backbone)
            with torch.no_grad():  # tries the options of the method
                model.head.eval()(torch.zeros(1, model.n_features), Segments([1]))
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{path} is damaged (no network is like that: {error}): {CURE}") from error
        check_weights(weights, model.state_dict(), path, CURE)
        model.load_state_dict(weights)
        return cls(model, device, notes.encoder, notes.temperature)


def mean_of(members: Sequence[Classifier]) -> Classifier:
    """The classifier whose probabilities are the mean of those of others, such as those of all folds."""
    first = members[0]
    for member in members[1:]:
        if member.model.spec.classes != first.model.spec.classes or member.encoder != first.encoder:
            raise InputError("classifiers of different classes or columns cannot be averaged: train them on one source")
    mean = Classifier(first.model, str(first.device), first.encoder)
    mean.members = tuple(members)
    return mean
