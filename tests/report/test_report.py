"""The report page: its figures against the outcome, hostile names, and the page used in a real browser."""

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from majority import Bags, Classifier, InputError, build_model, evaluate
from majority.experiments.data import Data
from majority.experiments.experiment import Experiment
from majority.experiments.reopen import reopen
from majority.experiments.run_report import report_run, write_report
from majority.inference.classified_bags import classify_bags
from majority.plots.colours import PALETTE
from majority.plots.figures import box, box_plot, confusion_matrix, curves, instance_map, nice_ticks
from majority.plots.pictures import png
from majority.recipes import RECIPES, TaskInfo
from majority.report import sections
from majority.report.page import _kept, command
from majority.study.comparison import Gap
from majority.study.figures import interval_plot
from majority.study.page import AXIS

HOSTILE = ("<b>'\"&", "🦊 fox", "</script><script>alert(1)</script>")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    Experiment(Data("digits", bags=80, bag_size=8), recipe="quick", settings={"training.epochs": 6}).run(folder, "cpu")
    return folder


@pytest.fixture(scope="module")
def report(run):
    return report_run(run, "cpu")


@pytest.fixture
def elsewhere(run, tmp_path):
    """A copy of the run's folder, to write the report of other bags into."""
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


# ---------------------------------------------------------------------- figures


@pytest.mark.parametrize("epochs", [1, 2, 7, 1500])
def test_curves_are_xml_with_a_point_an_epoch(epochs):
    line = np.linspace(3, 0.1, epochs).tolist()
    drawn = ElementTree.fromstring(curves("Loss", {"training": line, "validation": line}, epochs - 1))
    lines = drawn.findall("{*}polyline")
    assert [len(one.get("points").split()) for one in lines] == [epochs, epochs]
    assert f"kept: {epochs - 1}" in "".join(drawn.itertext())


def test_the_page_says_why_its_epoch_was_kept():
    chosen = {"reader-1": {"val_loss": 0.5}}
    assert _kept({}) == _kept({"stages": chosen}) == "The epoch with the lowest validation loss was kept."
    assert _kept({"stages": chosen | {"last": {"train_loss": 0.5}}}).startswith("The last epoch was kept. The training")


def test_box_quantiles_are_the_metrics():
    values = np.array([-3, -1, 0, 4, 10, 11])
    assert box("x", values).quantiles == tuple(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))
    drawn = ElementTree.fromstring(box_plot([box("<all>", values), box("one", np.array([2]))], "too many"))
    assert "<all>: lowest -3, quartiles -0.75, 2, 8.5, highest 11" in "".join(drawn.itertext())


@pytest.mark.parametrize("n", [2, 24, 100])
def test_confusion_matrix_draws_each_cell_that_is_not_empty(n):
    matrix = np.diag(np.arange(1, n + 1))
    matrix[0, 1] = 7
    drawn = ElementTree.fromstring(confusion_matrix(matrix, [f"<{i}>" for i in range(n)], "true", "predicted"))
    assert len(drawn.findall("{*}rect/{*}title")) == n + 1


def test_ticks_enclose_the_values():
    for low, high in [(0, 0.003), (-7, 2), (0, 1500), (5, 5)]:
        ticks = nice_ticks(low, high)
        assert ticks[0] <= low
        assert ticks[-1] >= high
        assert 2 <= len(ticks) <= 8


def test_map_has_a_dot_an_instance_even_where_all_lie_in_one_place():
    for places in (np.zeros((5, 2)), np.random.default_rng(0).random((5, 2)), np.array([[1.0, 2.0]])):
        drawn = ElementTree.fromstring(instance_map(places, np.arange(len(places)) % 2, ["a", "b"]))
        assert sum(path.get("d").count("M") for path in drawn.findall("{*}path")) == len(places)


def test_png_keeps_grey_pixels_and_the_size_of_colour():
    from base64 import b64decode
    from io import BytesIO

    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    opened = lambda uri: Image.open(BytesIO(b64decode(uri.partition(",")[2])))
    assert np.array_equal(np.asarray(opened(png(pixels[:, :, :1]))), pixels[:, :, 0])
    assert opened(png(pixels)).size == (7, 9)


