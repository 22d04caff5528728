"""Drawings of pages: what is drawn is what was given."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from majority.run.plots.figures import Curve, Dot, confusion_matrix, dot_plot, instance_map, learning_curves
from majority.run.plots.svg import shorten_distinctly


def test_class_names_with_a_common_beginning_stay_distinct():
    names = [f"adenocarcinoma of the lung, {kind}" for kind in ("lepidic", "acinar", "solid")]
    short = shorten_distinctly([*names, "stroma"], 14)
    assert len(set(short)) == 4
    assert max(map(len, short)) <= 14
    assert short[-1] == "stroma"


@pytest.mark.sample(2)
@pytest.mark.parametrize("epochs", [1, 2, 7, 1500])
def test_learning_curves_have_two_lines_per_run_and_a_dot_at_its_kept_epoch(epochs):
    line = np.linspace(3, 0.1, epochs).tolist()
    curves = [Curve(range(1, epochs + 1), line, line, epochs, f"fold {fold}, ") for fold in (0, 1)]
    drawn = ElementTree.fromstring(learning_curves("Loss", curves))
    lines = [line.get("points").split() for line in drawn.findall("{*}polyline")]
    assert [len(points) for points in lines] == [epochs] * 4
    dots = drawn.findall("{*}circle")
    assert len(dots) == 2
    assert float(dots[0].get("cx")) == pytest.approx(float(lines[0][-1].split(",")[0]), abs=0.1)
    assert dots[1][0].text == f"fold 1, kept epoch {epochs}: {line[-1]:.4g}"


def test_curves_in_percent_reach_from_0_to_100():
    drawn = learning_curves("Accuracy", [Curve([1, 2], [0.4, 0.6], [0.5, 0.5], 1)], percent=True)
    assert {"0%", "100%"} <= set(re.findall(r">([^<>]*)</text>", drawn))


def test_dots_have_an_interval_where_there_is_one_and_lines_to_compare_with():
    dots = [Dot("vote", 0.6, 0.5, 0.7, "0.600"), Dot("<naive>", 0.4, None, None, "0.400")]
    drawn = ElementTree.fromstring(dot_plot(dots, {"naive": 0.4}, "accuracy"))
    assert len(drawn.findall("{*}circle")) == 2
    assert len(drawn.findall("{*}line[@stroke-width]")) == 1
    (reference,) = drawn.findall("{*}line[@stroke-dasharray]")
    assert reference.get("x1") == drawn.findall("{*}circle")[1].get("cx")


@pytest.mark.parametrize("n", [2, 40])
def test_confusion_matrix_draws_each_cell_that_is_not_empty(n):
    matrix = np.diag(np.arange(n)) + np.eye(n, k=1, dtype=int)
    drawn = ElementTree.fromstring(confusion_matrix(matrix, [f"c{i}" for i in range(n)], "true", "predicted"))
    assert len(drawn.findall("{*}rect")) == 1 + np.count_nonzero(matrix)


def places_of(drawn):
    routes = [path.get("d") for path in ElementTree.fromstring(drawn).findall("{*}path")]
    return [tuple(map(float, place)) for route in routes for place in re.findall(r"M([\d.]+) ([\d.]+)", route)]


def test_map_has_one_dot_per_instance_even_where_all_coordinates_are_equal():
    assert len(places_of(instance_map(np.ones((5, 2)), np.array([0, 0, 1, 1, 1]), ["a", "b"]))) == 5


@pytest.mark.parametrize("y_up", [False, True])
def test_a_map_has_north_above_or_pixels_downwards_and_says_its_extent(y_up):
    drawn = instance_map(np.array([[0.0, 0.0], [0.0, 50.0]]), np.array([0, 0]), ["a"], y_up)
    (_, first), (_, second) = places_of(drawn)
    assert (second < first) == y_up
    assert "y 0 to 50" in drawn
