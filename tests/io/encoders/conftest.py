import csv

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

COLOURS = {"red": (200, 40, 40), "blue": (40, 40, 200)}


class Small(nn.Module):
    """A network of 16x16 images to five features."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 5, 3, stride=2)

    def forward(self, images):
        return self.convolution(images).relu().mean(dim=(2, 3))


@pytest.fixture(scope="session")
def network():
    torch.manual_seed(0)
    return Small().eval()


@pytest.fixture(scope="session")
def onnx_file(network, onnx_operators, tmp_path_factory):
    """The network as a user exports it."""
    pytest.importorskip("onnxscript")
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    example, any_number = torch.zeros(2, 3, 16, 16), {0: torch.export.Dim("n")}
    torch.onnx.export(network, (example,), path, dynamic_shapes=(any_number,), external_data=False, verbose=False)
    return path


@pytest.fixture(scope="session")
def manifest(tmp_path_factory):
    """Twenty bags of five images of two colours, with coordinates and the true class of most instances."""
    folder, rng = tmp_path_factory.mktemp("tiles"), np.random.default_rng(0)
    rows = []
    for bag in range(20):
        label, other = ("red", "blue") if bag % 2 else ("blue", "red")
        for i in range(5):
            true = label if i < 3 else other
            pixels = np.clip(rng.normal(COLOURS[true], 30, (20, 20, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{bag}-{i}.png")
            rows.append([f"bag {bag:02}", label, f"{bag}-{i}.png", true if bag else "", i * 20, bag * 20])
    path = folder / "tiles.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["bag", "bag_label", "path", "label", "x", "y"], *rows])
    return path
