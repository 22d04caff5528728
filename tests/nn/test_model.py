"""Model: custom backbones, normalisation, seeds, and models rebuilt from their spec."""

import numpy as np
import pytest
import torch
from torch import nn

from majority import Bags, build_model
from majority.data.segments import Segments
from majority.errors import InputError
from majority.nn.model import PUBLISHED_PIXELS, Normalise, rebuild_model, standardisation


def image_bags(height=8, width=8, channels=1, n=12, seed=0):
    store = np.random.default_rng(seed).integers(256, size=(n, height, width, channels), dtype=np.uint8)
    return Bags.from_indices(store, [range(n // 2), range(n // 2, n)], ["a", "b"])


def vector_bags(d=5, n=12, seed=0):
    store = np.random.default_rng(seed).normal(3, 7, size=(n, d)).astype(np.float32)
    return Bags.from_indices(store, [range(n // 3), range(n // 3, n)], ["a", "b"])


def run(model, bags):
    return model(torch.from_numpy(bags.instances()), Segments(bags.sizes))


# ---------------------------------------------------------------- custom modules


def custom_module():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 11), nn.BatchNorm1d(11))


@pytest.mark.parametrize("training", [True, False])
def test_a_module_without_out_features_is_run_once(training):
    bags, module = image_bags(), custom_module().train(training)
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
            r"the backbone returns \(1, 1, 8, 8\) for one instance of shape \(1, 8, 8\): return \(n, f",
        ),
        (nn.Flatten(0), r"the backbone returns \(64,\)"),
        (nn.LSTM(8, 3), "the backbone returns tuple"),
    ],
)
def test_modules_that_return_no_features_are_errors(module, message):
    if isinstance(module, nn.LSTM):
        module = nn.Sequential(nn.Flatten(0, 2), module)
    with pytest.raises(InputError, match=message):
        build_model(image_bags(), "count", module)


# ---------------------------------------------------------------- normalisation


def test_vectors_are_standardised_over_the_instances_of_bags(monkeypatch):
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


@pytest.mark.parametrize("largest", [1, 5e7, 2e17], ids=["", "inhabitants", "ids"])
def test_columns_keep_their_deviation_whatever_the_others_are(largest):
    """Of differences that are no rounding errors."""
    store = np.random.default_rng(0).normal(size=(50, 4)) * (largest, 1, 1e-3, 1e-7)
    _, std = standardisation(Bags.from_indices(store, [range(50)], ["a"], classes=["a", "b"]))
    np.testing.assert_allclose(std, store.std(axis=0))


def test_rounding_errors_are_not_amplified():
    """As in principal components of fewer directions; and deviations that float32 cannot be divided by."""
    store = np.random.default_rng(0).normal(size=(50, 3)) * (1, 1e-14, 1e-46)
    _, std = standardisation(Bags.from_indices(store, [range(50)], ["a"], classes=["a", "b"]))
    np.testing.assert_allclose(std, [store[:, 0].std(), 1, 1])


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
    assert x.abs().max() < 1e-3, "differences that float32 cannot represent do no harm"


@pytest.mark.parametrize("channels", [1, 3])
def test_published_pixels_are_those_of_the_paper_and_repeat_grey(channels):
    bags = image_bags(channels=channels)
    model = build_model(bags, backbone="cnn", pixels="published")
    x = model.normalise(torch.from_numpy(bags.instances()))
    assert x.shape == (12, 3, 8, 8)
    for c, (mean, std) in enumerate(zip(*PUBLISHED_PIXELS, strict=True)):
        expected = (bags.store[..., c % channels] / 255 - mean) / std
        np.testing.assert_allclose(x[:, c], expected, rtol=1e-4, atol=1e-5)
    assert run(model, bags).bag_log_probs.shape == (2, 2)


# ---------------------------------------------------------------- building


def test_weights_depend_on_the_seed_and_the_global_generator_is_unchanged():
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
def test_auto_chooses_a_backbone_by_the_instances(bags, name):
    model = build_model(bags)
    assert model.spec.backbone == name
    assert run(model, bags).instance_log_probs.shape == (12, 2)


@pytest.mark.parametrize("bags", [image_bags(28, 20, 1), vector_bags()], ids=["images", "vectors"])
def test_a_model_is_rebuilt_from_its_spec(bags):
    model = build_model(bags, "count", pixels="published", seed=5, of="counts").eval()
    again = rebuild_model(model.spec).eval()
    again.load_state_dict(model.state_dict())
    assert torch.equal(run(again, bags).bag_log_probs, run(model, bags).bag_log_probs)
    assert again.head.loss.of == "counts"


def test_normalisation_of_vectors_is_float32_on_a_device_without_float64():
    """MPS raises a TypeError for float64; `.to(device)` calls `_apply`."""

    def move(tensor):
        if tensor.dtype == torch.float64:
            raise TypeError("no float64")
        return tensor.clone()

    normalise = Normalise(torch.tensor([1.0, 3.0], dtype=torch.float64), torch.tensor([2.0, 4.0]))
    model = nn.Sequential(normalise)
    assert model._apply(move) is model
    assert normalise.mean.dtype == torch.float32
    assert normalise(torch.tensor([[3.0, 7.0]])).tolist() == [[1.0, 1.0]]
