"""The report page: its figures, names that need escaping, and the page in a real browser."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from majority import Bags, Classifier, InputError, build_model, train
from majority.run.folder import read_result
from majority.run.report.page import report_run, write_report

HOSTILE = ("<b>'\"&", "🦊 fox", "</script><script>alert(1)</script>")
READABLE = 8.5  # pixels
WORDS = """all => all.map(word => parseFloat(getComputedStyle(word).fontSize) *
  word.ownerSVGElement.getBoundingClientRect().width / word.ownerSVGElement.viewBox.baseVal.width)"""
SCROLLS = """() => [...document.querySelectorAll("*")].filter(
  one => ["auto", "scroll"].includes(getComputedStyle(one).overflowX) && one.scrollWidth > one.clientWidth
).map(one => [one.tabIndex, one.getAttribute("role"), one.getAttribute("aria-label")])"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    train("digits", bags=80, bag_size=8, recipe="quick", epochs=6, device="cpu", verbose=False, out=folder)
    return folder


@pytest.fixture(scope="module")
def report(run):
    return report_run(run, "cpu")


@pytest.fixture
def copied_run(run, tmp_path):
    """A copy of the run's folder, for reports about other bags."""
    return Path(shutil.copytree(run, tmp_path / "run"))


def slides(names=HOSTILE):
    """Feature bags with names and coordinates and without instance labels."""
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(n, 8)).astype("float32") for n in (1, 3_000, 40)]
    places = [rng.integers(0, 50, (len(bag), 2)) * 256 for bag in bags]
    return Bags.from_lists(bags, [0, 1, 2], names, names=["<i>one</i>", '"two" &amp;', "three"], coordinates=places)


def page_of(folder, bags, backbone="mlp"):
    parts = {"train": bags, "val": bags}
    return write_report(folder, Classifier(build_model(bags, "count", backbone), "cpu"), parts).read_text()


# ---------------------------------------------------------------------- content


def test_the_page_begins_with_a_verdict_and_has_the_figures_and_the_command_of_the_run(report, run):
    page, result = report.read_text(), read_result(run)
    figures = result["test"]
    of_bags, of_instances = (f"{100 * figures[name]:.1f} %" for name in ("bag_accuracy", "instance_accuracy"))
    verdict = page[page.index('<p class="lead">') : page.index('<div class="cards">')]
    assert f"right about {of_instances} of the instances and the label of {of_bags} of the 20 held-out bags" in verdict
    assert f"<code>majority predict {run.name} SOURCE</code>" in verdict
    assert f"{round(figures['bag_accuracy'] * 20)} of 20 bags whose most frequent predicted class is the label" in page
    assert f"{round(figures['instance_accuracy'] * 160)} of 160 instances classified correctly" in page
    assert "majority train digits --method adjusted-mean" in page
    assert "kept epoch {} of {}".format(result["best_epoch"] + 1, result["epochs"]) in page
    assert report.stat().st_size < 1_000_000
    assert "`" not in page[page.index("<body>") : page.index("<script>")]
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)  # nothing is fetched


def test_macro_f1_comes_first_where_most_bags_have_the_same_label(copied_run):
    path = copied_run / "result.json"
    result = json.loads(path.read_text())
    result["test"]["most_frequent_label"] = 0.7
    result["baseline"] = {"name": "naive forest", "bag_accuracy": 0.5}
    path.write_text(json.dumps(result))
    page = report_run(copied_run, "cpu").read_text()
    assert re.search(r'<div class="card"><span>(.*?)<', page)[1] == "macro F1"
    assert "a naive forest that has learned the same labels: 50.0 %" in page
    assert "no more often than if it always predicted the most frequent label" not in page


def test_features_without_instance_labels_have_maps_and_no_gallery(copied_run):
    page = page_of(copied_run, slides())
    assert 'id="maps"' in page
    assert "2,000 of 3,000 instances" in page
    assert "no instance labels" in page
    assert "There are no test bags" in page
    for absent in ('id="gallery"', 'id="mosaics"'):
        assert absent not in page


def test_only_instances_with_a_known_class_are_compared(copied_run):
    store = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    truth = ["cat", "dog", "ghost", "cat", *[""] * 4, "dog", "", "", "ghost"]
    bags = Bags.from_indices(store, np.arange(12).reshape(3, 4), ["cat", "dog", "cat"], instance_labels=truth)
    page = page_of(copied_run, bags, "tiny")
    assert "Not trained on the class ghost: its instances, 33.3 %" in page
    assert page.count("true number 2") == 1
    mosaics = page[page.index('id="mosaics"') : page.index('id="gallery"')]
    assert [mosaics.count(f'true class {name}"') for name in ("cat", "dog", "ghost")] == [2, 2, 2]
    assert page.count("<option") == 3  # all, cat, dog
    row = r"ghost</span></td><td class=\"n\">0.0 %</td><td class=\"n\">–</td>"  # recall, precision
    assert re.search(row, page)
    truth[:4] = ["cat", "cat", "dog", "dog"]
    bags = Bags.from_indices(store, np.arange(12).reshape(3, 4), ["cat", "dog", "cat"], instance_labels=truth)
    assert "ghost" in bags.true_classes
    assert "ghost" not in page_of(copied_run, bags.subset([0, 1]), "tiny"), "no empty row"


def test_a_page_of_many_classes_and_bags_says_what_it_leaves_out(copied_run):
    rng, n = np.random.default_rng(0), 600
    store = rng.integers(0, 256, (500, 40, 30, 3), dtype=np.uint8)
    offsets, names = np.arange(n + 1) * 4, [f"class {i}" for i in range(100)]
    bags = Bags(store, rng.integers(0, 500, 4 * n), offsets, rng.integers(0, 100, n), names)
    page = page_of(copied_run, bags)
    assert "400 of 600 bags are left out" in page
    assert "576 of 600 bags are left out" in page
    assert "Colours repeat" in page
    assert len(page) < 4_000_000


