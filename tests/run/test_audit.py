"""`majority audit` and `majority.audit`: drawing, labelling on the page, reading answers."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest

import majority
from majority.errors import InputError
from majority.run.audit import report_audit, write_audit

SETTINGS = {"recipe": "quick", "method": "soft-count", "settings": {"training.epochs": 20}, "device": "cpu"}


def write_table(path, seed=0):
    """60 bags of 20 instances of three classes, with their true classes in column label, which nothing reads."""
    rng, rows = np.random.default_rng(seed), ["bag,bag_label,label,x,y,u,v,w"]
    for bag in range(60):
        name, label = f"bag{bag}", "abc"[bag % 3]
        for i in range(20):
            true = bag % 3 if rng.random() < 0.6 else int(rng.integers(3))
            values = ",".join(f"{value:.4f}" for value in 2 * np.eye(3)[true] + rng.normal(size=3))
            rows.append(f"{name},{label},{'abc'[true]},{i % 5},{i // 5},{values}")
    path.write_text("\n".join(rows) + "\n")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def answer(table, path, name="answers.csv", **changes):
    """Write the true class of each instance that is to be labelled, or what is given by number."""
    labels, rows = [row["label"] for row in read(table)], read(path / "to-label.csv")
    for number, row in enumerate(rows):
        row["answer"] = changes.get(f"n{number}", labels[int(row["instance"])])
    write(path / name, rows)
    return rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit")
    write_table(place / "bags.csv")
    for seed, name in ((0, "run"), (1, "other")):
        majority.train(place / "bags.csv", **SETTINGS, seed=seed, out=place / name, verbose=False)
    return place


@pytest.fixture
def place(trained, tmp_path):
    """A copy of the run, and an audit of it."""
    shutil.copytree(trained / "run", tmp_path / "run")
    write_audit(tmp_path / "run", tmp_path / "audit", device="cpu")
    return tmp_path


def report(place, *names, **options):
    lines = []
    answers = [place / "audit" / name for name in names or ("answers.csv",)]
    return report_audit(place / "run", answers, device="cpu", log=lines.append, **options), lines


def test_the_command_draws_and_reads(trained, succeeds, tmp_path):
    out, run = tmp_path / "audit", tmp_path / "run"
    shutil.copytree(trained / "run", run)
    succeeds("audit", run, "--labels", 30, "--out", out, "--device", "cpu")
    assert {path.name for path in out.iterdir()} == {"label.html", "to-label.csv", "audit.json"}
    assert list(read(out / "to-label.csv")[0]) == ["id", "bag", "instance", "answer", "u", "v", "w"]
    assert 'prediction":' not in (out / "label.html").read_text()
    answer(trained / "bags.csv", out, n3="cannot tell", n4="", n5="another class")
    printed = succeeds("audit", run, "--answers", out / "answers.csv", "--device", "cpu")
    for line in ("from 28 answers", "cannot tell: 1 instance", "without an answer: 1 instance"):
        assert line in printed
    figures = json.loads((out / "audit-figures.json").read_text())
    truth = json.loads((run / "result.json").read_text())["test"]["instance_accuracy"]
    assert figures["accuracy"]["low"] <= truth <= figures["accuracy"]["high"]
    assert [of["name"] for of in figures["classes"]] == ["a", "b", "c"]
    assert 'id="audit"' in (run / "report.html").read_text()


def test_edited_figures_are_one_message_of_the_report(place, refused):
    (place / "run/audit-figures.json").write_text('{"labels": 20}')
    assert "audit-figures.json is damaged" in refused("report", place / "run", "--device", "cpu")


def test_more_labels_continue_with_renamed_columns_from_another_folder(trained, succeeds, tmp_path, monkeypatch):
    pd.read_csv(trained / "bags.csv").rename(columns={"bag": "slide"}).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    out, columns = tmp_path / "audit", ("--bag-column", "slide")
    succeeds("audit", trained / "run", "new.csv", *columns, "--out", out, "--device", "cpu")
    before = answer(tmp_path / "new.csv", out)
    monkeypatch.chdir(trained)
    succeeds("audit", trained / "run", "--more", 20, "--out", out, "--device", "cpu")
    after = read(out / "to-label.csv")
    assert [row["id"] for row in after[:50]] == [row["id"] for row in before]
    assert [row["answer"] for row in after] == [row["answer"] for row in before] + [""] * 20
    printed = succeeds("audit", trained / "run", "--answers", out / "answers.csv", "--device", "cpu")
    assert "from 50 answers" in printed  # those of the first part still count


def test_a_calibrated_run_predicts_with_the_temperature(trained, place):
    rows = answer(trained / "bags.csv", place / "audit")
    instances = np.array([[float(row[name]) for name in "uvw"] for row in rows], np.float32)
    plain = majority.Classifier.load(place / "run", "cpu").predict_proba(instances)
    wrong = {f"n{i}": "abc"[("abc".index(row["answer"]) + 1) % 3] for i, row in enumerate(rows) if i % 2}
    answer(trained / "bags.csv", place / "audit", **wrong)
    found, _ = report(place, calibrate=True)
    assert found.temperature > 1.2
    expected = plain ** (1 / found.temperature)
    best = majority.Classifier.load(place / "run" / "best.safetensors", "cpu")
    assert best.predict_proba(instances) == pytest.approx(expected / expected.sum(axis=1, keepdims=True), abs=1e-4)
    report(place)  # the same answers still belong to this run


def test_several_annotators_count_where_they_agree(trained, place):
    rows = answer(trained / "bags.csv", place / "audit", "anna.csv", n7="cannot tell")
    other = next(name for name in "abc" if name != rows[0]["answer"])
    answer(trained / "bags.csv", place / "audit", "ben.csv", n0=other, n1="")
    found, lines = report(place, "anna.csv", "ben.csv")
    agreement = found.agreement
    assert (agreement.agreed, agreement.instances, found.accuracy.labels) == (47, 48, 49)
    assert 0.9 < agreement.kappa < 1
    assert agreement.disagreements == {rows[0]["id"]: {"anna": rows[0]["answer"], "ben": other}}
    assert "47 of 48" in lines[0]
    assert rows[0]["id"] in lines[0]
    assert "Annotators agree on 47 of 48" in (place / "run" / "report.html").read_text()


def test_all_folds_are_audited_on_their_test_bags(trained, refused, succeeds, tmp_path):
    from majority import Classifier

    run, out = tmp_path / "folds", tmp_path / "audit"
    words = ("--folds", 3, "--recipe", "quick", "--method=log-mean", "--epochs", 2, "--device", "cpu")
    succeeds("train", trained / "bags.csv", *words, "--out", run)
    assert "fold0" in refused("audit", run, trained / "bags.csv", "--out", out)
    succeeds("audit", run, "--labels", 200, "--out", out, "--device", "cpu")
    rows = answer(trained / "bags.csv", out)
    assert len({row["bag"] for row in rows}) > 40  # of 60; the test bags of a single fold are 20
    succeeds("audit", run, "--answers", out / "answers.csv", "--calibrate", "--device", "cpu")
    figures = json.loads((out / "audit-figures.json").read_text())
    folds = [json.loads((run / f"fold{i}" / "result.json").read_text()) for i in range(3)]
    truth = np.mean([fold["test"]["instance_accuracy"] for fold in folds])
    assert figures["accuracy"]["low"] <= truth <= figures["accuracy"]["high"]
    for fold in range(3):
        classifier = Classifier.load(run / f"fold{fold}" / "best.safetensors", "cpu")
        assert classifier.temperature == pytest.approx(figures["temperature"])


@pytest.mark.parametrize(
    ("spoil", "facts"),
    [
        (lambda rows: rows[2].update(answer="zebra"), ["row 4", "zebra", "a, b, c"]),
        (lambda rows: [row.update(answer="") for row in rows], ["answers", "column answer"]),
        (lambda rows: rows.append(rows[0] | {"answer": "cannot tell"}), ["row 52", "cannot tell", "keep one"]),
        (lambda rows: rows[0].update(id="ffffffff-0001"), ["row 2", "ffffffff-0001", "this audit"]),
        (lambda rows: rows[0].update(instance="0"), ["row 2", "instance", "only the column answer"]),
    ],
)
def test_bad_answers_are_one_message_and_write_nothing(trained, place, spoil, facts):
    rows = answer(trained / "bags.csv", place / "audit")
    spoil(rows)
    write(place / "audit" / "answers.csv", rows)
    with pytest.raises(InputError) as error:
        report(place)
    assert all(fact in str(error.value) for fact in facts)
    assert not [*place.rglob("audit-figures.json")]


def test_another_run_and_an_edited_design_are_refused(trained, place):
    answer(trained / "bags.csv", place / "audit")
    with pytest.raises(InputError, match=r"answers\.csv .*another run"):
        report_audit(trained / "other", [place / "audit" / "answers.csv"], device="cpu")
    design = place / "audit" / "audit.json"
    design.write_text(design.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(InputError, match=r"audit\.json was edited"):
        report(place)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("new", ["--calibrate"]),
        ("new", ["--labels", 10]),
        ("audit", ["--labels", 30]),  # it is there already
        ("audit", ["--answers", "answers.csv", "--labels", 30]),
    ],
)
def test_options_that_cannot_be_followed_are_refused(majority, place, out, words):
    code, _, errors = majority("audit", place / "run", *words, "--out", place / out, "--device", "cpu")
    assert (code, errors.count("majority: ")) == (2, 1), errors
    assert not (place / "new").exists()


def test_instances_that_a_run_has_learned_are_not_drawn(trained, tmp_path):
    audit, source = majority.audit(trained / "run", labels=50, device="cpu"), trained / "bags.csv"
    answers = audit.to_label
    answers["answer"] = [read(source)[int(i)]["label"] for i in answers["instance"]]
    answers.to_csv(tmp_path / "answers.csv", index=False)
    options = SETTINGS | {"settings": {"training.epochs": 1}, "verbose": False}
    run = majority.train(source, **options, instance_labels=tmp_path / "answers.csv", refit=True, out=tmp_path / "run")
    drawn = majority.audit(run, source, labels=1150, device="cpu").to_label
    assert not {*zip(drawn["bag"], drawn["instance"], strict=True)} & {
        *zip(answers["bag"], answers["instance"], strict=True)
    }
    with pytest.raises(InputError, match="20 to 1,150"):
        majority.audit(run, source, labels=1151, device="cpu")
    pd.read_csv(source).head(16).to_csv(tmp_path / "few.csv", index=False)
    with pytest.raises(InputError, match=r"needs 20 instances and there are 16.*SOURCE"):
        majority.audit(run, tmp_path / "few.csv", device="cpu")


def test_bags_in_memory():
    rng = np.random.default_rng(0)
    bags = majority.Bags.from_lists([rng.normal(size=(20, 4)) for _ in range(12)], ["cat", "dog"] * 6)
    classifier = majority.Classifier(majority.build_model(bags, "log-mean"), "cpu")
    found = majority.audit(classifier, bags, labels=60)
    truth, frame = classifier.predict(bags.instances()), found.to_label
    frame["answer"] = [truth[int(i)] for i in frame["instance"]]
    figures = found.read(frame)
    assert figures.accuracy.value == 1 > figures.accuracy.low
    assert majority.audit(classifier, bags, labels=80).to_label["id"][:60].tolist() == frame["id"].tolist()


def test_the_page_by_keyboard_closed_opened_and_saved(trained, place, browser):
    context, page_path = browser.new_context(accept_downloads=True), place / "audit" / "label.html"
    page = context.new_page()
    messages, requests = [], []
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("console", lambda message: messages.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    labels, rows = [row["label"] for row in read(trained / "bags.csv")], read(place / "audit" / "to-label.csv")
    expected = [labels[int(row["instance"])] for row in rows]
    page.goto(page_path.as_uri())
    page.keyboard.press("ArrowRight")  # skip, and back
    page.keyboard.press("ArrowLeft")
    for name in expected[:20]:
        page.keyboard.press(name)
    assert "30 left" in page.inner_text("#left")
    page.close()
    page = context.new_page()
    page.goto(page_path.as_uri())
    assert "21 of 50" in page.inner_text("#title")
    assert page.locator("#values tbody tr").count() == 3
    assert page.locator("#map circle").count() == 20
    for name in expected[20:-1]:
        page.keyboard.press(name)
    page.keyboard.press("0")
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(place / "audit" / "answers.csv")
    context.close()
    assert messages == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
    found, _ = report(place)
    assert [row["answer"] for row in read(place / "audit" / "answers.csv")] == [*expected[:-1], "cannot tell"]
    assert (found.accuracy.labels, found.cannot_tell) == (49, 1)


def test_the_page_shows_image_files_their_surroundings_and_predictions(tmp_path, browser):
    """Tiles of 40 pixels in a grid, of which the classifier sees 8."""
    from PIL import Image

    rng, rows = np.random.default_rng(0), ["bag,bag_label,path,x,y"]
    for bag in range(15):
        for i in range(9):
            name = f"{bag}-{i}.png"
            Image.fromarray(rng.integers(0, 255, (40, 40, 3), np.uint8)).save(tmp_path / name)
            rows.append(f"{bag},{('cat', '<b>dog')[bag % 2]},{name},{40 * (i % 3)},{40 * (i // 3)}")
    (tmp_path / "tiles.csv").write_text("\n".join(rows) + "\n")
    options = SETTINGS | {"settings": {"training.epochs": 1}, "image_size": 8}
    run = majority.train(tmp_path / "tiles.csv", **options, out=tmp_path / "run", verbose=False)
    write_audit(run.folder, tmp_path / "audit", labels=20, show_predictions=True, device="cpu")
    page = browser.new_page(viewport={"width": 360, "height": 640})
    page.goto((tmp_path / "audit" / "label.html").as_uri())
    natural = page.eval_on_selector_all("#pictures img", "all => all.map((one) => one.naturalWidth)")
    assert natural == [40, 40, 40, 24]
    heights = page.eval_on_selector_all("#pictures img", "all => all.map((one) => one.getAttribute('height'))")
    assert heights[:3] == ["320", "120", "40"]
    assert "predicted: " in page.inner_text("#where")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("1")
    assert "2 of 20" in page.inner_text("#title")
    assert page.locator("#classes button").nth(0).inner_text().endswith("<b>dog")
    page.close()
