"""Backbones: features of images and vectors, timm, and backbones that a user registers."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from majority import Backbone, Bags, Classifier, Settings, build_model, fit, register
from majority.errors import InputError
from majority.nn.backbones import BACKBONES, count_features, create_backbone


@pytest.mark.parametrize("name", sorted(BACKBONES.keys() - {"linear"}))
def test_backbones_of_images(name):
    for shape in ((1, 9, 13), (3, 64, 64)):
        backbone = create_backbone(name, shape)
        with torch.no_grad():
            features = backbone(torch.randn(3, *shape))
        assert features.shape == (3, backbone.out_features)
        assert features.isfinite().all()


@pytest.mark.parametrize(("name", "side"), [("cnn", 1), ("cnn", 3), ("resnet18", 32)])
def test_one_instance_that_ends_as_one_position_can_be_trained_on(name, side):
    """Plain batch norm refuses it: one value per channel has no standard deviation."""
    assert create_backbone(name, (1, side, side)).train()(torch.randn(1, 1, side, side)).isfinite().all()


def test_a_reduced_cnn_sees_large_images_with_fewer_pixels_and_small_ones_as_they_are():
    reduced, plain = create_backbone("cnn-reduced", (3, 100, 70)).eval(), create_backbone("cnn", (3, 50, 35)).eval()
    plain.load_state_dict(reduced.state_dict())
    large, small = torch.randn(2, 3, 100, 70), torch.randn(2, 3, 63, 90)
    pooled = large.view(2, 3, 50, 2, 35, 2).mean(dim=(3, 5))
    torch.testing.assert_close(reduced(large), plain(pooled))
    torch.testing.assert_close(reduced(small), plain(small))


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "resnet",
            (3, 32, 32),
            "no backbone 'resnet' .did you mean resnet18..: use one of mlp, .*, or timm:NAME",
        ),
        ("cnn", (7,), "backbone cnn needs images, these instances are vectors of 7 values: use mlp"),
        ("timm:resnet10t", (7,), "needs images"),
    ],
)
def test_wrong_backbones_are_errors(name, shape, message):
    with pytest.raises(InputError, match=message):
        create_backbone(name, shape)


def test_a_missing_timm_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"needs the package timm: pip install timm"):
        create_backbone("timm:resnet10t", (3, 32, 32))


def test_timm_creates_backbones_without_a_classifier(monkeypatch):
    class FakeTimm:
        is_model = staticmethod(lambda name: name == "tiny")
        create_model = staticmethod(lambda name, **options: options)

    monkeypatch.setitem(sys.modules, "timm", FakeTimm)
    options = create_backbone("timm:tiny", (1, 32, 32), drop_rate=0.5)
    assert options == {"pretrained": False, "num_classes": 0, "in_chans": 1, "drop_rate": 0.5}
    with pytest.raises(InputError, match=r"timm has no model 'tin'"):
        create_backbone("timm:tin", (1, 32, 32))


def test_a_timm_model_by_name():
    pytest.importorskip("timm", exc_type=Exception)
    net = create_backbone("timm:resnet18", (1, 32, 32))
    assert net(torch.rand(2, 1, 32, 32)).shape == (2, count_features(net, (1, 32, 32))) == (2, 512)


# ---------------------------------------------------------------- backbones of a user


def average(shape, cells=2):
    """Features without a trained layer: means of a grid of cells."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(cells), nn.Flatten())


def image_bags():
    store = np.random.default_rng(0).integers(256, size=(12, 8, 8, 1), dtype=np.uint8)
    return Bags.from_indices(store, [range(4), range(4, 8), range(8, 12)], ["a", "b", "a"])


def test_a_registered_backbone_is_trained_saved_and_loaded(registries, tmp_path):
    bags, backbone = image_bags(), Backbone("average", average, "means of a grid", takes="images")
    assert register(backbone) is backbone
    assert BACKBONES["average"].about == "means of a grid"
    model = build_model(bags, "log-mean", "average")
    assert model.n_features == 4
    before = model.head.classifier.weight.detach().clone()
    fit(model, bags, bags, Settings(epochs=1), device="cpu", title=None)
    assert not torch.equal(model.head.classifier.weight, before)
    classifier = Classifier(model, "cpu")
    loaded = Classifier.load(classifier.save(tmp_path / "best.safetensors"), "cpu")
    assert np.array_equal(loaded.predict_proba(bags.store), classifier.predict_proba(bags.store))
    with pytest.raises(InputError, match="backbone average needs images, these instances are vectors of 7 values"):
        create_backbone("average", (7,))
    assert create_backbone("average", (1, 8, 8), cells=3)(torch.zeros(2, 1, 8, 8)).shape == (2, 9)
    del BACKBONES["average"]
    with pytest.raises(InputError, match=r"no backbone 'average'.*MAJORITY_PLUGINS"):
        Classifier.load(tmp_path / "best.safetensors", "cpu")


def test_a_backbone_of_that_name_is_replaced(registries):
    register(Backbone("linear", lambda shape: nn.Linear(shape[0], 3), "three features", takes="vectors"))
    assert create_backbone("linear", (5,)).out_features == 3
    with pytest.raises(InputError, match="backbone linear needs vectors, these instances are images: use mlp"):
        create_backbone("linear", (1, 8, 8))
    with pytest.raises(InputError, match="'a/b': give a name without slashes"):
        register(Backbone("a/b", average, "a name that cannot be part of a path"))
