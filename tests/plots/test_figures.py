"""The page's drawings."""

import re

import numpy as np

from majority.plots.figures import box, box_plot, confusion_matrix

KINDS = ("adenocarcinoma acinar", "adenocarcinoma lepidic", "adenocarcinoma papillary", "stroma")


def test_names_of_classes_that_begin_alike_are_told_apart():
    matrix = confusion_matrix(np.eye(4, dtype=int), KINDS, "true class", "predicted class")
    boxes = box_plot([box(name, np.arange(3)) for name in KINDS], "instances")
    for drawn in (matrix, boxes):
        shown = re.findall(r"<title>(?:adenocarcinoma \w+|stroma)</title><text[^>]*>([^<]*)<", drawn)
        assert set(shown) == {"aden…ma acinar", "aden…a lepidic", "aden…papillary", "stroma"}
