"""Backbones give features of their own width for any instances; a model normalises, seeds and re-makes itself."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from majority import Bags, Segments, build_model
from majority.backbones import BACKBONES, create_backbone, features_of
from majority.data.device import choose_device
from majority.errors import InputError
from majority.model import PUBLISHED_PIXELS, ModelSpec, rebuild_model, standardisation


def image_bags(height=8, width=8, channels=1, n=12, seed=0):
    store = np.random.default_rng(seed).integers(256, size=(n, height, width, channels), dtype=np.uint8)
    return Bags.from_indices(store, [range(n // 2), range(n // 2, n)], ["a", "b"])


def vector_bags(d=5, n=12, seed=0):
    store = np.random.default_rng(seed).normal(3, 7, size=(n, d)).astype(np.float32)
    return Bags.from_indices(store, [range(n // 3), range(n // 3, n)], ["a", "b"])


def run(model, bags):
    return model(torch.from_numpy(bags.instances()), Segments(bags.sizes))


# ---------------------------------------------------------------- backbones


@pytest.mark.parametrize("name", sorted(BACKBONES.keys() - {"linear"}))
@pytest.mark.parametrize(
    ("channels", "height", "width"), [(1, 8, 8), (3, 8, 8), (1, 9, 13), (1, 28, 28), (3, 32, 32), (3, 64, 64)]
)
def test_backbones_take_images(name, channels, height, width):
    backbone = create_backbone(name, (channels, height, width))
    with torch.no_grad():
        features = backbone(torch.randn(3, channels, height, width))
    assert features.shape == (3, backbone.out_features)
    assert features.isfinite().all()
    assert features_of(backbone, (channels, height, width)) == backbone.out_features


@pytest.mark.parametrize("d", [1, 5, 600])
def test_vectors_go_through_an_mlp(d):
    assert create_backbone("mlp", (d,))(torch.randn(3, d)).shape == (3, 128)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_cnn_trains_on_one_tiny_instance(side):
    assert create_backbone("cnn", (1, side, side)).train()(torch.randn(1, 1, side, side)).shape == (1, 128)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        (
            "resnet",
            (3, 32, 32),
            "no backbone 'resnet' .did you mean resnet18..: take one of mlp, .*, or timm:NAME",
        ),
        ("cnn", (7,), "backbone cnn needs images, these instances are vectors of 7 values: use mlp"),
        ("resnet18", (7,), "backbone resnet18 needs images"),
        ("timm:resnet10t", (7,), "needs images"),
    ],
)
def test_wrong_backbones_are_refused(name, shape, message):
    with pytest.raises(InputError, match=message):
        create_backbone(name, shape)


def test_timm_is_asked_for_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"needs the package timm, .* pip install timm, or take one of mlp"):
        create_backbone("timm:resnet10t", (3, 32, 32))


def test_timm_makes_backbones_without_a_classifier(monkeypatch):
    class FakeTimm:
        is_model = staticmethod(lambda name: name == "tiny")
        list_models = staticmethod(lambda pattern: ["tiny_a", "tiny_b"] if pattern == "*tin*" else [])
        create_model = staticmethod(lambda name, **asked: asked)

    monkeypatch.setitem(sys.modules, "timm", FakeTimm)
    asked = create_backbone("timm:tiny", (1, 32, 32), drop_rate=0.5)
    assert asked == {"pretrained": False, "num_classes": 0, "in_chans": 1, "drop_rate": 0.5}
    with pytest.raises(InputError, match=r"timm has no model 'tin' \(it has tiny_a, tiny_b\)"):
        create_backbone("timm:tin", (1, 32, 32))


# ---------------------------------------------------------------- a module of one's own


def own_module():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 11), nn.BatchNorm1d(11))


def test_a_module_with_out_features_is_believed():
    bags = vector_bags()
    model = build_model(bags, "log-mean", nn.Linear(5, 9))
    assert model.head.classifier.in_features == 9
    assert run(model, bags).bag_log_probs.shape == (2, 2)
    assert model.spec.backbone is None


@pytest.mark.parametrize("training", [True, False])
def test_a_module_without_out_features_is_tried(training):
    bags, module = image_bags(), own_module().train(training)
    model = build_model(bags, "count", module)
    assert model.backbone is module
    assert model.head.classifier.in_features == 11
    assert module.training is training
    assert module[2].num_batches_tracked == 0
    assert run(model, bags).instance_log_probs.shape == (12, 2)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Identity(),
            r"the backbone gives \(1, 1, 8, 8\) for one instance of shape \(1, 8, 8\): it must give \(n, f",
        ),
        (nn.Flatten(0), r"the backbone gives \(64,\)"),
        (nn.LSTM(8, 3), "the backbone gives tuple"),
    ],
)
def test_modules_that_give_no_features_are_refused(module, message):
    if isinstance(module, nn.LSTM):
        module = nn.Sequential(nn.Flatten(0, 2), module)
    with pytest.raises(InputError, match=message):
        build_model(image_bags(), "count", module)


# ---------------------------------------------------------------- normalisation


@pytest.mark.parametrize("channels", [1, 3])
def test_data_pixels_standardise_the_training_images(channels):
    bags = image_bags(channels=channels)
    model = build_model(bags)
    x = model.normalise(torch.from_numpy(bags.instances()))
    assert x.shape == (12, channels, 8, 8)
    torch.testing.assert_close(x.mean(dim=(0, 2, 3)), torch.zeros(channels), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(dim=(0, 2, 3), unbiased=False), torch.ones(channels), atol=1e-5, rtol=0)
    first = bags.store[0].astype(float) / 255
    expected = (first - model.normalise.mean.numpy()) / model.normalise.std.numpy()
    np.testing.assert_allclose(x[0].permute(1, 2, 0), expected, rtol=1e-4, atol=1e-5)


def test_vectors_are_standardised_over_the_instances_in_use(monkeypatch):
    monkeypatch.setattr("majority.data.stores.CHUNK", 5)
    store = np.random.default_rng(0).normal(3, 7, size=(30, 4))
    store[20:] = 1e6  # in no bag
    bags = Bags.from_indices(store, [range(10), [*range(5, 20)]], ["a", "b"])
    mean, std = standardisation(bags)
    np.testing.assert_allclose(mean, store[:20].mean(axis=0))
    np.testing.assert_allclose(std, store[:20].std(axis=0))
    x = build_model(bags).normalise(torch.from_numpy(store[:20]))
    assert x.dtype == torch.float32
    torch.testing.assert_close(x.std(dim=0, unbiased=False), torch.ones(4))


def test_what_rounding_leaves_of_an_empty_direction_is_not_blown_up():
    store = np.random.default_rng(0).normal(size=(50, 3))
    store[:, 1] *= 1e-14  # as principal components of fewer directions have it
    store[:, 2] *= 1e-6
    _, std = standardisation(Bags.from_indices(store, [range(50)], ["a"], classes=["a", "b"]))
    np.testing.assert_allclose(std, [store[:, 0].std(), 1, store[:, 2].std()])


@pytest.mark.parametrize("size", [5e7, 2e17], ids=["inhabitants", "ids"])
def test_a_column_of_large_numbers_takes_nothing_from_the_others(size):
    store = np.random.default_rng(0).normal(size=(50, 4)) * (size, 1, 1e-3, 1e-7)
    _, std = standardisation(Bags.from_indices(store, [range(50)], ["a"], classes=["a", "b"]))
    np.testing.assert_allclose(std, store.std(axis=0))


def test_what_is_too_small_to_divide_by_counts_as_constant():
    store = np.random.default_rng(0).normal(size=(50, 2)) * (1e-46, 1e-36)
    bags = Bags.from_indices(store, [range(50)], ["a"], classes=["a", "b"])
    read = build_model(bags).normalise(torch.from_numpy(store))
    torch.testing.assert_close(read.std(dim=0, unbiased=False), torch.tensor([0.0, 1.0]))


def test_small_differences_of_large_numbers_are_kept():
    """Seconds since 1970: float32 has steps of 128 there."""
    seconds = 1_714_546_800 + np.random.default_rng(0).integers(0, 100, (60, 1)).astype(np.float64)
    expected = (seconds - seconds.mean()) / seconds.std()
    bags = Bags.from_indices(seconds, [range(60)], ["a"])
    model = build_model(bags)
    again = rebuild_model(model.spec)
    again.load_state_dict(model.state_dict())
    for some in (model, again):
        np.testing.assert_allclose(some.normalise(torch.from_numpy(seconds)), expected, atol=1e-5)
    coarse = Bags.from_indices(seconds.astype(np.float32), [range(60)], ["a"])
    x = build_model(coarse).normalise(torch.from_numpy(coarse.store))
    assert x.abs().max() < 1e-3, "what float32 cannot tell apart does no harm"


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_columns_of_any_scale_are_standardised_and_constant_ones_left(scale):
    store = np.random.default_rng(0).normal(size=(50, 3)) * scale
    store[:, 1] = 1000.1 * scale
    store[:, 2] = 0
    bags = Bags.from_indices(store, [range(50)], ["a"])
    x = build_model(bags).normalise(torch.from_numpy(store))
    assert x[:, 0].std(unbiased=False).item() == pytest.approx(1, rel=1e-3)
    assert x[:, 1].abs().max() < 1e-3 * max(scale, 1)
    assert (x[:, 2] == 0).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_published_pixels_are_the_paper_s_and_repeat_grey(channels):
    bags = image_bags(channels=channels)
    model = build_model(bags, backbone="cnn", pixels="published")
    x = model.normalise(torch.from_numpy(bags.instances()))
    assert x.shape == (12, 3, 8, 8)
    for c, (mean, std) in enumerate(zip(*PUBLISHED_PIXELS, strict=True)):
        expected = (bags.store[..., c % channels] / 255 - mean) / std
        np.testing.assert_allclose(x[:, c], expected, rtol=1e-4, atol=1e-5)
    assert run(model, bags).bag_log_probs.shape == (2, 2)


def test_pixels_are_one_of_two_and_mean_nothing_for_vectors():
    with pytest.raises(InputError, match="pixels='imagenet': take 'data' or 'published'"):
        build_model(image_bags(), pixels="imagenet")
    one, other = (build_model(vector_bags(), pixels=pixels) for pixels in ("data", "published"))
    assert torch.equal(one.normalise.mean, other.normalise.mean)


# ---------------------------------------------------------------- building


def test_same_seed_same_weights_and_the_global_generator_untouched():
    bags = image_bags()
    before = torch.random.get_rng_state()
    states = [build_model(bags, "count", "cnn", seed=seed).state_dict() for seed in (3, 3, 4)]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not torch.equal(states[0]["head.classifier.weight"], states[2]["head.classifier.weight"])
    rebuild_model(build_model(bags).spec)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("bags", "name"),
    [(image_bags(8, 8), "mlp"), (image_bags(28, 28), "cnn"), (image_bags(32, 32, 3), "cnn"), (vector_bags(), "mlp")],
)
def test_auto_takes_a_backbone_that_fits(bags, name):
    model = build_model(bags)
    assert model.spec.backbone == name
    assert run(model, bags).instance_log_probs.shape == (12, 2)


@pytest.mark.parametrize("bags", [image_bags(28, 20, 1), vector_bags()], ids=["images", "vectors"])
def test_a_model_is_made_again_from_its_description(bags):
    model = build_model(bags, "count", pixels="published", seed=5, of="counts").eval()
    spec = ModelSpec.from_dict(model.spec.as_dict())
    assert spec == model.spec
    again = rebuild_model(spec).eval()
    again.load_state_dict(model.state_dict())
    assert torch.equal(run(again, bags).bag_log_probs, run(model, bags).bag_log_probs)
    assert again.head.of == "counts"


def test_features_do_not_hang_on_the_batch_in_eval_mode():
    bags = image_bags(28, 28, n=20)
    model = build_model(bags, "count", "cnn")
    run(model, bags)  # moves the batch norms' statistics
    model.eval()
    instances = torch.from_numpy(bags.instances())
    with torch.no_grad():
        pieces = torch.cat([model.features(piece) for piece in instances.split(7)])
        torch.testing.assert_close(pieces, model.features(instances), rtol=1e-4, atol=1e-5)


def test_wrong_methods_and_options_are_refused():
    with pytest.raises(InputError, match="there is no method 'counting'"):
        build_model(vector_bags(), "counting")
    with pytest.raises(InputError, match="method vote has no option 'of'"):
        build_model(vector_bags(), "vote", of="counts")


def test_devices():
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(InputError, match="device 'tpu': take auto, cpu or cuda"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="torch sees no GPU here"):
            choose_device("cuda")
