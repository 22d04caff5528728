"""The drawings of a report page."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from majority.run.plots.figures import Box, box_plot, confusion_matrix, instance_map, learning_curves

CLASSES = ("adenocarcinoma acinar", "adenocarcinoma lepidic", "adenocarcinoma papillary", "stroma")


def test_class_names_with_a_common_beginning_stay_distinct():
    matrix = confusion_matrix(np.eye(4, dtype=int), CLASSES, "true class", "predicted class")
    boxes = box_plot([Box.from_values(name, np.arange(3)) for name in CLASSES], "instances")
    for drawn in (matrix, boxes):
        shown = re.findall(r"<title>(?:adenocarcinoma \w+|stroma)</title><text[^>]*>([^<]*)<", drawn)
        assert set(shown) == {"aden…ma acinar", "aden…a lepidic", "aden…papillary", "stroma"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("epochs", [1, 2, 7, 1500])
def test_learning_curves_have_one_point_per_epoch(epochs):
    line = np.linspace(3, 0.1, epochs).tolist()
    drawn = ElementTree.fromstring(learning_curves("Loss", {"training": line, "validation": line}, epochs - 1))
    lines = drawn.findall("{*}polyline")
    assert [len(one.get("points").split()) for one in lines] == [epochs, epochs]
    assert f"kept: {epochs}" in "".join(drawn.itertext()), "counted from 1"


def test_learning_curves_in_percent_reach_from_0_to_100():
    line = {"training": [0.4, 0.6], "validation": [0.5, 0.5]}
    drawn = ElementTree.fromstring(learning_curves("Accuracy", line, 1, percent=True))
    labels = [label.text for label in drawn.findall(".//{*}text") if label.text.endswith("%")]
    assert labels == ["0%", "20%", "40%", "60%", "80%", "100%"]


def test_box_quantiles_are_those_of_the_values():
    values = np.array([-3, -1, 0, 4, 10, 11])
    assert Box.from_values("x", values).quantiles == tuple(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))
    boxes = [Box.from_values("<all>", values), Box.from_values("one", np.array([2]))]
    drawn = ElementTree.fromstring(box_plot(boxes, "surplus"))
    assert "<all>: lowest -3, quartiles -0.75, 2, 8.5, highest 11" in "".join(drawn.itertext())


@pytest.mark.parametrize("n", [2, 24, 100])
def test_confusion_matrix_draws_each_cell_that_is_not_empty(n):
    matrix = np.diag(np.arange(1, n + 1))
    matrix[0, 1] = 7
    drawn = ElementTree.fromstring(confusion_matrix(matrix, [f"<{i}>" for i in range(n)], "true", "predicted"))
    assert len(drawn.findall("{*}rect/{*}title")) == n + 1


def test_map_has_one_dot_per_instance_even_where_all_coordinates_are_equal():
    for places in (np.zeros((5, 2)), np.random.default_rng(0).random((5, 2)), np.array([[1.0, 2.0]])):
        drawn = ElementTree.fromstring(instance_map(places, np.arange(len(places)) % 2, ["a", "b"]))
        assert sum(path.get("d").count("M") for path in drawn.findall("{*}path")) == len(places)


@pytest.mark.parametrize("y_up", [False, True])
def test_a_map_has_north_above_or_pixels_downwards(y_up):
    places = np.array([[0.0, 0.0], [1.0, 2.0]])  # of class a, and further up or down of class b
    drawn = instance_map(places, np.array([0, 1]), ["a", "b"], y_up)
    (_, a), (_, b) = re.findall(r'd="M([\d.]+) ([\d.]+)h0"', drawn)
    assert (float(b) < float(a)) == y_up
