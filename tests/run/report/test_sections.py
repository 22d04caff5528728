"""The parts of a page about classes, bags and instances, as plain values."""

import numpy as np

from majority import Bags
from majority.run.classified_bags import ClassifiedBags
from majority.run.report import sections

CLASSES = ("a", "b", "c")


def classified(guesses, labels, truth=None, index=None, confidence=None):
    """Bags of tiny images whose instances were predicted as these classes."""
    guess = np.concatenate(guesses)
    offsets = np.cumsum([0, *map(len, guesses)])
    index = np.arange(len(guess)) if index is None else np.array(index)
    store = np.zeros((index.max() + 1, 2, 2, 1), np.uint8)
    bags = Bags(store, index, offsets, labels, CLASSES, instance_labels=truth)
    counts = np.stack([np.bincount(bag, minlength=3) for bag in guesses])
    confidence = np.linspace(0.9, 0.5, len(guess)) if confidence is None else np.array(confidence)
    return ClassifiedBags(bags, CLASSES, counts.argmax(axis=1), counts, guess, confidence)


def test_confusions_are_the_largest_counts_as_shares_of_the_true_class():
    matrix = np.array([[5, 3, 0], [1, 9, 0], [0, 6, 2]])
    found = [tuple(row.values()) for row in sections.most_confused(matrix, CLASSES)]
    assert found == [("c", "b", 6, 6 / 8), ("a", "b", 3, 3 / 8), ("b", "a", 1, 1 / 10)]


def test_an_image_of_many_bags_is_in_the_gallery_once(monkeypatch):
    monkeypatch.setattr(sections, "GALLERY_COLUMNS", 2)
    shared = classified([[0, 0, 0], [0, 0]], [0, 0], index=[0, 1, 2, 1, 3], confidence=[0.9, 0.8, 0.7, 0.8, 0.6])
    (row,) = sections.gallery(shared)
    names = {title: [tile.split(":")[0] for tile in strip["descriptions"]] for title, strip in row["strips"].items()}
    assert row["count"] == 4
    assert names["most confident"] == ["bag 0, instance 0", "bag 0, instance 1"]
    assert names["least confident"] == ["bag 1, instance 3", "bag 0, instance 2"]


def test_no_image_is_both_most_and_least_confident(monkeypatch):
    monkeypatch.setattr(sections, "GALLERY_COLUMNS", 2)
    (row,) = sections.gallery(classified([[0, 0, 0]], [0]))
    assert [len(strip["descriptions"]) for strip in row["strips"].values()] == [2, 1]


def test_a_large_bag_shows_evenly_spaced_instances(monkeypatch):
    monkeypatch.setattr(sections, "MAX_MOSAIC_TILES", 3)
    ((shown,),) = [sections.mosaics(classified([[0] * 9], [0])).shown]
    assert [tile.split(":")[0] for tile in shown["descriptions"]] == [f"bag 0, instance {i}" for i in (0, 4, 8)]


def test_a_bar_has_a_segment_for_the_label_however_few_instances_are_predicted_as_it(monkeypatch):
    monkeypatch.setattr(sections, "MAX_SEGMENTS", 1)
    (bar,) = sections.bars(classified([[0, 1, 1, 1, 2, 2]], [0])).shown
    assert bar["segments"] == [{"number": 0, "count": 1}, {"number": 1, "count": 3}]
    assert bar["rest"] == 2


def test_boxes_show_the_most_frequent_labels(monkeypatch):
    monkeypatch.setattr(sections, "MAX_BOXES", 2)
    guesses, labels = [[0], [1], [1], [2], [2]], [0, 1, 1, 2, 2]
    boxes = sections.overestimation_boxes(classified(guesses, labels, truth=labels))
    assert [(box.name, box.n) for box in boxes] == [("all bags", 5), ("b", 2), ("c", 2)]


def test_wrong_bags_come_first_then_those_with_the_smallest_share_of_their_label():
    guesses = [[0, 0, 0, 0], [0, 0, 0, 1, 1, 2, 2], [0] * 9 + [2] * 10]
    assert classified(guesses, [0, 0, 0]).order.tolist() == [2, 1, 0]
