"""ResNet-18: the layout of torchvision, and weights from a file."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from majority.errors import InputError
from majority.nn.backbones import create_backbone
from majority.nn.backbones.resnet import Conv3x3, ResNet18, blockwise_conv
from majority.nn.weights import load_weights


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


def test_the_small_stem_is_three_by_three():
    small = create_backbone("resnet18-small", (3, 32, 32))
    assert small.conv1.weight.shape == (64, 3, 3, 3)
    assert small.conv1.stride == (1, 1)
    assert small.layer1(small.maxpool(small.conv1(torch.zeros(1, 3, 32, 32)))).shape == (1, 64, 32, 32)


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


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (lambda weights: weights.pop("layer3.0.bn1.bias"), ("has no 'layer3.0.bn1.bias'", "architecture")),
        (lambda weights: weights.update({"head.weight": torch.zeros(2)}), ("also has 'head.weight'",)),
        (lambda weights: weights.update({"conv1.weight": torch.zeros(64, 3, 3, 3)}), ("conv1.weight", "stem")),
        (lambda weights: weights["bn1.bias"].fill_(torch.nan), ("damaged", "bn1.bias")),
        (lambda weights: weights.update({1: torch.zeros(3)}), ("tensors by name",)),
    ],
)
def test_weights_that_do_not_fit_are_errors_and_change_nothing(published, tmp_path, change, facts):
    path, weights = tmp_path / "weights.pth", {name: value.clone() for name, value in published.state_dict().items()}
    change(weights)
    torch.save(weights, path)
    net = blank(published)
    with pytest.raises(InputError) as error:
        load_weights(net, path)
    assert all(fact in str(error.value) for fact in ("weights.pth", *facts)), error.value
    assert not any(value.any() for value in net.state_dict().values())


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("nowhere.pth", None, ("there is no", "nothing is downloaded")),
        ("weights.pth", b"no weights at all", ("cannot be read", "by name")),
        ("weights.safetensors", b"no weights at all", ("cannot be read", "by name")),
    ],
)
def test_other_files_are_errors(tmp_path, name, content, facts):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        load_weights(nn.Linear(2, 2), tmp_path / name)
    assert all(fact in str(error.value) for fact in (name, *facts)), error.value


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


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 32, 32), (1, 9, 14)])
def test_the_stem_for_gpus_is_the_same_convolution(channels, height, width):
    conv = torch.nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False).double()
    images = torch.randn(2, channels, height, width, dtype=torch.float64)
    torch.testing.assert_close(blockwise_conv(images, conv.weight), conv(images))


@torch.enable_grad()
@pytest.mark.parametrize(("stride", "side"), [(1, (1, 1)), (2, (1, 1)), (1, (2, 2)), (2, (2, 2)), (1, (1, 2))])
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
