"""ResNet-18: the layout of torchvision, and weights from a file."""

import copy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from majority.errors import InputError
from majority.nn.backbones import count_features, create_backbone
from majority.nn.backbones.resnet import Conv3x3, ResNet18, blockwise_conv, load_weights

# Each convolution of torchvision's resnet18: name, outputs, inputs, kernel; and the batch norm that follows it.
CONVOLUTIONS = [
    ("conv1", 64, 3, 7, "bn1"),
    ("layer1.0.conv1", 64, 64, 3, "layer1.0.bn1"),
    ("layer1.0.conv2", 64, 64, 3, "layer1.0.bn2"),
    ("layer1.1.conv1", 64, 64, 3, "layer1.1.bn1"),
    ("layer1.1.conv2", 64, 64, 3, "layer1.1.bn2"),
    ("layer2.0.conv1", 128, 64, 3, "layer2.0.bn1"),
    ("layer2.0.conv2", 128, 128, 3, "layer2.0.bn2"),
    ("layer2.0.downsample.0", 128, 64, 1, "layer2.0.downsample.1"),
    ("layer2.1.conv1", 128, 128, 3, "layer2.1.bn1"),
    ("layer2.1.conv2", 128, 128, 3, "layer2.1.bn2"),
    ("layer3.0.conv1", 256, 128, 3, "layer3.0.bn1"),
    ("layer3.0.conv2", 256, 256, 3, "layer3.0.bn2"),
    ("layer3.0.downsample.0", 256, 128, 1, "layer3.0.downsample.1"),
    ("layer3.1.conv1", 256, 256, 3, "layer3.1.bn1"),
    ("layer3.1.conv2", 256, 256, 3, "layer3.1.bn2"),
    ("layer4.0.conv1", 512, 256, 3, "layer4.0.bn1"),
    ("layer4.0.conv2", 512, 512, 3, "layer4.0.bn2"),
    ("layer4.0.downsample.0", 512, 256, 1, "layer4.0.downsample.1"),
    ("layer4.1.conv1", 512, 512, 3, "layer4.1.bn1"),
    ("layer4.1.conv2", 512, 512, 3, "layer4.1.bn2"),
]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def published() -> ResNet18:
    """A network as in the paper, with non-trivial batch norm statistics."""
    torch.manual_seed(0)
    net = ResNet18((3, 32, 32))
    net.train()(torch.randn(4, 3, 32, 32))
    return net.eval()


def blank(net: nn.Module) -> nn.Module:
    """A copy without its weights: random ones take a quarter of a second."""
    other = copy.deepcopy(net)
    for value in other.state_dict().values():
        value.zero_()
    return other


def test_names_and_shapes_are_torchvisions(published):
    expected = {}
    for name, outputs, inputs, kernel, norm in CONVOLUTIONS:
        expected[f"{name}.weight"] = (outputs, inputs, kernel, kernel)
        expected |= {f"{norm}.{part}": (outputs,) for part in ("weight", "bias", "running_mean", "running_var")}
        expected[f"{norm}.num_batches_tracked"] = ()
    assert {name: tuple(value.shape) for name, value in published.state_dict().items()} == expected
    assert len(list(published.parameters())) == 60
    assert sum(parameter.numel() for parameter in published.parameters()) == 11_176_512


def test_the_small_stem_is_three_by_three():
    small = create_backbone("resnet18-small", (3, 32, 32))
    assert small.conv1.weight.shape == (64, 3, 3, 3)
    assert small.conv1.stride == (1, 1)
    assert small.layer1(small.maxpool(small.conv1(torch.zeros(1, 3, 32, 32)))).shape == (1, 64, 32, 32)


def test_initial_weights_follow_torchvision():
    torch.manual_seed(0)
    net = ResNet18((3, 32, 32))
    for name, outputs, _, kernel, norm in CONVOLUTIONS:
        weight = net.get_submodule(name).weight
        assert weight.std().item() == pytest.approx((2 / (outputs * kernel**2)) ** 0.5, rel=0.03)
        assert (net.get_submodule(norm).weight == 1).all()
        assert (net.get_submodule(norm).bias == 0).all()


