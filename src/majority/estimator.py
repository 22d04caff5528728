"""MajorityLabelClassifier: scikit-learn's contract, with bag ids as groups; and bag_accuracy, its scorer."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from .data.bags import Bags
from .data.device import BATCH_INSTANCES
from .data.segments import Segments
from .data.validation import missing
from .errors import InputError
from .inference.classifier import Classifier
from .methods import DEFAULT_METHOD, METHODS
from .model import build_model
from .training.loop import fit
from .training.settings import Settings

OWN_LABELS = 0.9  # of the rows that a model is surest of, how many have the class it says, where labels are rows' own
FEW_ROWS = 20  # below which that says nothing
FLOATS = [np.float64, np.float32]  # X of another kind becomes the first
CURE = (
    "pass groups=bag_ids (inside a Pipeline, GridSearchCV and their like after "
    "sklearn.set_config(enable_metadata_routing=True); inside cross_val_score then as params={'groups': bag_ids}); "
    "where each row is truly of its label, log so: groups=range(len(X))"
)


class MajorityLabelClassifier(ClassifierMixin, BaseEstimator):
    """An instance classifier trained on bags: `fit(X, y, groups=bag_ids)`, y the bag's label on each of its rows.

    X is a table of vectors. Without groups each row is its own bag, and this is an ordinary classifier; a warning
    says so where the labels look like those of bags. `predict` and `predict_proba` classify single rows;
    `score(X, y, groups)` is bag accuracy.

    >>> X = np.array([[0.0], [0.1], [9.0], [9.1], [9.0], [0.2]] * 5)
    >>> y = ["low", "low", "low", "high", "high", "high"] * 5
    >>> bags = np.repeat(np.arange(10), 3)
    >>> model = MajorityLabelClassifier(random_state=0).fit(X, y, groups=bags)
    >>> model.predict([[0.0], [9.0]]).tolist(), model.score(X, y, groups=bags)
    (['low', 'high'], 1.0)

    **Model selection** needs scikit-learn's metadata routing: without it, GridSearchCV hands groups to the
    splitter alone and every row would be trained on with its bag's label. With it, groups are asked for here
    and by `bag_accuracy` without further words (`set_fit_request(groups=False)` would stop that).

    >>> import sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     search = GridSearchCV(model, {"epochs": [1, 30]}, scoring=bag_accuracy, cv=GroupKFold(5))
    ...     search.fit(X, y, groups=bags).best_params_
    {'epochs': 30}

    `validation_fraction` of the bags is held out, and the epoch with their lowest loss is kept. Where those would
    be fewer than the classes, or a class would lose all its training bags, or the fraction is 0, nothing is held
    out: every bag is trained on and the epoch with the training bags' lowest loss is kept.

    Training may use a GPU (`device`); afterwards the model lies on the CPU and infers in float64.

    Attributes: `classes_`, `n_features_in_`, `feature_names_in_` (of a data frame), `classifier_` (a
    `majority.Classifier`: save it, export it), `best_epoch_`, `history_` (a record an epoch) and
    `validation_bags_` (how many were held out).
    """

    # With metadata routing on, groups are never lost by having forgotten to ask for them.
    __metadata_request__fit: ClassVar[dict] = {"groups": True}
    __metadata_request__score: ClassVar[dict] = {"groups": True, "sample_weight": None}  # a Pipeline passes both

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        method_options: Mapping | None = None,
        backbone: str | nn.Module = "auto",  # an mlp, or a module that gives (n, features)
        epochs: int = 20,
        batch_bags: int = 16,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-2,
        patience: int | None = None,  # epochs without a better loss before stopping
        max_instances: int | None = None,  # of a bag in a step: a fresh random part of larger bags
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",  # to train on; or auto, cuda
    ):
        self.method = method
        self.method_options = method_options
        self.backbone = backbone
        self.epochs = epochs
        self.batch_bags = batch_bags
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.max_instances = max_instances
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device

    def fit(self, X, y, groups: Sequence | None = None) -> MajorityLabelClassifier:
        """Train; `groups` holds the bag id of each row, and rows of one bag need not be neighbours."""
        _refuse_missing(y, "label")
        X, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        if METHODS.find(self.method).head.needs_bag:
            raise InputError(
                f"method {self.method} classifies an instance only within its bag, and predict(X) knows no bags: "
                "take a method that classifies single instances"
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        bags = _bags(X, codes, [str(name) for name in self.classes_], groups)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        train, held_out = self._split(bags, seed)
        backbone = copy.deepcopy(self.backbone)  # a module of the caller's stays untrained
        model = build_model(train, self.method, backbone, seed=seed, **self.method_options or {})
        names = ("epochs", "batch_bags", "learning_rate", "weight_decay", "patience", "max_instances")
        settings = Settings(**{name: getattr(self, name) for name in names}, seed=seed)
        fitted = fit(model, train, held_out or train, settings, device=self.device, title=None)
        self.classifier_ = Classifier(model, "cpu")
        self.best_epoch_ = fitted.best_epoch
        self.history_ = fitted.history
        self.validation_bags_ = len(held_out or ())
        self._trained_on_bags = len(bags) < len(X)
        if groups is None:
            self._doubt_labels(held_out if held_out and len(held_out) >= FEW_ROWS else bags)
        return self

    def predict_proba(self, X) -> np.ndarray:  # (n, C)
        """Probability of each class, in the order of `classes_`, for each row."""
        check_is_fitted(self)
        return self._probabilities(validate_data(self, X, dtype=FLOATS, reset=False))

    def _probabilities(self, X: np.ndarray) -> np.ndarray:  # (n, C)
        model = copy.deepcopy(self.classifier_.model).double().eval()  # rows are rounded alike in every batch
        with torch.inference_mode():
            pieces = torch.tensor(X).split(BATCH_INSTANCES)
            features = (model.backbone(model.normalise(piece)) for piece in pieces)
            outputs = [model.head(piece, Segments(np.ones(len(piece)))) for piece in features]
            return torch.cat([output.instance_log_probs for output in outputs]).exp().numpy()

    def predict(self, X) -> np.ndarray:  # (n,)
        """Class of each row."""
        winners = self.predict_proba(X).argmax(axis=1)
        return self.classes_[winners]

    def score(self, X, y, groups: Sequence | None = None) -> float:
        """Share of bags whose most common predicted class (the first on ties) is their label."""
        predicted = self.predict(X)
        if groups is None and self._trained_on_bags:
            warnings.warn(
                "score got no groups, so this is the share of single rows whose predicted class is y, and not bag "
                f"accuracy: {CURE}",
                UserWarning,
                stacklevel=2,
            )
        return _bag_accuracy(y, predicted, groups)

    def _split(self, bags: Bags, seed: int) -> tuple[Bags, Bags | None]:
        fraction = self.validation_fraction
        if not 0 <= fraction < 1:
            raise InputError(f"validation_fraction is {fraction}: it must be from 0 up and below 1")
        if fraction * len(bags) < len(bags.classes):
            return bags, None
        train, held_out = bags.split([1 - fraction, fraction], seed)
        lost_a_class = len(np.unique(train.labels)) < len(bags.classes)
        return (bags, None) if lost_a_class else (train, held_out)

    def _doubt_labels(self, rows: Bags) -> None:
        """Warn where even the rows that the model is surest of often have another label, as rows in bags do."""
        probabilities = self._probabilities(rows.instances())
        surest = probabilities.max(axis=1).argsort()[len(rows) // 2 :]
        share = (probabilities.argmax(axis=1) == rows.labels)[surest].mean()
        if len(rows) >= FEW_ROWS and share < OWN_LABELS:
            warnings.warn(
                "fit got no groups, so every row was taken as truly of its label; but of the half of the rows that the "
                f"model is surest of fewer than {OWN_LABELS:.0%} are, as if y held labels of bags: {CURE}",
                UserWarning,
                stacklevel=3,
            )


class BagAccuracy:
    """Scorer: share of bags whose most common predicted class is their label. It asks metadata routing for groups.

    `bag_accuracy(estimator, X, y, groups)`, for any classifier of rows.
    """

    def __call__(self, estimator, X, y, groups: Sequence | None = None) -> float:
        if groups is None:
            raise InputError(
                "bag_accuracy got no groups: pass groups=bag_ids and, for GridSearchCV and its like, first call "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        return _bag_accuracy(y, estimator.predict(X), groups)

    def __repr__(self) -> str:
        return "bag_accuracy"

    def get_metadata_routing(self) -> MetadataRequest:
        request = MetadataRequest(owner=repr(self))
        request.score.add_request(param="groups", alias=True)
        return request


bag_accuracy = BagAccuracy()


def _bags(X: np.ndarray, codes: np.ndarray, names: list[str], groups: Sequence | None) -> Bags:
    if groups is not None:
        return Bags.from_table(X, _bag_ids(groups, len(X)), np.asarray(names)[codes], names)
    return Bags(X, np.arange(len(X)), np.arange(len(X) + 1), codes, names)


def _bag_ids(groups: Sequence, rows: int) -> np.ndarray:
    ids = column_or_1d(groups)
    if len(ids) != rows:
        raise InputError(f"{rows} rows but {len(ids)} groups: give the bag id of each row")
    _refuse_missing(ids, "bag id")
    return ids.astype(str) if ids.dtype == object else ids


def _refuse_missing(values: Sequence | None, what: str) -> None:
    if values is None:
        return  # scikit-learn says that y is needed
    values = np.asarray(values, dtype=object).ravel()
    if len(rows := missing(values)):
        raise InputError(f"row {rows[0]} has no {what} ({values[rows[0]]}): give every row the {what} of its bag")


def _bag_accuracy(y: Sequence, predicted: np.ndarray, groups: Sequence | None) -> float:
    _refuse_missing(y, "label")
    y = column_or_1d(y)
    check_consistent_length(y, predicted)
    if groups is None:
        return float(accuracy_score(y, predicted))
    classes, codes = np.unique(predicted, return_inverse=True)
    votes = np.eye(len(classes), dtype=np.float32)[codes]  # (n, C)
    bags = Bags.from_table(votes, _bag_ids(groups, len(y)), y.astype(str))
    counts = np.add.reduceat(bags.instances(), bags.offsets[:-1])  # (b, C)
    labels = y[bags.index[bags.offsets[:-1]]]  # (b,)
    return float((classes[counts.argmax(axis=1)] == labels).mean())