def test_colours_differ_to_normal_and_colour_blind_eyes():
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in PALETTE])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    deuteranopia = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    protanopia = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    for sight in (np.eye(3), np.array(deuteranopia), np.array(protanopia)):
        seen = np.clip(linear @ sight.T, 0, 1) ** (1 / 2.2)
        apart = np.linalg.norm(seen[:, None] - seen[None], axis=2) + np.eye(len(PALETTE)) * 9
        assert apart.min() > 0.06
        assert apart[:8, :8].min() > 0.12
    assert len(set(PALETTE)) >= 20


# ---------------------------------------------------------------------- content


def test_bars_and_classes_are_the_outcome(run):
    classifier, parts, _ = reopen(run, device="cpu")
    reading, outcome = classify_bags(classifier, parts.test), evaluate(classifier.model, parts.test, "cpu")
    assert np.array_equal(reading.counts, outcome.hard_counts)
    assert np.array_equal(reading.predicted, outcome.predicted)
    assert np.array_equal(reading.confusion(), outcome.confusion)
    assert reading.outcome().summary() == outcome.summary()
    shown = sections.bars(reading).shown
    assert [bag["right"] for bag in shown] == sorted(bag["right"] for bag in shown)  # wrong ones first
    for bag in shown:
        number = int(bag["name"])
        assert bag["framed_count"] == outcome.hard_counts[number, bag["label"]]
        assert bag["true_count"] == outcome.true_counts[number, bag["label"]]
        assert sum(piece["count"] for piece in bag["segments"]) + bag["rest"] == bag["size"]
    table = sections.class_table(outcome.confusion, reading.classes)
    f1 = [row["f1"] for row in table if row["f1"] is not None]
    assert np.mean(f1) == pytest.approx(outcome.summary()["macro_f1"])
    assert sections.overestimation_boxes(reading)[0].quantiles == tuple(outcome.summary()["overestimation_quantiles"])


def test_page_says_what_was_trained(report, run):
    page = report.read_text()
    result = json.loads((run / "result.json").read_text())
    assert f"{100 * result['test']['instance_accuracy']:.1f} %" in page
    assert "majority train digits --method adjusted-mean" in page
    assert report.stat().st_size < 1_000_000
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)  # nothing is fetched


def test_command_reads_as_the_options_do():
    config = {"method": "vote", "method_options": {"of": "counts"}, "plan": {"recipe": "quick", "backbone": "auto"}}
    config["data"] = {"source": "a.csv", "features": ["x", "y"], "with_replacement": True, "fold": 0, "ties": None}
    said = "--recipe quick --backbone auto"  # which another recipe would not take by itself
    expected = f"majority train a.csv --method vote {said} --features x,y --with-replacement --fold 0"
    assert command(config) == f"{expected} --option of=counts"
    config["data"]["features"] = ["x, cm", "y"]
    assert """ --features '"x, cm",y' """ in command(config)


def test_command_says_each_setting_once():
    plan = {"recipe": "quick", "backbone": "cnn", "training": {"epochs": 2}}
    settings = {"training.epochs": 2, "backbone": "cnn", "training.weight_decay": 0.1}
    config = {"method": "count", "method_options": {}, "data": {"source": "digits"}, "plan": plan, "settings": settings}
    expected = "majority train digits --method count --recipe quick --backbone cnn --epochs 2"
    assert command(config) == f"{expected} --set training.weight_decay=0.1"
    config["settings"] = {"training.compile": False}
    config["plan"]["training"] = {"epochs": 2, "compile": False}
    assert command(config) == f"{expected} --set training.compile=false", "which no option says"


def test_command_repeats_a_run_whose_recipe_has_changed_since():
    task = TaskInfo("cifar10")
    now = json.loads(json.dumps(RECIPES["census"].plan(task).changed(seed=3).as_dict()))
    config = {"method": "count", "method_options": {}, "data": {"source": "cifar10"}, "task": task._asdict()}
    expected = f"majority train cifar10 --method count --recipe census --backbone {now['backbone']}"
    training = now["training"]
    expected += f" --epochs {training['epochs']} --batch-bags {training['batch_bags']}"
    expected += f" --learning-rate {training['learning_rate']} --seed 3"
    assert command(config | {"plan": now}) == expected
    before = json.loads(json.dumps(now))
    before["census"]["start"]["epochs"] = 200
    del before["census"]["mixed_views"]  # there was no such setting
    more = "--set census.mixed_views=0.0 --set census.start.epochs=200"
    said = command(config | {"plan": before, "settings": {"census.start.epochs": 200}})
    assert said == f"{expected} {more}"