@pytest.mark.parametrize(("name", "channels"), [("resnet18", 1), ("resnet18", 3), ("resnet18-small", 3)])
def test_any_size_and_channels(name, channels):
    net = create_backbone(name, (channels, 8, 8)).eval()  # the weights do not depend on the size
    for side in (8, 28, 32, 64):
        assert count_features(net, (channels, side, side)) == net.out_features == 512
        features = net(torch.rand(1, channels, side, side))
        assert features.shape == (1, 512)
        assert features.isfinite().all()


def test_large_and_oblong_images(published):
    assert published(torch.rand(1, 3, 256, 256)).shape == (1, 512)
    assert published(torch.rand(1, 3, 20, 45)).shape == (1, 512)


def test_one_instance_can_be_trained_on():
    """A 32 x 32 image ends as one position per channel, which has no standard deviation for plain batch norm."""
    net = create_backbone("resnet18", (3, 32, 32)).train()
    with torch.enable_grad():
        net(torch.rand(1, 3, 32, 32)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


def test_stem_must_be_known():
    with pytest.raises(InputError, match="no stem 'large': use one of imagenet, small"):
        ResNet18((3, 32, 32), stem="large")


def test_vectors_are_errors():
    with pytest.raises(InputError, match="resnet18 needs images, these instances are vectors of 12 values: use mlp"):
        create_backbone("resnet18", (12,))


# ---------------------------------------------------------------- weights from a file


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_are_loaded_from_a_file(published, tmp_path, suffix):
    path = tmp_path / f"weights{suffix}"
    with_classifier = published.state_dict() | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    if suffix == ".pth":
        old = {name: value for name, value in with_classifier.items() if not name.endswith("num_batches_tracked")}
        torch.save(old, path)  # as in torchvision's oldest files
    else:
        save_file(with_classifier, path)
    other = blank(published)
    load_weights(other, path)
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(other(images), published(images), rtol=0, atol=0)


def test_colour_weights_on_grey_equal_those_on_repeated_grey(published, tmp_path):
    save_file(published.state_dict(), tmp_path / "colour.safetensors")
    grey = ResNet18((1, 32, 32)).eval()
    load_weights(grey, tmp_path / "colour.safetensors")
    images = torch.rand(2, 1, 32, 32)
    torch.testing.assert_close(grey(images), published(images.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-4)


def without(weights, name):
    return {key: value for key, value in weights.items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: without(weights, "layer3.0.bn1.bias"), "lacks layer3.0.bn1.bias: give weights of the same"),
        (lambda weights: {}, "lacks conv1.weight and 99 more"),
        (
            lambda weights: weights | {"head.weight": torch.zeros(2)},
            "does not have, head.weight: give weights of the same",
        ),
        (
            lambda weights: weights | {"conv1.weight": torch.zeros(64, 3, 3, 3)},
            r"conv1.weight has shape \(64, 3, 3, 3\), in this backbone \(64, 3, 7, 7\): .* same stem",
        ),
    ],
    ids=["one missing", "empty", "foreign", "other stem"],
)
def test_weights_that_do_not_fit_are_errors_and_change_nothing(published, tmp_path, change, message):
    path = tmp_path / "weights.pth"
    torch.save(change(published.state_dict()), path)
    net = blank(published)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(InputError, match=message):
        load_weights(net, path)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class NotATensor:
    pass


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_damaged_files_are_errors(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"no weights at all")
    with pytest.raises(InputError, match=rf"{name} cannot be read .*: it must hold tensors by name"):
        load_weights(nn.Linear(2, 2), path)


def test_files_with_other_content_are_errors(tmp_path):
    net = nn.Linear(2, 2)
    torch.save(NotATensor(), tmp_path / "pickled.pth")
    with pytest.raises(InputError, match="cannot be read"):
        load_weights(net, tmp_path / "pickled.pth")
    for content in ({"epoch": 3, "state_dict": {}}, {1: torch.zeros(3)}):
        torch.save(content, tmp_path / "checkpoint.pth")
        with pytest.raises(InputError, match=r"does not hold tensors by name: save model.state_dict\(\) alone"):
            load_weights(net, tmp_path / "checkpoint.pth")
    with pytest.raises(InputError, match=r"there is no weights file .*nowhere.pth: check the path"):
        load_weights(net, tmp_path / "nowhere.pth")
    (tmp_path / "weights.bin").touch()
    with pytest.raises(InputError, match=r"give one that ends in .safetensors, .pth or .pt"):
        load_weights(net, tmp_path / "weights.bin")


