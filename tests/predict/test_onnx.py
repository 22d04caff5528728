"""export_onnx and `majority export`: what onnxruntime predicts from the file, and what is refused."""

import json

import numpy as np
import pytest
import torch

from majority import Bags, Classifier, InputError, build_model
from majority.predict import onnx
from majority.predict.onnx import export_onnx

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnx onnxscript onnxruntime")

pytestmark = pytest.mark.usefixtures("onnx_operators")

CLASSES = ("owl", "ant", "bée")  # not in the order of the alphabet


def make_classifier(shape, backbone="auto", method="count", **more):
    rng = np.random.default_rng(0)
    if len(shape) == 3:
        store = rng.integers(256, size=(9, *shape), dtype=np.uint8)
    else:
        store = (50 + 20 * rng.normal(size=(9, *shape))).astype(np.float32)  # far from standardised
    bags = Bags(store, np.arange(9), [0, 3, 6, 9], [0, 1, 2], CLASSES)
    if "background" in more:
        bags = bags.with_background(more.pop("background"))
    model = build_model(bags, method, backbone, **more)
    with torch.no_grad():
        model.head.classifier.weight.mul_(3)  # probabilities away from a third each
    if len(shape) == 3:
        model.to(memory_format=torch.channels_last)  # as training leaves it
    return Classifier(model, "cpu"), store


def session_of(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("shape", "backbone", "more"),
    [
        ((5,), "mlp", {"method": "vote"}),
        ((8, 7, 1), "cnn", {"method": "soft-count", "background": "nothing", "pixels": "published"}),
    ],
)
def test_onnxruntime_agrees_with_pytorch(shape, backbone, more, tmp_path):
    classifier, store = make_classifier(shape, backbone, **more)
    before = [parameter.stride() for parameter in classifier.model.parameters()]
    path = export_onnx(classifier, tmp_path / "model.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]  # one file, nothing beside it
    after = [parameter.stride() for parameter in classifier.model.parameters()]
    assert after == before, "the classifier itself does not change"
    session = session_of(path)
    (given,), (found,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type) == ("instances", "tensor(uint8)" if len(shape) == 3 else "tensor(float)")
    assert given.shape[1:] == list(shape)
    assert isinstance(given.shape[0], str)  # a name: any number
    assert (found.name, found.shape[1]) == ("probabilities", len(classifier.classes))
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(classifier.classes)
    assert "columns" not in session.get_modelmeta().custom_metadata_map
    for n in (1, 2, 9):
        (probabilities,) = session.run(None, {"instances": store[:n]})
        np.testing.assert_allclose(probabilities, classifier.predict_proba(store[:n]), atol=1e-4)
    assert np.ptp(probabilities, axis=0).max() > 0.02  # of instances that differ


def test_features_of_large_numbers_are_doubles_and_columns_are_named_in_order(tmp_path):
    seconds = 1_714_546_800 + np.random.default_rng(0).integers(0, 100, (9, 2)).astype(np.float64)
    bags = Bags(seconds, np.arange(9), [0, 3, 6, 9], [0, 1, 2], CLASSES)
    columns = ("height, cm", "größe")
    classifier = Classifier(build_model(bags, "log-mean", "mlp"), "cpu", columns=columns)
    session = session_of(export_onnx(classifier, tmp_path / "model.onnx"))
    assert session.get_inputs()[0].type == "tensor(double)"
    assert json.loads(session.get_modelmeta().custom_metadata_map["columns"]) == list(columns)
    (found,) = session.run(None, {"instances": seconds})
    np.testing.assert_allclose(found, classifier.predict_proba(seconds), atol=1e-5)
    assert np.ptp(found, axis=0).max() > 1e-3


def test_a_file_that_disagrees_is_not_written(tmp_path, monkeypatch):
    classifier, _ = make_classifier((5,))
    place = tmp_path / "model.onnx"
    place.write_text("of an earlier export")
    original = onnx._to_onnx

    def wrong_export(network, spec):
        with torch.no_grad():
            bias = network.model.head.classifier.bias
            bias[0] += 0.01
            exported = original(network, spec)
            bias[0] -= 0.01
        return exported

    monkeypatch.setattr(onnx, "_to_onnx", wrong_export)
    with pytest.raises(InputError, match=r"differ by .* PyTorch .* nothing was written"):
        export_onnx(classifier, place)
    assert place.read_text() == "of an earlier export"
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


# ---------------------------------------------------------------- the command