def test_features_without_instance_labels_have_maps_and_no_gallery(elsewhere):
    page = page_of(elsewhere, slides())
    assert 'id="maps"' in page
    assert "2,000 of 3,000 instances" in page
    assert "no instance labels" in page
    assert "There are no test bags" in page
    for absent in ('id="gallery"', 'id="mosaics"', "Overestimation of"):
        assert absent not in page


def test_one_bag_is_called_so(elsewhere):
    bags = slides()
    classifier = Classifier(build_model(bags, "count", "mlp"), "cpu")
    page = write_report(elsewhere, classifier, {"train": bags, "val": bags, "test": bags.subset([0])}).read_text()
    assert page.count("1 bag shown") == 2, "as bars and as maps"


def test_classes_known_of_some_instances_are_compared_and_the_rest_left_out(elsewhere):
    store = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    truth = ["cat", "dog", "ghost", "cat", *[""] * 4, "dog", "", "", "ghost"]
    bags = Bags.from_indices(store, np.arange(12).reshape(3, 4), ["cat", "dog", "cat"], instance_labels=truth)
    classifier = Classifier(build_model(bags, "count", "tiny"), "cpu")
    reading, outcome = classify_bags(classifier, bags), evaluate(classifier.model, bags, "cpu")
    assert np.array_equal(reading.confusion(), outcome.confusion)
    assert reading.outcome().summary() == outcome.summary()
    wrong = [name not in ("", classifier.classes[guess]) for name, guess in zip(truth, reading.guess, strict=True)]
    assert reading.wrong_instances().tolist() == wrong
    true_counts = {bag["name"]: bag.get("true_count") for bag in sections.bars(reading).shown}
    assert true_counts == {"0": 2, "1": None, "2": None}
    assert [of.n for of in sections.overestimation_boxes(reading)] == [1, 1]
    page = page_of(elsewhere, bags, "tiny")
    assert "The run has no class ghost: the classifier cannot answer it" in page
    mosaics = page[page.index('id="mosaics"') : page.index('id="gallery"')]
    assert [mosaics.count(f"truly {name}</title>") for name in ("cat", "dog", "ghost")] == [2, 2, 2]
    assert page.count("<option") == 3  # all, cat, dog
    row = r"ghost</span></td><td class=\"n\">–</td><td class=\"n\">0.0 %</td>"  # precision, recall
    assert re.search(row, page)


def test_hostile_names_are_escaped(elsewhere):
    page = page_of(elsewhere, slides())
    assert page.count("<script>") == 1
    assert "<b>'" not in page
    assert "<i>one" not in page
    assert "&lt;i&gt;one&lt;/i&gt;" in page
    assert "🦊 fox" in page


def test_many_classes_and_bags_are_capped_and_said(elsewhere):
    rng, n = np.random.default_rng(0), 3_000
    store = rng.integers(0, 256, (500, 40, 30, 3), dtype=np.uint8)
    offsets, names = np.arange(n + 1) * 4, [f"class {i}" for i in range(100)]
    bags = Bags(store, rng.integers(0, 500, 4 * n), offsets, rng.integers(0, 100, n), names)
    assert sections.brief(bags.classes)[-1] == "99"
    bags = bags.subset(np.arange(600))
    page = page_of(elsewhere, bags)
    assert "400 of 600 bags are left out" in page
    assert "576 of 600 bags are left out" in page
    assert "Colours repeat after 24 classes" in page
    assert len(page) < 4_000_000


