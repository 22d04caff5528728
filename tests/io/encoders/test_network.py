"""Networks of every kind: timm, plugins, and the layouts of ONNX files."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import majority
from majority import InputError
from majority.io.encoders import Encoder, open_network
from majority.io.encoders.network import reopen_network

IMAGES = np.random.default_rng(0).integers(256, size=(5, 16, 16, 3), dtype=np.uint8)
NORMALISED = torch.tensor((IMAGES / 255 - 0.5) / 0.25).permute(0, 3, 1, 2).float()


@pytest.fixture
def encoder(network, registries):
    """A registered encoder with weights that are not those of the network."""

    def create():
        return type(network)()

    majority.register(Encoder("mine", create, "for a test", 16, mean=(0.5,), std=(0.25,)))


def onnx_model(path, input_shape, nodes, output_shape):
    onnx = pytest.importorskip("onnx")
    number = onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor_value_info("x", number, input_shape)]
    out = [onnx.helper.make_tensor_value_info("y", number, output_shape)]
    graph = onnx.helper.make_graph(nodes, "g", values, out)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_weights_of_a_plugin_and_its_run(encoder, network, tmp_path):
    weights = tmp_path / "w.safetensors"
    save_file(network.state_dict() | {"classifier.weight": torch.zeros(3)}, weights)
    opened = open_network("mine", weights, device="cpu")
    with torch.no_grad():
        np.testing.assert_allclose(opened(IMAGES), network(NORMALISED).numpy(), atol=1e-5)
    again = reopen_network(opened.embedding, tmp_path, "cpu")
    assert np.array_equal(again(IMAGES), opened(IMAGES))
    save_file({name: tensor + 1 for name, tensor in network.state_dict().items()}, weights)
    with pytest.raises(InputError, match="other weights"):
        reopen_network(opened.embedding, tmp_path, "cpu")


def test_weights_that_do_not_fit(encoder, tmp_path):
    path = tmp_path / "w.safetensors"
    for weights in ({"other": torch.zeros(1)}, {"convolution.weight": torch.zeros(1)}):
        save_file(weights, path)
        with pytest.raises(InputError, match="give the weights of this model"):
            open_network("mine", path)


@pytest.mark.parametrize(
    ("module", "fact"),
    [(nn.Identity(), r"\(1, 3, 16, 16\)"), (nn.Conv2d(1, 1, 1), "fails"), (3, "torch module")],
)
def test_modules_that_are_no_encoders(registries, module, fact):
    majority.register(Encoder("wrong", lambda: module, "", 16))
    with pytest.raises(InputError, match=fact):
        open_network("wrong")


def test_onnx_layouts(tmp_path):
    """Channels last, a fixed number of images, and features at positions: the mean of each channel of the image."""
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node
    mean = [node("ReduceMean", ["x"], ["y"], axes=[1, 2], keepdims=0)]
    last = onnx_model(tmp_path / "last.onnx", ["n", 16, 16, 3], mean, ["n", 3])
    fixed = onnx_model(tmp_path / "fixed.onnx", [2, 3, "h", "w"], [node("Identity", ["x"], ["y"])], [2, 3, "h", "w"])
    expected = NORMALISED.mean(dim=(2, 3)).numpy()
    for path, size in ((last, None), (fixed, 16)):
        opened = open_network(path, image_size=size, mean=[0.5], std=[0.25], device="cpu")
        assert opened.embedding.features == 3
        np.testing.assert_allclose(opened(IMAGES), expected, atol=1e-5)
    assert open_network(fixed).embedding.image_size == (224, 224)
    flat = onnx_model(tmp_path / "flat.onnx", ["n", 10], [node("Identity", ["x"], ["y"])], ["n", 10])
    with pytest.raises(InputError, match="channels, height, width"):
        open_network(flat)


def test_timm_says_size_and_normalisation(tmp_path):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    torch.manual_seed(0)
    module = timm.create_model("resnet10t", num_classes=7)
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    opened = open_network("timm:resnet10t", tmp_path / "w.safetensors", device="cpu")
    facts = timm.data.resolve_model_data_config(module)
    assert opened.embedding.image_shape[2::-1] == facts["input_size"][:1] + facts["input_size"][:0:-1]
    assert opened.embedding.mean == tuple(facts["mean"])
    with pytest.raises(InputError, match="no model"):
        open_network("timm:resnet10tt")


def test_timm_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(InputError, match="pip install timm"):
        open_network("timm:resnet18")
