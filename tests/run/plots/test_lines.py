"""Lines over the values of one variable."""

from xml.etree import ElementTree

from majority.run.plots.lines import Line, Point, line_plot


def test_no_axis_goes_below_0_or_above_1():
    far = Line("count", "#000", [Point(0, 0.1, 0.4), Point(1, 0.9, 0.4)])
    drawn = ElementTree.fromstring(line_plot(["few", "many"], [far], "bags", "accuracy"))
    texts = [text.text for text in drawn.findall(".//{*}text")]
    assert [text for text in texts if text[-1].isdigit()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