def test_background_is_named_and_does_not_vote(elsewhere):
    plain = Bags.from_lists([np.eye(4, dtype="float32")] * 3, ["a", "b", "a"])
    page = page_of(elsewhere, plain.with_background("empty & void"))
    assert "empty &amp; void is the background" in page


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("result.json", "not finished"),
        ("best.safetensors", r"best\.safetensors is gone"),
        ("config.json", "no run folder"),
    ],
)
def test_unfinished_run_is_refused_and_nothing_written(elsewhere, missing, message):
    (elsewhere / missing).unlink()
    (elsewhere / "report.html").unlink(missing_ok=True)
    with pytest.raises(InputError, match=message):
        report_run(elsewhere, "cpu")
    assert not [entry for entry in elsewhere.iterdir() if "report" in entry.name]


def test_command_line_prints_the_path(run):
    from typer.testing import CliRunner

    from majority.cli.app import app

    answer = CliRunner().invoke(app, ["report", str(run), "--device", "cpu"])
    assert answer.exit_code == 0, answer.output
    assert answer.output.strip() == str(run / "report.html")


# ---------------------------------------------------------------------- in a browser


def seen(page, section):
    """(label, predicted, right) of the bags that can be seen."""
    visible = page.locator(f"#{section} .bag:visible")
    return visible.evaluate_all("bags => bags.map(b => [b.dataset.label, b.dataset.predicted, b.dataset.right])")


def test_filters_change_what_is_seen(opened, report):
    page = opened(report)
    assert page.title() == "digits · adjusted-mean · majority report"
    everything = {section: seen(page, section) for section in ("bags", "mosaics")}
    assert len(everything["bags"]) == 20
    assert {right for _, _, right in everything["bags"]} == {"yes", "no"}
    page.locator("#filter span", has_text="wrong").click()
    for section, bags in everything.items():
        assert seen(page, section) == [bag for bag in bags if bag[2] == "no"]
    chosen = everything["bags"][0][0]
    page.select_option("#filter select", chosen)
    for section, bags in everything.items():
        assert seen(page, section) == [bag for bag in bags if bag[2] == "no" and chosen in bag[:2]]
    assert f"of {len(everything['bags'])} bags shown" in page.locator("#filter output").inner_text()
    assert page.locator("#gallery article:visible").count() <= 1
    page.locator("#filter span", has_text="all").click()
    page.select_option("#filter select", "")
    assert seen(page, "bags") == everything["bags"]


def test_images_are_really_there(opened, report):
    page = opened(report)
    decoded = "async uri => { const i = new Image(); i.src = uri; await i.decode(); return i.naturalWidth }"
    uris = page.locator("#mosaics image, #gallery image").evaluate_all("all => all.map(i => i.getAttribute('href'))")
    assert len(uris) > 20
    assert all(page.evaluate(decoded, uri) > 8 for uri in uris[:3] + uris[-3:])


def test_no_page_is_wider_than_its_screen(opened, report, elsewhere):
    page_of(elsewhere, slides(("long" * 40, *HOSTILE[1:])))
    for path in (report, elsewhere / "report.html"):
        page = opened(path)
        for width in (320, 375, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_paper_everything_is_open_and_the_filter_is_gone(opened, report):
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
    boxes = box_plot([box(name, np.arange(9)) for name in LONG], AXIS)
    matrix = confusion_matrix(np.eye(len(LONG), dtype=int), LONG, "true", "predicted")
    matrix += confusion_matrix(np.eye(2, dtype=int), ["0", "1"], "true class", "predicted class")
    gaps = interval_plot([Gap("s", name, 0.1, 0.02, -0.051, 0.15, 10) for name in LONG], "differences")
    look = "body { font-family: system-ui, sans-serif; } svg { display: block; width: 600px; }"
    (tmp_path / "page.html").write_text(f"<meta charset=utf-8><style>{look}</style>{boxes}{matrix}{gaps}")
    words = opened(tmp_path / "page.html").locator("svg text")
    assert words.count() > 4 * len(LONG)
    assert words.evaluate_all(CUT) == []


def test_names_run_no_script_in_a_browser(opened, elsewhere):
    page_of(elsewhere, slides())
    page = opened(elsewhere / "report.html")
    assert page.locator("#bags .bag").count() == 3
    assert page.locator("#filter option").nth(3).inner_text() == HOSTILE[2]
