"""MajorityLabelClassifier, a scikit-learn estimator that takes bag ids as groups."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from ..data.bags import Bags
from ..data.columns import as_objects
from ..data.device import BATCH_INSTANCES, choose_device
from ..data.segments import Segments
from ..data.training_labels import with_training_labels
from ..errors import InputError
from ..nn.methods import AUTO, METHODS, check_options
from ..predict.classifier import Classifier
from ..recipes import DEFAULT, Plan, Run, TaskInfo, find_recipe, model_builder, train_by_plan
from .rows import is_special, make_bags, refuse_missing, share_of_bags_right

PLAN_PARAMETERS = ("epochs", "batch_bags", "learning_rate", "weight_decay", "patience", "max_instances")
FLOATS = [np.float64, np.float32]  # other types of X are converted to the first
CURE = (
    "pass groups=bag_ids (for a Pipeline, GridSearchCV and others, first call "
    "sklearn.set_config(enable_metadata_routing=True); for cross_val_score, then pass params={'groups': bag_ids}); "
    "if each row really has its own label, pass groups=range(len(X))"
)


class MajorityLabelClassifier(ClassifierMixin, BaseEstimator):
    """An instance classifier trained on bags: `fit(X, y, groups=bag_ids)`, where y repeats the bag's label on each row.

    X is a table of vectors. Without groups, each row is its own bag and this is an ordinary classifier, with a
    warning: pass groups=range(len(X)) if that is meant. `predict` and `predict_proba` classify single rows;
    `score(X, y, groups)` is the bag accuracy.

    Args:
        method: A name of `majority list`.
        method_options: Options of the method by name.
        recipe: How to train.
        settings: Any setting of the recipe by its name, such as "training.weight_decay".
        backbone: A name of `majority list --all`, or a module.
        epochs: None: the recipe's, as for the five below.
        batch_bags: Bags per step.
        learning_rate: The highest of the schedule.
        weight_decay: Of the optimizer.
        patience: Epochs without a lower validation loss, after which training stops.
        max_instances: Of each larger bag, so many random instances are used per step.
        validation_fraction: Of the bags; they choose the epoch.
        random_state: Of weights, order and division.
        device: On which it is trained.

    >>> from majority import bag_accuracy
    >>> X = np.array([[0.0], [0.1], [9.0], [9.1], [9.0], [0.2]] * 5)
    >>> y = ["low", "low", "low", "high", "high", "high"] * 5
    >>> bags = np.repeat(np.arange(10), 3)
    >>> model = MajorityLabelClassifier("adjusted-mean", recipe="quick", random_state=0).fit(X, y, groups=bags)
    >>> model.predict([[0.0], [9.0]]).tolist(), model.score(X, y, groups=bags)
    (['low', 'high'], 1.0)

    **Model selection** needs scikit-learn's metadata routing: without it, GridSearchCV passes groups only to the
    splitter, and every row would be trained with its bag's label. With it, this estimator and `bag_accuracy` request
    groups by default (`set_fit_request(groups=False)` switches that off).

    >>> import sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     search = GridSearchCV(model, {"epochs": [1, 30]}, scoring=bag_accuracy, cv=GroupKFold(5))
    ...     search.fit(X, y, groups=bags).best_params_
    {'epochs': 30}

    The training is that of a recipe, as in `majority.train`: the default for vectors is `census`, which trains several
    networks; `quick` is faster and less accurate: one network or, if no method is named, the best of a linear model, a
    forest and a network. Parameters that are None are the recipe's;
    `settings` has all others by name.

    `validation_fraction` of the bags is held out, and the epoch with their lowest loss is kept. Nothing is held out if
    the fraction is 0, if fewer bags than classes would be held out, or if a class would lose all its training bags;
    then every bag is used for training and takes the place of the held-out bags.

    Training may use a GPU (`device`). Afterwards the model is on the CPU and predicts in float64.

    Attributes: `classes_`, `n_features_in_`, `feature_names_in_` (if X is a data frame), `classifier_` (a
    `majority.Classifier`, which can be saved and exported), `best_epoch_`, `history_` (one record per epoch) and
    `validation_bags_` (how many bags were held out).
    """

    # With metadata routing switched on, groups are requested without a call of set_fit_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = dict.fromkeys(
        ("groups", "second_labels", "instance_labels", "instance_weights"), True
    )
    __metadata_request__score: ClassVar[dict[str, bool | None]] = {
        "groups": True,
        "instance_weights": True,
        "sample_weight": None,
    }

    def __init__(
        self,
        method: str = AUTO,  # the recipe weighs several methods, or takes the default one
        *,
        method_options: Mapping[str, Any] | None = None,
        recipe: str = DEFAULT,  # see `majority list`
        settings: Mapping[str, Any] | None = None,  # of the recipe's plan, such as {"census.teachers": 1}
        backbone: str | nn.Module = "auto",  # the recipe's; or a name, or a module that returns (n, features)
        epochs: int | None = None,  # None, here and below: the recipe's
        batch_bags: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,  # stop after this many epochs without a lower loss
        max_instances: int | None = None,  # larger bags: a new random subset in each step
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",  # to train on: auto, cpu, cuda, cuda:N, mps
    ) -> None:
        self.method = method
        self.method_options = method_options
        self.recipe = recipe
        self.settings = settings
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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        second_labels: ArrayLike | None = None,
        instance_labels: ArrayLike | None = None,
        instance_weights: ArrayLike | None = None,
    ) -> MajorityLabelClassifier:
        """Train. `groups` holds the bag id of each row; the rows of a bag need not be consecutive.

        With groups, a label may be missing (None, NaN or an empty text) or one of several (`"a|b"`). `second_labels`
        are the runners-up, where they are known. `instance_labels` are the classes of single rows, missing where they
        are not known: they are learned beside the labels of the bags. With `instance_weights`, the label of a bag is
        the class with the largest sum of weights.
        """
        self._check_parameters()
        if groups is None and y is not None:  # scikit-learn has a message for a missing y
            refuse_missing(y, "label")
        if second_labels is not None or is_special(y):
            rows = validate_data(self, X, dtype=FLOATS)
        else:
            rows, y = validate_data(self, X, y, dtype=FLOATS)
            check_classification_targets(y)
        self.classes_, bags = make_bags(rows, y, groups, second_labels, instance_weights)
        if instance_labels is not None:
            column = as_objects(instance_labels)
            check_consistent_length(rows, column)
            find_recipe(self.recipe).check_instance_labels(self.method)
            bags = with_training_labels(bags, column)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        train, held_out = self._split(bags, seed)
        plan, task = self._plan(train, seed)
        module = self.backbone if isinstance(self.backbone, nn.Module) else None
        build = model_builder(plan, self.method, train, module, pixels=plan.pixels, **self.method_options or {})
        run = Run(train, held_out or train, plan, build, task, device=self.device)
        trained = train_by_plan(run, self.method)
        self.classifier_ = Classifier(trained.model, "cpu")
        self._model = copy.deepcopy(trained.model).double().eval()  # a row gives the same result in every batch
        self.best_epoch_ = trained.fitted.best_epoch
        self.history_ = trained.fitted.history
        self.validation_bags_ = len(held_out or ())
        self._trained_on_bags = len(bags) < len(rows)
        if groups is None:
            warnings.warn(f"fit got no groups, so every row was treated as a bag of its own: {CURE}", stacklevel=2)
        return self

    def _plan(self, train: Bags, seed: int) -> tuple[Plan, TaskInfo]:
        """The plan of the recipe, with the settings of this estimator."""
        given = {f"training.{name}": getattr(self, name) for name in PLAN_PARAMETERS}
        if isinstance(self.backbone, str) and self.backbone != "auto":
            given["backbone"] = self.backbone
        chosen = {name: value for name, value in given.items() if value is not None}
        on_gpu = choose_device(self.device).type == "cuda"
        task = TaskInfo.of(train, on_gpu=on_gpu)
        recipe = find_recipe(self.recipe)
        recipe.check_method(self.method)
        check_options(self.method, dict(self.method_options or {}))
        return recipe.plan_for(task).with_seed(seed).with_settings(chosen | dict(self.settings or {})), task

    def _check_parameters(self) -> None:
        """Parameters are checked in `fit`, as scikit-learn wants it; Settings check the numbers of the training."""
        if not isinstance(self.validation_fraction, Real) or not 0 <= self.validation_fraction < 1:
            raise InputError(f"validation_fraction is {self.validation_fraction!r}: it must be 0 or more and below 1")
        if self.method != AUTO and METHODS.find(self.method).needs_bag:
            raise InputError(
                f"method {self.method} classifies an instance only within its bag, but predict(X) gets no bags: "
                "use a method that classifies single instances"
            )

    def predict_proba(self, X: ArrayLike) -> np.ndarray:  # (n, C)
        """Probability of each class for each row, in the order of `classes_`."""
        check_is_fitted(self)
        model, rows = self._model, validate_data(self, X, dtype=FLOATS, reset=False)
        with torch.inference_mode():
            pieces = torch.tensor(rows).split(BATCH_INSTANCES)
            features = (model.backbone(model.normalise(piece)) for piece in pieces)
            outputs = [model.head(piece, Segments(np.ones(len(piece)))) for piece in features]
            return torch.cat([output.instance_log_probs for output in outputs]).exp().numpy()

    def predict(self, X: ArrayLike) -> np.ndarray:  # (n,)
        """Class of each row."""
        winners = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[winners])

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        instance_weights: ArrayLike | None = None,
    ) -> float:
        """Share of bags whose most common predicted class (the first one on ties) is their label; with weights, the
        class with the largest sum of weights."""
        predicted = self.predict(X)
        if groups is None and self._trained_on_bags:
            warnings.warn(
                "score got no groups, so this is the share of rows whose predicted class is y, not the bag accuracy: "
                f"{CURE}",
                stacklevel=2,
            )
        return share_of_bags_right(y, predicted, groups, instance_weights)

    def _split(self, bags: Bags, seed: int) -> tuple[Bags, Bags | None]:
        """Bags without a label are not held out."""
        fraction, labelled = self.validation_fraction, bags.with_labels()
        if fraction * len(labelled) < len(bags.classes):
            return bags, None
        is_held_out = np.zeros(len(bags), bool)
        is_held_out[bags.bag_labels.known] = labelled.divide([1 - fraction, fraction], seed) == 1
        train, held_out = bags.subset(~is_held_out), bags.subset(is_held_out)
        lost_a_class = len(train.bag_labels.named_classes()) < len(bags.bag_labels.named_classes())
        return (bags, None) if lost_a_class else (train, held_out)