@pytest.mark.parametrize("missing", ["result.json", "best.safetensors", "config.json"])
def test_an_incomplete_run_is_refused_and_nothing_is_written(copied_run, missing):
    (copied_run / missing).unlink()
    (copied_run / "report.html").unlink(missing_ok=True)
    with pytest.raises(InputError, match="finished" if missing == "result.json" else re.escape(missing)):
        report_run(copied_run, "cpu")
    assert not [entry for entry in copied_run.iterdir() if "report" in entry.name]


# ---------------------------------------------------------------------- in a browser


def visible_bags(page, section):
    """(label, predicted, correct) of the visible bags."""
    visible = page.locator(f"#{section} .bag:visible")
    return visible.evaluate_all("bags => bags.map(b => [b.dataset.label, b.dataset.predicted, b.dataset.correct])")


def test_filters_change_the_visible_bags(opened, report):
    page = opened(report)
    assert page.title() == "digits · adjusted-mean · majority report"
    page.locator(".more > summary").evaluate_all("all => all.map(one => one.click())")
    everything = {section: visible_bags(page, section) for section in ("bags", "mosaics")}
    assert len(everything["bags"]) == 20
    assert [correct for *_, correct in everything["bags"]] == sorted(correct for *_, correct in everything["bags"])
    page.locator("#filter span", has_text="wrong").click()
    for section, bags in everything.items():
        assert visible_bags(page, section) == [bag for bag in bags if bag[2] == "no"]
    chosen = everything["bags"][0][0]
    page.select_option("#filter select", chosen)
    for section, bags in everything.items():
        assert visible_bags(page, section) == [bag for bag in bags if bag[2] == "no" and chosen in bag[:2]]
    assert f"of {len(everything['bags'])} bags shown" in page.locator("#filter output").inner_text()
    assert page.locator("#gallery article:visible").count() <= 1


def test_images_can_be_decoded_and_named_without_a_pointer(opened, report):
    page = opened(report)
    decoded = "async uri => { const i = new Image(); i.src = uri; await i.decode(); return i.naturalWidth }"
    sheets = page.locator(".pictures").evaluate_all("all => all.map(i => i.style.getPropertyValue('--sheet'))")
    assert len(sheets) > 20
    assert all(page.evaluate(decoded, sheet[4:-1]) >= 8 for sheet in sheets[:3] + sheets[-3:])
    gallery = page.locator("#gallery article").first
    hints = gallery.locator("figure").evaluate_all("all => all.map(one => one.title)")
    assert not gallery.locator("li").first.is_visible()
    gallery.locator("summary").press("Enter")
    assert gallery.locator("li").all_inner_texts() == [hint.replace("\n", ": ") for hint in hints]


def test_a_phone_shows_words_to_read_and_boxes_to_scroll_and_paper_the_whole_page(opened, report, copied_run):
    page_of(copied_run, slides(("long" * 40, *HOSTILE[1:])))
    for path in (report, copied_run / "report.html"):
        page = opened(path)
        for width in (320, 390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.documentElement.scrollHeight") < 10_000
    page = opened(report)
    page.set_viewport_size({"width": 390, "height": 800})
    sizes = page.locator("svg text:visible").evaluate_all(WORDS)
    assert len(sizes) > 15
    assert min(sizes) >= READABLE
    boxes = page.evaluate(SCROLLS)
    assert len(boxes) > 2
    assert all((focus, role) == (0, "region") and name for focus, role, name in boxes), "reached by keyboard"
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    page.emulate_media(media="print")
    assert not page.locator("#filter").is_visible()
    edges = page.locator("svg:visible, .pictures:visible").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().right)"
    )
    assert max(edges) <= 390


def test_words_can_be_read_in_the_dark(opened, report):
    """Text, axes and labels of drawings are light on a dark page, and dark on paper."""
    brightness = """all => all.map(one => getComputedStyle(one).fill.match(/\\d+/g).slice(0, 3).map(Number)
      .reduce((a, b) => a + b) / 3)"""
    page = opened(report)
    words = page.locator("#curves svg text")
    for scheme, medium, bright in (("light", "screen", False), ("dark", "screen", True), ("dark", "print", False)):
        page.emulate_media(color_scheme=scheme, media=medium)
        assert {value > 128 for value in words.evaluate_all(brightness)} == {bright}
    page.emulate_media(color_scheme="null", media="null")


def test_names_run_no_script(opened, copied_run):
    text = page_of(copied_run, slides())
    assert text.count("<script>") == 1
    assert "<i>one" not in text
    page = opened(copied_run / "report.html")
    assert page.locator("#bags .bag").count() == 3
    assert page.locator("#filter option").nth(3).inner_text() == HOSTILE[2]


def test_the_page_allows_no_network_no_other_script_and_no_inline_event_handler(page, report, tmp_path):
    """Markup that got into a page in spite of all escaping: it is planted here."""
    planted = "<script>window.ran = 1</script><img src=x onerror='window.ran = 2'><img src='http://127.0.0.1:9/x'>"
    path = tmp_path / "report.html"
    path.write_text(report.read_text().replace("<main>", f"<main>{planted}"))
    assert planted in path.read_text()
    with page.expect_event("requestfailed", lambda request: request.url.startswith("http")) as refused:
        page.goto(path.as_uri())
    assert page.evaluate("window.ran === undefined")
    assert refused.value.url == "http://127.0.0.1:9/x"
    assert "csp" in refused.value.failure, "the policy, not the network, refused it"
