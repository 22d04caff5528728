"""The report page: its figures, names that need escaping, and the page in a real browser."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from majority import Bags, Classifier, InputError, build_model, evaluate, train
from majority.run.classified_bags import classify_bags
from majority.run.folder import read_result
from majority.run.plots.figures import Box, box_plot, confusion_matrix
from majority.run.reopen import reopen
from majority.run.report import sections
from majority.run.report.page import SURPLUS, _why_kept
from majority.run.run_report import report_run, write_report
from majority.run.study.comparison import Gap
from majority.run.study.figures import interval_plot

HOSTILE = ("<b>'\"&", "🦊 fox", "</script><script>alert(1)</script>")


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


def test_the_page_says_why_its_epoch_was_kept():
    chosen = {"teacher-1": {"val_loss": 0.5}}
    for result in ({}, {"stages": chosen}):
        assert "lowest validation loss" in _why_kept(result)
    distilled = _why_kept({"stages": chosen | {"student": {"train_loss": 0.5}}})
    assert "last epoch" in distilled
    assert "soft labels" in distilled


# ---------------------------------------------------------------------- content


def test_shares_are_shown_with_their_counts(run, report):
    figures = read_result(run)["test"]
    bags, instances = (
        round(figures[name] * total) for name, total in (("bag_accuracy", 20), ("instance_accuracy", 160))
    )
    page = report.read_text()
    assert f"{bags} of 20 bags whose most frequent predicted class is the label" in page
    assert f"{instances} of 160 instances classified correctly" in page


def test_bars_and_classes_agree_with_the_outcome(run):
    classifier, parts, _ = reopen(run, device="cpu")
    classified, outcome = classify_bags(classifier, parts.test), evaluate(classifier.model, parts.test, "cpu")
    assert np.array_equal(classified.counts, outcome.hard_counts)
    assert np.array_equal(classified.predicted, outcome.predicted)
    assert np.array_equal(classified.confusion(), outcome.confusion)
    assert classified.outcome().summary() == outcome.summary()
    shown = sections.bars(classified).shown
    assert [bag["correct"] for bag in shown] == sorted(bag["correct"] for bag in shown)  # wrong bags first
    for bag in shown:
        number = int(bag["name"])
        assert bag["framed_count"] == outcome.hard_counts[number, bag["framed"]]
        assert bag["true_count"] == outcome.true_counts[number, bag["framed"]]
        assert sum(piece["count"] for piece in bag["segments"]) + bag["rest"] == bag["size"]
    table = sections.class_table(outcome.confusion, classified.classes)
    f1 = [row["f1"] for row in table if row["f1"] is not None]
    assert np.mean(f1) == pytest.approx(outcome.summary()["macro_f1"])
    assert sections.overestimation_boxes(classified)[0].quantiles == tuple(
        outcome.summary()["overestimation_quantiles"]
    )


def test_the_page_has_the_accuracy_and_the_command_of_the_run(report, run):
    page = report.read_text()
    result = json.loads((run / "result.json").read_text())
    assert f"{100 * result['test']['instance_accuracy']:.1f} %" in page
    assert "majority train digits --method adjusted-mean" in page
    assert "kept epoch {} of {}".format(result["best_epoch"] + 1, result["epochs"]) in page
    assert report.stat().st_size < 1_000_000
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)  # nothing is fetched


def test_features_without_instance_labels_have_maps_and_no_gallery(copied_run):
    page = page_of(copied_run, slides())
    assert 'id="maps"' in page
    assert "2,000 of 3,000 instances" in page
    assert "no instance labels" in page
    assert "There are no test bags" in page
    for absent in ('id="gallery"', 'id="mosaics"', "Overestimation of"):
        assert absent not in page


def test_one_bag_is_singular(copied_run):
    bags = slides()
    classifier = Classifier(build_model(bags, "count", "mlp"), "cpu")
    page = write_report(copied_run, classifier, {"train": bags, "val": bags, "test": bags.subset([0])}).read_text()
    assert page.count("1 bag shown") == 2, "as bars and as maps"


def test_only_instances_with_a_known_class_are_compared(copied_run):
    store = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    truth = ["cat", "dog", "ghost", "cat", *[""] * 4, "dog", "", "", "ghost"]
    bags = Bags.from_indices(store, np.arange(12).reshape(3, 4), ["cat", "dog", "cat"], instance_labels=truth)
    classifier = Classifier(build_model(bags, "count", "tiny"), "cpu")
    classified, outcome = classify_bags(classifier, bags), evaluate(classifier.model, bags, "cpu")
    assert np.array_equal(classified.confusion(), outcome.confusion)
    assert classified.outcome().summary() == outcome.summary()
    wrong = [name not in ("", classifier.classes[guess]) for name, guess in zip(truth, classified.guess, strict=True)]
    assert classified.wrong_instances().tolist() == wrong
    true_counts = {bag["name"]: bag.get("true_count") for bag in sections.bars(classified).shown}
    assert true_counts == {"0": 2, "1": None, "2": None}
    assert [of.n for of in sections.overestimation_boxes(classified)] == [1, 1]
    page = page_of(copied_run, bags, "tiny")
    assert "not trained on the class ghost" in page
    mosaics = page[page.index('id="mosaics"') : page.index('id="gallery"')]
    assert [mosaics.count(f"true class {name}</title>") for name in ("cat", "dog", "ghost")] == [2, 2, 2]
    assert page.count("<option") == 3  # all, cat, dog
    row = r"ghost</span></td><td class=\"n\">–</td><td class=\"n\">0.0 %</td>"  # precision, recall
    assert re.search(row, page)


def test_hostile_names_are_escaped(copied_run):
    page = page_of(copied_run, slides())
    assert page.count("<script>") == 1
    assert "<b>'" not in page
    assert "<i>one" not in page
    assert "&lt;i&gt;one&lt;/i&gt;" in page
    assert "🦊 fox" in page


def test_a_page_of_many_classes_and_bags_says_what_it_leaves_out(copied_run):
    rng, n = np.random.default_rng(0), 3_000
    store = rng.integers(0, 256, (500, 40, 30, 3), dtype=np.uint8)
    offsets, names = np.arange(n + 1) * 4, [f"class {i}" for i in range(100)]
    bags = Bags(store, rng.integers(0, 500, 4 * n), offsets, rng.integers(0, 100, n), names)
    assert sections.without_common_prefix(bags.classes)[-1] == "99"
    bags = bags.subset(np.arange(600))
    page = page_of(copied_run, bags)
    assert "400 of 600 bags are left out" in page
    assert "576 of 600 bags are left out" in page
    assert "Colours repeat after 24 classes" in page
    assert len(page) < 4_000_000


def test_background_is_named_and_does_not_vote(copied_run):
    plain = Bags.from_lists([np.eye(4, dtype="float32")] * 3, ["a", "b", "a"])
    page = page_of(copied_run, plain.with_background("empty & void"))
    assert "empty &amp; void is the background" in page


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("result.json", "finished"),
        ("best.safetensors", r"best\.safetensors"),
        ("config.json", r"run folder.*config\.json"),
    ],
)
def test_an_incomplete_run_is_refused_and_nothing_is_written(copied_run, missing, message):
    (copied_run / missing).unlink()
    (copied_run / "report.html").unlink(missing_ok=True)
    with pytest.raises(InputError, match=message):
        report_run(copied_run, "cpu")
    assert not [entry for entry in copied_run.iterdir() if "report" in entry.name]


def test_the_command_prints_the_path(run, majority):
    assert majority("report", run, "--device", "cpu") == (0, f"{run / 'report.html'}\n", "")


# ---------------------------------------------------------------------- in a browser


def visible_bags(page, section):
    """(label, predicted, correct) of the visible bags."""
    visible = page.locator(f"#{section} .bag:visible")
    return visible.evaluate_all("bags => bags.map(b => [b.dataset.label, b.dataset.predicted, b.dataset.correct])")


def test_filters_change_the_visible_bags(opened, report):
    page = opened(report)
    assert page.title() == "digits · adjusted-mean · majority report"
    everything = {section: visible_bags(page, section) for section in ("bags", "mosaics")}
    assert len(everything["bags"]) == 20
    assert {correct for _, _, correct in everything["bags"]} == {"yes", "no"}
    page.locator("#filter span", has_text="wrong").click()
    for section, bags in everything.items():
        assert visible_bags(page, section) == [bag for bag in bags if bag[2] == "no"]
    chosen = everything["bags"][0][0]
    page.select_option("#filter select", chosen)
    for section, bags in everything.items():
        assert visible_bags(page, section) == [bag for bag in bags if bag[2] == "no" and chosen in bag[:2]]
    assert f"of {len(everything['bags'])} bags shown" in page.locator("#filter output").inner_text()
    assert page.locator("#gallery article:visible").count() <= 1
    page.locator("#filter span", has_text="all").click()
    page.select_option("#filter select", "")
    assert visible_bags(page, "bags") == everything["bags"]


def test_images_can_be_decoded(opened, report):
    page = opened(report)
    decoded = "async uri => { const i = new Image(); i.src = uri; await i.decode(); return i.naturalWidth }"
    uris = page.locator("#mosaics image, #gallery image").evaluate_all("all => all.map(i => i.getAttribute('href'))")
    assert len(uris) > 20
    assert all(page.evaluate(decoded, uri) > 8 for uri in uris[:3] + uris[-3:])


def test_no_page_is_wider_than_its_screen(opened, report, copied_run):
    page_of(copied_run, slides(("long" * 40, *HOSTILE[1:])))
    for path in (report, copied_run / "report.html"):
        page = opened(path)
        for width in (320, 375, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_print_shows_all_details_and_no_filter(opened, report):
    page = opened(report)
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    page.emulate_media(media="print")
    assert not page.locator("#filter").is_visible()
    assert page.locator("#bags .bag:visible").count() == 20


LONG = ("Donaudampfschifffahrt", "Adenocarcinoma of the lung", "W" * 20, "腺癌" * 10, "MIXED Carcinoma")
CUT = """all => all.flatMap(word => {
  const [own, whole] = [word, word.closest("svg")].map(one => one.getBoundingClientRect());
  return own.left < whole.left || own.right > whole.right || own.top < whole.top ? [word.textContent] : [];
})"""


def test_no_name_is_cut_at_the_edge_of_its_drawing(opened, tmp_path):
    boxes = box_plot([Box.from_values(name, np.arange(9)) for name in LONG], SURPLUS)
    matrix = confusion_matrix(np.eye(len(LONG), dtype=int), LONG, "true", "predicted")
    matrix += confusion_matrix(np.eye(2, dtype=int), ["0", "1"], "true class", "predicted class")
    gaps = interval_plot([Gap("s", name, 0.1, 0.02, -0.051, 0.15, 10) for name in LONG], "differences")
    look = "body { font-family: system-ui, sans-serif; } svg { display: block; width: 600px; }"
    (tmp_path / "page.html").write_text(f"<meta charset=utf-8><style>{look}</style>{boxes}{matrix}{gaps}")
    words = opened(tmp_path / "page.html").locator("svg text")
    assert words.count() > 4 * len(LONG)
    assert words.evaluate_all(CUT) == []


def test_names_run_no_script_in_a_browser(opened, copied_run):
    page_of(copied_run, slides())
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
