"""The parts of a page about classes, bags and instances."""

import numpy as np

from majority import Bags
from majority.predict.predictions import Predictions
from majority.run.report import sections

CLASSES = ("a", "b", "c")


def classified(guesses, labels, truth=None, index=None, confidence=None):
    """Bags of tiny images whose instances were predicted as these classes."""
    guess = np.concatenate(guesses)
    offsets = np.cumsum([0, *map(len, guesses)])
    index = np.arange(len(guess)) if index is None else np.array(index)
    store = np.zeros((index.max() + 1, 2, 2, 1), np.uint8)
    bags = Bags(store, index, offsets, labels, CLASSES, instance_labels=truth)
    confidence = np.linspace(0.9, 0.5, len(guess)) if confidence is None else np.array(confidence)
    return Predictions(bags, CLASSES, guess, confidence)


def names_of(found):
    return [one["title"].split("\n")[0] for one in found["shown"]]


def test_confusions_are_the_largest_counts_as_shares_of_the_true_class():
    rows = sections.most_confused(np.array([[5, 3, 0], [1, 9, 0], [0, 6, 2]]), CLASSES)
    assert rows == [["c", "b", "6", "75.0 %"], ["a", "b", "3", "37.5 %"], ["b", "a", "1", "10.0 %"]]


def test_the_gallery_shows_an_image_of_many_bags_once_and_in_one_strip(monkeypatch):
    monkeypatch.setattr(sections, "GALLERY_COLUMNS", 2)
    shared = classified([[0, 0, 0], [0, 0]], [0, 0], index=[0, 1, 2, 1, 3], confidence=[0.9, 0.8, 0.7, 0.8, 0.6])
    ((of, n, strips),) = sections.gallery(shared, None)
    assert (of, n) == (0, 4)
    assert names_of(strips["most confident"]) == ["bag 0, instance 0", "bag 0, instance 1"]
    assert names_of(strips["least confident"]) == ["bag 1, instance 3", "bag 0, instance 2"]
    ((_, _, strips),) = sections.gallery(classified([[0, 0, 0]], [0]), None)
    assert [len(found["shown"]) for found in strips.values()] == [2, 1]


def test_a_large_bag_shows_evenly_spaced_instances(monkeypatch):
    monkeypatch.setattr(sections, "MAX_MOSAIC_TILES", 3)
    (bag,) = sections.bag_views(classified([[0] * 9], [0]), None)
    assert names_of(bag["images"]) == [f"bag 0, instance {i}" for i in (0, 4, 8)]


def test_a_bar_has_a_segment_for_the_label_however_few_instances_are_predicted_as_it(monkeypatch):
    monkeypatch.setattr(sections, "MAX_SEGMENTS", 1)
    (bag,) = sections.bag_views(classified([[0, 1, 1, 1, 2, 2]], [0]), None)
    assert (bag["segments"], bag["rest"]) == ([(0, 1), (1, 3)], 2)


def test_wrong_bags_come_first_then_those_with_the_smallest_share_of_their_label():
    guesses = [[0] * 4, [0, 0, 0, 1, 1, 2, 2], [0] * 9 + [2] * 10]
    assert classified(guesses, [0, 0, 0]).order.tolist() == [2, 1, 0]
