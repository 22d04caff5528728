"""`majority audit` and `majority.audit`: drawing, labelling on the page, reading answers."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest

import majority
from majority.errors import InputError

QUICK = ["--recipe", "quick", "--method", "soft-count", "--epochs", "20", "--device", "cpu"]


def write_table(path, seed=0):
    """60 bags of 20 instances of three classes, with their true classes in column label, which nothing reads."""
    rng, rows = np.random.default_rng(seed), ["bag,bag_label,label,x,y,u,v,w"]
    for bag in range(60):
        for i in range(20):
            true = bag % 3 if rng.random() < 0.6 else int(rng.integers(3))
            values = ",".join(f"{value:.4f}" for value in 2 * np.eye(3)[true] + rng.normal(size=3))
            rows.append(f"bag{bag},{'abc'[bag % 3]},{'abc'[true]},{i % 5},{i // 5},{values}")
    path.write_text("\n".join(rows) + "\n")


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def answer(table, path, **changes):
    """Write the true class of each instance that is to be labelled, or what is given by number."""
    labels, rows = [row["label"] for row in read(table)], read(path / "to-label.csv")
    for number, row in enumerate(rows):
        row["answer"] = changes.get(f"n{number}", labels[int(row["instance"])])
    write(path / "answers.csv", rows)
    return rows


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("audit")
    write_table(place / "bags.csv")
    settings = {"training.epochs": 20}
    for seed, name in ((0, "run"), (1, "other")):
        majority.train(
            place / "bags.csv", recipe="quick", method="soft-count", settings=settings, seed=seed, out=place / name,
            device="cpu", verbose=False,
        )  # fmt: skip
    return place


@pytest.fixture
def place(trained, tmp_path):
    """A copy of the run, and an audit of it."""
    from majority.run.audit import write_audit

    shutil.copytree(trained / "run", tmp_path / "run")
    write_audit(tmp_path / "run", tmp_path / "audit", labels=50, device="cpu")
    return tmp_path


def report(place, answers=None, **options):
    from majority.run.audit import report_audit

    lines = []
    found = report_audit(
        place / "run", answers or place / "audit" / "answers.csv", device="cpu", log=lines.append, **options
    )
    return found, lines


def test_the_command_draws_and_reads(trained, majority, tmp_path):
    out, run = tmp_path / "audit", tmp_path / "run"
    shutil.copytree(trained / "run", run)
    code, _, _ = majority("audit", run, "--labels", 30, "--out", out, "--device", "cpu")
    assert code == 0
    assert {path.name for path in out.iterdir()} == {"label.html", "to-label.csv", "audit.json"}
    answer(trained / "bags.csv", out)
    code, printed, _ = majority("audit", run, "--answers", out / "answers.csv", "--device", "cpu")
    assert code == 0
    assert "instance accuracy" in printed
    assert "30 answers" in printed


def test_the_interval_of_the_true_answers_holds_the_accuracy(trained, place):
    answer(trained / "bags.csv", place / "audit")
    found, _ = report(place)
    truth = json.loads((place / "run" / "result.json").read_text())["test"]["instance_accuracy"]
    assert found.accuracy.low <= truth <= found.accuracy.high
    assert len(found.recall) == len(found.precision) == 3
    page = (place / "run" / "report.html").read_text()
    assert 'id="audit"' in page


def test_no_prediction_is_on_the_page_unless_asked_for(trained, tmp_path):
    from majority.run.audit import write_audit

    write_audit(trained / "run", tmp_path / "hidden", labels=30, device="cpu")
    assert 'prediction":' not in (tmp_path / "hidden" / "label.html").read_text()
    columns = read(tmp_path / "hidden" / "to-label.csv")[0]
    assert list(columns) == ["id", "bag", "instance", "answer", "u", "v", "w"]
    write_audit(trained / "run", tmp_path / "shown", labels=30, show_predictions=True, device="cpu")
    assert 'prediction":' in (tmp_path / "shown" / "label.html").read_text()


def test_cannot_tell_and_empty_are_counted_apart(trained, place):
    answer(trained / "bags.csv", place / "audit", n3="cannot tell", n4="", n5="another class")
    found, lines = report(place)
    assert found.accuracy.labels == 48
    assert (found.answers.cannot_tell, found.answers.missing) == (1, 1)
    assert any("cannot tell: 1 instance" in line for line in lines)
    assert found.shares[-1].value >= 0


def test_more_labels_continue_and_keep_answers(trained, place):
    from majority.run.audit import write_audit

    before = answer(trained / "bags.csv", place / "audit")
    write_audit(place / "run", place / "audit", more=20, device="cpu")
    after = read(place / "audit" / "to-label.csv")
    assert [row["id"] for row in after[:50]] == [row["id"] for row in before]
    assert [row["answer"] for row in after] == [row["answer"] for row in before] + [""] * 20
    assert report(place)[0].accuracy.labels == 50  # answers of the first part still count


def test_a_calibrated_run_predicts_with_the_temperature(trained, place):
    rows = answer(trained / "bags.csv", place / "audit")
    classifier = majority.Classifier.load(place / "run", "cpu")
    instances = np.array([[float(row[name]) for name in "uvw"] for row in rows], np.float32)
    plain = classifier.predict_proba(instances)
    found, _ = report(place, with_temperature=True)
    calibrated = majority.Classifier.load(place / "run" / "best.safetensors", "cpu")
    assert calibrated.temperature == pytest.approx(found.temperature)
    expected = plain ** (1 / found.temperature)
    expected /= expected.sum(axis=1, keepdims=True)
    best = majority.Classifier.load(place / "run" / "best.safetensors", "cpu").predict_proba(instances)
    assert best == pytest.approx(expected, abs=1e-4)
    report(place)  # the same answers still belong to this run


def wrong_answers(name, trained, place):
    audit, rows = place / "audit", answer(trained / "bags.csv", place / "audit")
    if name == "unknown class":
        rows[2]["answer"] = "zebra"
    elif name == "none":
        rows = [row | {"answer": ""} for row in rows]
    elif name == "twice":
        rows.append(rows[0] | {"answer": "cannot tell"})
    elif name == "another audit":
        rows[0]["id"] = "ffffffff-0001"
    elif name == "another instance":
        rows[0]["instance"] = "0"
    elif name == "edited design":
        design = audit / "audit.json"
        design.write_text(design.read_text().replace('"seed": 0', '"seed": 1'))
    write(audit / "answers.csv", rows)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("unknown class", ["zebra", "answers.csv", "a, b, c"]),
        ("none", ["answers.csv", "column answer"]),
        ("twice", ["row 52", "cannot tell", "keep one"]),
        ("another audit", ["row 2", "ffffffff-0001", "this audit"]),
        ("another instance", ["row 2", "instance", "only the column answer"]),
        ("edited design", ["audit.json", "edited"]),
    ],
)
def test_bad_answers_are_one_message_and_write_nothing(trained, place, name, facts):
    wrong_answers(name, trained, place)
    before = sorted(path.name for path in (place / "audit").iterdir())
    with pytest.raises(InputError) as error:
        report(place)
    assert all(fact in str(error.value) for fact in facts)
    assert sorted(path.name for path in (place / "audit").iterdir()) == before
    assert not (place / "run" / "audit-figures.json").exists()


def test_answers_of_another_run_are_refused(trained, majority, place):
    answer(trained / "bags.csv", place / "audit")
    code, _, errors = majority("audit", trained / "other", "--answers", place / "audit" / "answers.csv")
    assert code == 2
    assert "another run" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("--calibrate",), ("--seed", -1), ("--more", 5, "--seed", 3), ("--answers", "answers.csv", "--labels", 30)],
)
def test_options_that_would_have_no_effect_are_refused(majority, place, words):
    where = () if "--answers" in words else ("--out", place / ("audit" if "--more" in words else "new"))
    code, _, errors = majority("audit", place / "run", *words, *where, "--device", "cpu")
    assert (code, errors.count("majority: ")) == (2, 1), errors
    assert not (place / "new").exists()


def test_an_audit_is_not_overwritten(place):
    from majority.run.audit import write_audit

    with pytest.raises(InputError, match="--more"):
        write_audit(place / "run", place / "audit", labels=30, device="cpu")


@pytest.mark.parametrize("labels", [0, 10, 241])
def test_the_number_of_labels_is_checked(trained, tmp_path, labels):
    from majority.run.audit import write_audit

    with pytest.raises(InputError, match="20 to 240"):
        write_audit(trained / "run", tmp_path / "audit", labels=labels, device="cpu")
    assert not (tmp_path / "audit").exists()


def test_bags_in_memory():
    rng = np.random.default_rng(0)
    bags = majority.Bags.from_lists([rng.normal(size=(20, 4)) for _ in range(12)], ["cat", "dog"] * 6)
    classifier = majority.Classifier(majority.build_model(bags, "log-mean"), "cpu")
    found = majority.audit(classifier, bags, labels=60)
    with pytest.raises(InputError, match="no answers yet"):
        found.accuracy  # noqa: B018
    truth = classifier.predict(bags.instances())
    frame = found.to_label
    frame["answer"] = [truth[int(i)] for i in frame["instance"]]
    assert isinstance(frame, pd.DataFrame)
    assert found.read(frame).accuracy.value == 1
    assert found.accuracy.low < 1
    assert majority.audit(classifier, bags, labels=80).to_label["id"][:60].tolist() == frame["id"].tolist()


def test_the_page_by_keyboard_closed_opened_and_saved(trained, place, browser, tmp_path):
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
    assert page.locator("#map circle").count() == 21
    for name in expected[20:-1]:
        page.keyboard.press(name)
    page.keyboard.press("0")
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(place / "audit" / "answers.csv")
    context.close()
    assert messages == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
    saved = read(place / "audit" / "answers.csv")
    assert [row["answer"] for row in saved] == [*expected[:-1], "cannot tell"]
    found, _ = report(place)
    assert (found.accuracy.labels, found.answers.cannot_tell) == (49, 1)


def test_pictures_are_shown_at_several_sizes(tmp_path, browser):
    from majority.run.audit_page import write_audit_page
    from majority.run.audit_population import Population, make_record, make_table

    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (20, 12, 8, 3), np.uint8) for _ in range(6)]
    bags = majority.Bags.from_lists(images, ["cat", "<b>dog"] * 3)
    population = Population.open(majority.Classifier(majority.build_model(bags, "log-mean"), "cpu"), bags, 0)
    record, drawn = make_record(population, 20), population.design.draw(20)
    write_audit_page(tmp_path / "label.html", record, make_table(record, population, drawn), population, drawn)
    page = browser.new_page(viewport={"width": 360, "height": 640})
    page.goto((tmp_path / "label.html").as_uri())
    sizes = {page.locator("#pictures img").nth(i).get_attribute("height") for i in range(3)}
    assert len(sizes) == 3
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("1")
    assert "2 of 20" in page.inner_text("#title")
    assert page.locator("#classes button").nth(0).inner_text().endswith(record.classes[0])
    page.close()
