"""The recipe quick: of vectors, a linear model, a forest or a network, whichever explains the labels of bags best."""

import numpy as np
import pytest

import majority
from majority.predict.onnx import export_onnx
from majority.recipes.census import members

CLASSES = ["oak", "fir", "elm"]
CPU = {"recipe": "quick", "device": "cpu", "verbose": False}


def in_clouds(rng, true):
    """Three columns say the class, many say nothing."""
    return 3 * np.eye(3, 60)[true] + rng.normal(size=(len(true), 60))


def on_a_checkerboard(rng, true):
    """The class depends on the field of a board of 36."""
    fields = [np.flatnonzero(np.random.default_rng(1).permutation(np.arange(36) % 3) == number) for number in range(3)]
    chosen = np.array([rng.choice(fields[number]) for number in true])
    return np.column_stack([chosen // 6, chosen % 6]) + rng.random((len(true), 2))


def around_a_point(rng, true):
    """The class depends on the direction in a plane that no column is near to."""
    angles = (true + 3 * rng.integers(0, 2, len(true)) + rng.uniform(0.1, 0.9, len(true))) * np.pi / 3
    columns = np.column_stack([np.cos(angles), np.sin(angles), 0.7 * rng.normal(size=(len(true), 18))])
    return columns @ np.linalg.qr(np.random.default_rng(2).normal(size=(20, 20)))[0]


def bags_of(place, bags=120, size=24):
    rng = np.random.default_rng(0)
    labels = np.arange(bags) % 3
    true = np.array([[*[label] * (size // 2), *rng.integers(0, 3, size - size // 2)] for label in labels])
    instances = place(rng, true.ravel()).astype(np.float32).reshape(bags, size, -1)
    names = np.array(CLASSES)
    return majority.Bags.from_lists([*instances], names[labels].tolist(), CLASSES, instance_labels=[*names[true]])


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    for name, value in {"TREES": 10, "ITERATIONS": 8, "RIDGES": (1e-2,), "STRENGTHS": (0.5,)}.items():
        monkeypatch.setattr(members, name, value)


@pytest.mark.parametrize(
    ("bags", "kind"),
    [
        (bags_of(in_clouds, bags=60, size=12), "linear"),
        (bags_of(on_a_checkerboard), "forest"),
        (bags_of(around_a_point), "network"),
    ],
)
def test_the_kind_that_explains_the_bags_best_is_kept_and_trained_again(bags, kind, tmp_path):
    run = majority.train(bags, **CPU, refit=True, out=tmp_path / "run")
    kinds, backbone = run.result["kinds"], run.classifier.model.spec.backbone
    assert max(kinds, key=kinds.get) == kind
    assert backbone.partition(":")[0] == {"linear": "linear", "forest": "trees", "network": "mlp"}[kind]
    assert run.metrics["instance_accuracy"] > 0.7
    assert run.result["method"] == "auto"
    assert run.result["lines"]["kind of learner"].startswith(kind)
    assert f"<dt>kind of learner</dt><dd>{kind} (" in run.report.read_text()
    stages = tmp_path / "run" / "refit" / "stages"
    assert [path.name for path in stages.iterdir()] == [kind]


@pytest.fixture
def clouds():
    return bags_of(in_clouds, bags=30, size=8)


def test_a_linear_model_is_exported(clouds, tmp_path):
    pytest.importorskip("onnxscript")
    classifier = majority.train(clouds, **CPU, epochs=1).classifier
    assert classifier.model.spec.backbone == "linear"
    assert export_onnx(classifier, tmp_path / "linear.onnx").stat().st_size > 0


def test_without_validation_bags_it_is_the_network(clouds):
    X, y = clouds.instances(), np.repeat(np.array(CLASSES)[clouds.labels], clouds.sizes)
    groups = np.repeat(np.arange(len(clouds)), clouds.sizes)
    model = majority.MajorityLabelClassifier(recipe="quick", epochs=2, validation_fraction=0, random_state=0)
    assert len(model.fit(X, y, groups=groups).history_) == 2


def test_what_a_user_names_is_trained_alone(clouds):
    cases = [
        (clouds, {"method": "vote"}, "vote"),
        (clouds, {"settings": {"backbone": "linear"}}, "auto"),
        (clouds, {"instance_labels": 2}, "auto"),
        (clouds, {"background": "void"}, "auto"),
        ("digits", {"bags": 20, "bag_size": 8}, "adjusted-mean"),
    ]
    for bags, options, method in cases:
        result = majority.train(bags, **CPU | {"epochs": 1} | options).result
        assert result["method"] == method
        assert "stages" not in result
        assert "kinds" not in result