def test_weights_of_any_module(tmp_path):
    a, b = create_backbone("cnn", (3, 8, 8)), create_backbone("cnn", (1, 8, 8))
    save_file(a.state_dict(), tmp_path / "cnn.safetensors")
    load_weights(b, tmp_path / "cnn.safetensors")
    first_of_a, first_of_b = (next(m for m in net.modules() if isinstance(m, nn.Conv2d)).weight for net in (a, b))
    torch.testing.assert_close(first_of_b, first_of_a.sum(dim=1, keepdim=True))


# ---------------------------------------------------------------- other packages


@pytest.fixture(scope="module")
def filled_network(published) -> nn.Module:
    """Filled, as any network with these parameter names can be, with the same weights and statistics, from numpy."""
    net = copy.deepcopy(published)
    random = np.random.RandomState(0)
    for name, value in net.state_dict().items():
        if value.ndim:
            noise = torch.from_numpy(random.standard_normal(tuple(value.shape)).astype(np.float32))
            if value.ndim > 1:
                noise *= (2 / value[0].numel()) ** 0.5
            else:
                noise = 1 + 0.1 * noise.abs() if name.endswith(("weight", "running_var")) else 0.1 * noise
            value.copy_(noise)
    return net


@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_equals_torchvision(mode, side, filled_network):
    """The file holds every eighth feature of these images by torchvision 0.26's resnet18, filled in the same way."""
    theirs = np.load(Path(__file__).with_name("torchvision-resnet18.npz"))[f"{mode}{side}"]
    images = np.random.RandomState(side).standard_normal((4, 3, side, side)).astype(np.float32)
    ours = copy.deepcopy(filled_network).train(mode == "train")(torch.from_numpy(images))
    np.testing.assert_allclose(ours[:, ::8].numpy(), theirs, rtol=1e-4, atol=1e-3)


def test_a_timm_model_by_name():
    pytest.importorskip("timm", exc_type=Exception)
    net = create_backbone("timm:resnet18", (1, 32, 32))
    assert net(torch.rand(2, 1, 32, 32)).shape == (2, count_features(net, (1, 32, 32))) == (2, 512)
    with pytest.raises(InputError, match="timm has no model 'resnet1812'"):
        create_backbone("timm:resnet1812", (1, 32, 32))


def test_without_timm_its_names_are_errors(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match="timm:resnet50 needs the package timm, which is not installed: pip install"):
        create_backbone("timm:resnet50", (3, 32, 32))


def test_timm_models_are_created_with_the_channels_of_the_images(monkeypatch):
    given = {}

    def create_model(name, **options):
        given.update(options, name=name)
        return nn.Flatten()

    models = ["tiny"]
    fake = SimpleNamespace(is_model=models.__contains__, list_models=lambda _: models, create_model=create_model)
    monkeypatch.setitem(sys.modules, "timm", fake)
    net = create_backbone("timm:tiny", (2, 8, 8))
    assert given == {"name": "tiny", "pretrained": False, "num_classes": 0, "in_chans": 2}
    assert count_features(net, (2, 8, 8)) == 128
    with pytest.raises(InputError, match=r"timm has no model 'tin' \(it has tiny\)"):
        create_backbone("timm:tin", (2, 8, 8))
    with pytest.raises(InputError, match="timm:tiny needs images"):
        create_backbone("timm:tiny", (5,))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 28), (9, 14), (8, 8)])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_stem_for_gpus_is_the_same_convolution(channels, height, width):
    conv = torch.nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False).double()
    images = torch.randn(2, channels, height, width, dtype=torch.float64)
    torch.testing.assert_close(blockwise_conv(images, conv.weight), conv(images))


@torch.enable_grad()
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [(1, 1), (2, 2), (1, 2), (2, 3), (3, 3)])
def test_tiny_maps_skip_padding_and_nothing_else(side, stride):
    conv = Conv3x3(5, 7, stride).double()
    plain = torch.nn.Conv2d(5, 7, 3, stride, padding=1, bias=False).double()
    plain.load_state_dict(conv.state_dict())
    maps = torch.randn(4, 5, *side, dtype=torch.float64, requires_grad=True)
    again = maps.detach().clone().requires_grad_()
    ours, theirs = conv(maps), plain(again)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    (ours * weights).sum().backward()
    (theirs * weights).sum().backward()
    torch.testing.assert_close(maps.grad, again.grad)
    torch.testing.assert_close(conv.weight.grad, plain.weight.grad)
