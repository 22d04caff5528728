"""Wrong calls of the public functions: every argument with values of every wrong kind is an InputError."""

import inspect
import warnings

import numpy as np
import pytest

import majority
from majority import Bags, Classifier, InputError, MajorityLabelClassifier, Settings, TrainingError
from majority.arguments import check_arguments
from majority.data.scenarios import majority_range, winner_weights
from majority.data.segments import Segments
from majority.io import check_source
from majority.io.custom.images import read_image
from majority.nn.backbones import create_backbone
from majority.nn.backbones.resnet import load_weights

ROWS = np.random.default_rng(0).normal(size=(60, 3)).astype("float32")
IDS, LABELS = np.repeat(np.arange(12), 5), np.repeat(list("abc") * 4, 5)
BAGS = Bags.from_table(ROWS, IDS, LABELS)
MODEL = majority.build_model(BAGS, "log-mean")
CLASSIFIER = Classifier(MODEL, "cpu")
STORE = np.zeros((9, 4, 4, 1), np.uint8)
WRONG = [None, "x", -1, 10**30, 1.5, float("nan"), True, [], [1, 2], {"a": 1}, object(), b"x", ("a",), BAGS, float]
WRONG += [np.zeros(3), np.zeros((2, 2)), np.array(["a"], object), np.float64(2), lambda: 0]


def fit_estimator(groups=IDS, **parameters):
    return MajorityLabelClassifier(**{"epochs": 1, **parameters}).fit(ROWS, LABELS, groups=groups)


CALLS = {  # function, its valid arguments; each of them, and each other parameter, gets every wrong value
    "fit": (majority.fit, {"model": MODEL, "train": BAGS, "val": BAGS, "settings": Settings(epochs=1), "title": None}),
    "build_model": (majority.build_model, {"train": BAGS}),
    "Settings": (Settings, {}),
    "estimator": (fit_estimator, {"method": "log-mean", "method_options": None, "validation_fraction": 0.2}),
    "estimator 2": (fit_estimator, {"random_state": 0, "backbone": "auto", "epochs": 1, "device": "cpu"}),
    "evaluate": (majority.evaluate, {"model": MODEL, "bags": BAGS, "device": "cpu"}),
    "Classifier": (Classifier, {"model": MODEL, "device": "cpu"}),
    "predict": (CLASSIFIER.predict, {"instances": ROWS}),
    "predict_bags": (CLASSIFIER.predict_bags, {"bags": BAGS}),
    "Classifier.load": (Classifier.load, {"path": "none.safetensors"}),
    "from_table": (Bags.from_table, {"store": ROWS, "bag_ids": IDS, "labels": LABELS}),
    "from_lists": (Bags.from_lists, {"instances": [ROWS[:3], ROWS[3:6]], "labels": ["a", "b"]}),
    "from_indices": (Bags.from_indices, {"store": ROWS, "indices": [[0, 1], [2, 3]], "labels": ["a", "b"]}),
    "Bags": (
        Bags,
        {"store": ROWS, "index": range(4), "offsets": [0, 2, 4], "labels": ["a", "b"], "classes": ["a", "b"]},
    ),
    "Bags.load": (Bags.load, {"folder": "none"}),
    "split": (BAGS.split, {"fractions": [0.5, 0.5]}),
    "subset": (BAGS.subset, {"bags": [0]}),
    "with_background": (BAGS.with_background, {"name": "d"}),
    "load_source": (majority.load_source, {"name_or_path": "none.csv"}),
    "check_source": (check_source, {"source": "none.csv"}),
    "create_backbone": (create_backbone, {"name": "mlp", "shape": (3,)}),
    "Segments": (Segments, {"sizes": [1, 2]}),
    "winner_weights": (winner_weights, {"ratio": 2, "n_classes": 3}),
    "majority_range": (majority_range, {"scenario": "small", "n_classes": 3, "size": 8}),
    "read_image": (read_image, {"path": "none.png", "shape": (8, 8, 3)}),
    "load_weights": (load_weights, {"backbone": MODEL.backbone, "path": "none.pt"}),
    "LabelledSet": (
        majority.LabelledSet,
        {"name": "x", "store": STORE, "labels": np.arange(9) % 3, "classes": ("a", "b", "c")},
    ),
    "make_parts": (majority.LabelledSet("x", STORE, np.arange(9) % 3, ("a", "b", "c")).make_parts, {}),
}
NOT_CHECKED = {"kwargs", "method_options", "parameters", "options"}  # the names of **


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_input_errors(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, valid = CALLS[name]
    named_only = function in (fit_estimator, Segments)  # their other parameters are tensors, or none
    parameters = [*valid] if named_only else [*inspect.signature(function).parameters]
    for parameter in parameters:
        if parameter in NOT_CHECKED and parameter not in valid:
            continue
        for value in WRONG:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(**valid | {parameter: value})
            except (InputError, TrainingError):
                pass
            except Exception as error:
                pytest.fail(f"{name}({parameter}={value!r}): {type(error).__name__}: {error}")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: majority.fit([1, 2], BAGS, BAGS), r"fit: model is \[1, 2\] \(list\): give a Model"),
        (lambda: majority.fit(MODEL, BAGS, BAGS, {"epochs": 3}), "settings is {'epochs': 3} .*give a Settings or None"),
        (lambda: majority.build_model(BAGS, None), r"method is None .*give a text"),
        (lambda: majority.build_model(BAGS, seed="1"), r"seed is '1' \(str\): give a whole number"),
        (lambda: fit_estimator(method=None), "method is None: give a name"),
        (lambda: fit_estimator(random_state="x"), "random_state.*give a whole number"),
        (lambda: fit_estimator(groups=3), "groups is not a column"),
    ],
)
def test_the_message_says_what_was_expected(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_numpy_numbers_paths_and_arrays_are_accepted(tmp_path):
    @check_arguments
    def call(number: int, share: float, place: str | None, sizes: tuple[int, ...]) -> int:
        return number

    assert call(np.int64(3), np.float32(0.5), None, np.arange(3)) == 3
    assert call(number=2, share=1, place="x", sizes=[1]) == 2
    with pytest.raises(TypeError, match="missing"):
        call(1)
    with pytest.raises(TypeError, match="did you mean sizes"):
        call(2, 1, "x", size=[1])
    with pytest.raises(TypeError, match=r"epochs.* number, share, place, sizes"):
        call(2, 1, "x", epochs=3)
