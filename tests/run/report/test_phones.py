"""Pages on a small screen and without a pointer: readable words, boxes that scroll, names of images."""

import json
import re

import numpy as np
import pytest

from majority import train
from majority.recipes import RECIPES, TaskInfo
from majority.run.study.page import write_study

READABLE = 8.5  # pixels
WORDS = """all => all.map(word => parseFloat(getComputedStyle(word).fontSize) *
  word.ownerSVGElement.getBoundingClientRect().width / word.ownerSVGElement.viewBox.baseVal.width)"""
SCROLLS = """() => [...document.querySelectorAll("*")].filter(
  one => ["auto", "scroll"].includes(getComputedStyle(one).overflowX) && one.scrollWidth > one.clientWidth
).map(one => [one.tabIndex, one.getAttribute("role"), one.getAttribute("aria-label")])"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    train("digits", bags=80, bag_size=8, recipe="quick", epochs=2, device="cpu", verbose=False, out=folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    epochs, line = list(range(5)), np.linspace(1, 0, 5).tolist()
    curve = dict.fromkeys(("train_loss", "val_loss", "train_bag_accuracy", "val_bag_accuracy"), line)
    cell = {"source": "cifar10", "scenario": "large", "recipe": "paper", "best_epoch": 1, "curve": curve}
    cell |= {"plan": RECIPES["paper"].plan_for(TaskInfo("cifar10")).as_dict(), "val": {"bag_accuracy": 0.9}}
    cell["curve"]["epoch"] = epochs
    test = {"instance_accuracy": 0.5, "consistency_rate": 0.75, "overestimation_quantiles": [-9.0, -3.0, 0.0, 2.0, 8.0]}
    results = [cell | {"method": name, "fold": fold, "test": test} for name in ("count", "vote") for fold in (0, 1, 2)]
    (folder / "results.jsonl").write_text("".join(json.dumps(result) + "\n" for result in results))
    return write_study(folder)[0]


@pytest.fixture(params=["run", "study"])
def phone(request, opened):
    page = opened(request.getfixturevalue(request.param))
    page.set_viewport_size({"width": 390, "height": 800})
    return page


def test_a_phone_shows_words_to_read_and_boxes_to_scroll_and_paper_the_whole_drawings(phone):
    sizes = phone.locator("svg text:visible").evaluate_all(WORDS)
    assert len(sizes) > 20
    assert min(sizes) >= READABLE
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390

    boxes = phone.evaluate(SCROLLS)
    assert len(boxes) > 2
    for focus, role, name in boxes:
        assert (focus, role) == (0, "region"), "a box that scrolls takes keyboard focus"
        assert name

    phone.emulate_media(media="print")
    edges = phone.locator("svg:visible").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(edges) <= 390


def test_names_of_images_can_be_read_without_a_pointer(run, opened):
    page = opened(run)
    gallery = page.locator("#gallery article").first
    hints = gallery.locator("rect title").evaluate_all("all => all.map(one => one.textContent)")
    listed = gallery.locator("li")
    assert not listed.first.is_visible()
    gallery.locator("summary").press("Enter")
    assert listed.all_inner_texts() == [hint.replace("\n", ": ") for hint in hints]
    assert re.match(r"bag \d+, instance \d+: ", listed.first.inner_text())
    assert page.locator("#mosaics li").count() == page.locator("#mosaics rect title").count()
