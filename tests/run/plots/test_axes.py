"""Where values lie in a plot, and its grid lines."""

from xml.etree import ElementTree

import pytest

from majority.run.plots.axes import Axes, nice_ticks, slots

AXES = Axes(left=20, right=120, top=10, bottom=60, x_range=(-1, 1), y_range=(0, 5))


def test_the_ends_of_the_ranges_lie_on_the_edges():
    assert (AXES.x(-1), AXES.x(1)) == (20, 120)
    assert (AXES.y(0), AXES.y(5)) == (60, 10), "values grow upwards"


def test_items_lie_in_the_middle_of_slots_of_equal_size():
    columns = Axes(0, 90, 0, 40, x_range=slots(3), y_range=slots(2)[::-1])
    assert [columns.x(i) for i in range(3)] == [15, 45, 75]
    assert [columns.y(i) for i in range(2)] == [10, 30], "reversed: the first row on top"


def test_a_horizontal_grid_has_one_line_and_one_label_per_tick():
    drawn = ElementTree.fromstring(f"<g>{''.join(AXES.horizontal_grid([(0, 'none'), (5, 'all')]))}</g>")
    assert [(line.get("y1"), line.get("x1"), line.get("x2")) for line in drawn.iter("line")] == [
        ("60", "20", "120"), ("10", "20", "120"),
    ]  # fmt: skip
    assert [(label.text, float(label.get("x")) < 20) for label in drawn.iter("text")] == [("none", True), ("all", True)]


def test_a_vertical_grid_marks_zero_and_leaves_out_empty_labels():
    parts = AXES.vertical_grid([(-1, "-1"), (0, ""), (1, "1")], zero="red")
    drawn = ElementTree.fromstring(f"<g>{''.join(parts)}</g>")
    assert [(line.get("x1"), line.get("stroke") == "red") for line in drawn.iter("line")] == [
        ("20", False), ("70", True), ("120", False),
    ]  # fmt: skip
    assert [label.text for label in drawn.iter("text")] == ["-1", "1"]


@pytest.mark.parametrize(("low", "high"), [(0, 0.003), (-7, 2), (0, 1500), (5, 5)])
def test_ticks_enclose_the_values(low, high):
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8
