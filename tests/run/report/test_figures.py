"""Drawings of pages: what is drawn is what was given."""

import re
from base64 import b64decode
from io import BytesIO
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from majority.run.report.blocks import macros
from majority.run.report.figures import dot_plot, instance_map, learning_curves, png_data_uri


@pytest.mark.parametrize("epochs", [1, 7])
def test_learning_curves_have_two_lines_and_a_dot_at_the_kept_epoch(epochs):
    line = np.linspace(3, 0.1, epochs).tolist()
    drawn = ElementTree.fromstring(learning_curves("Loss", {"training": line, "validation": line}, epochs))
    lines = [line.get("points").split() for line in drawn.findall("polyline")]
    assert [len(points) for points in lines] == [epochs] * 2
    (dot,) = drawn.findall("circle")
    assert float(dot.get("cx")) == pytest.approx(float(lines[0][-1].split(",")[0]), abs=0.1)
    assert dot[0].text == f"kept epoch {epochs}: {line[-1]:.4g}"
    percent = learning_curves("Accuracy", {"training": [0.4, 0.6], "validation": [0.5, 0.5]}, 1, percent=True)
    assert {"0%", "100%"} <= set(re.findall(r">([^<>]*)</text>", percent))


def test_dots_have_an_interval_where_there_is_one_and_lines_to_compare_with():
    dots = [
        {"name": "vote", "mean": 0.6, "low": 0.5, "high": 0.7, "shown": "0.600"},
        {"name": "<naive>", "mean": 0.4, "low": None, "high": None, "shown": "0.400"},
    ]
    drawn = ElementTree.fromstring(dot_plot(dots, {"naive": 0.4}))
    assert len(drawn.findall("div/b")) == 2
    (interval,) = drawn.findall("div/i")
    assert interval.get("style") == "left:33.33%;width:66.67%", "the axis reaches from 0.4 to 0.7"
    assert [line.get("style") for line in drawn.findall("div/s")] == [drawn.findall("div/b")[1].get("style")] * 2


def test_confusion_matrix_shades_each_cell_that_is_not_empty():
    drawn = macros("blocks").matrix([[9, 1], [0, 5]], ["a", "b"], "true", "predicted")
    assert re.findall(r'td class="(\w+)[^>]*title="(.*?)">(\d+)', drawn) == [
        ("correct", "a as a: 9 (90% of the row)", "9"),
        ("wrong", "a as b: 1 (10% of the row)", "1"),
        ("correct", "b as b: 5 (100% of the row)", "5"),
    ]


@pytest.mark.parametrize("kind", [int, float])
def test_a_map_has_north_above_or_pixels_downwards_and_says_its_extent(kind):
    drawn = instance_map(np.array([[0, 0], [0, 50]], kind), np.array([0, 0]))
    (_, first), (_, second) = drawn["places"][0]
    assert (second < first) == (kind is float)
    assert "y 0 to 50" in drawn["extent"]
    assert len(instance_map(np.ones((5, 2)), np.array([0, 0, 1, 1, 1]))["places"][1]) == 3, "all at one place"


def test_png_keeps_grey_pixels_and_the_size_of_colour_images():
    def decode(uri):
        return Image.open(BytesIO(b64decode(uri.partition(",")[2])))

    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(decode(png_data_uri(pixels[:, :, :1]))), pixels[:, :, 0])
    assert decode(png_data_uri(pixels)).size == (7, 9)
