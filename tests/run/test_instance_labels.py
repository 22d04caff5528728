"""--instance-labels: a few labelled instances beside the bags, only where the user asks."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import majority
from majority import InputError, train
from majority.run.config import RunConfig
from majority.run.data import read_data, trained_instances

QUICK = ("--recipe", "quick", "--method=log-mean", "--epochs", "2", "--device", "cpu")


def write_table(path, labels):
    """Thirty bags of two classes; `labels` says which rows (bag, row) have their class in the column label."""
    rng, rows = np.random.default_rng(0), []
    for bag in range(30):
        winner, other = ("ab", "ba")[bag % 2]
        for row, name in enumerate([winner] * 3 + [other] * 2):
            features = (2 * "ab".index(name) + rng.normal(size=2)).round(3)
            rows.append((f"b{bag}", winner, name if labels(bag, row) else "", *features))
    pd.DataFrame(rows, columns=["bag", "bag_label", "label", "f0", "f1"]).to_csv(path, index=False)


def weights_of(run):
    return {name: value.clone() for name, value in run.classifier.model.state_dict().items()}


def differ(one, other):
    return any((value != other[name]).any() for name, value in one.items())


def train_quick(source, **options):
    short = {"recipe": "quick", "method": "log-mean", "settings": {"training.epochs": 2}}
    return train(source, device="cpu", verbose=False, **short | options)


def test_a_column_with_empty_cells_is_learned_only_if_the_user_asks(tmp_path):
    write_table(tmp_path / "some.csv", lambda bag, row: row == 0 and bag < 20)
    write_table(tmp_path / "none.csv", lambda bag, row: False)
    plain, ignored = train_quick(tmp_path / "none.csv"), train_quick(tmp_path / "some.csv")
    assert not differ(weights_of(plain), weights_of(ignored)), "without the flag nothing reads them"
    assert "used_instance_labels" not in ignored.result
    used = train_quick(tmp_path / "some.csv", instance_labels="all")
    assert differ(weights_of(used), weights_of(plain))
    assert 0 < used.result["used_instance_labels"] < 20, "those of training bags"
    with pytest.raises(InputError, match="no instance of the training bags has a label"):
        train_quick(tmp_path / "none.csv", instance_labels="all")


def test_the_page_and_the_card_say_so_and_figures_leave_them_out(tmp_path, succeeds):
    out = tmp_path / "run"
    words = ("--scenario", "small", "--bags", "20", "--bag-size", "8", "--out", out)
    assert "labels of 20 instances" in succeeds("train", "digits", "--instance-labels", "2", *words, *QUICK)
    result = json.loads((out / "result.json").read_text())
    assert result["used_instance_labels"] == 20
    assert "known_instances" not in result["test"], "no instance of a benchmark is in two parts"
    page = (out / "report.html").read_text()
    assert "20 of training bags were learned" in page
    assert "--instance-labels 2" in page
    card = (out / "model-card.md").read_text()
    assert "those of 20 instances of training bags" in card
    shown = succeeds("evaluate", out, "--all", "--device", "cpu")
    known = 20 * 8 - int(shown.split("instance figures are over the ")[1].split(" of ")[0].replace(",", ""))
    assert known >= 20, "the learned instances of training bags are left out"


def test_an_image_that_is_also_in_a_test_bag_is_left_out_there(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(f"b{bag}", "ab"[bag % 2], f"{bag}-{row}.png", "ab"[bag % 2]) for bag in range(12) for row in range(3)]
    rows += [(f"b{bag}", "ab"[bag % 2], "shared.png", "a") for bag in range(12)]
    for name in {row[2] for row in rows}:
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(tmp_path / name)
    pd.DataFrame(rows, columns=["bag", "bag_label", "path", "label"]).to_csv(tmp_path / "images.csv", index=False)
    data = read_data(RunConfig.from_options(str(tmp_path / "images.csv"), folds=3, instance_labels="all"))
    (shared,) = np.flatnonzero(data.source.paths == "shared.png")
    train, val, test = data.parts
    for bags in (val, test):
        assert (bags.instance_labels[bags.index == shared] == -1).all()
        assert (bags.instance_labels[bags.index != shared] >= 0).all()
    assert (train.training_labels >= 0).all()
    assert train.instance_labels is None


def test_all_bags_and_all_their_labels_at_the_end(tmp_path):
    write_table(tmp_path / "some.csv", lambda bag, row: row == 0)
    run = train_quick(tmp_path / "some.csv", instance_labels="all", refit=True, out=tmp_path / "run")
    assert run.result["used_instance_labels"] == 18
    assert run.result["test"]["known_instances"] == 6, "labels of test bags are for figures of the first classifier"


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--instance-labels", "all"), ["of a benchmark set, say how many per class"]),
        (("--instance-labels", "0"), ["instance_labels is 0", "from 1"]),
        (
            ("--instance-labels", "5", "--method", "supervised"),
            ["method supervised cannot learn a part of them", "leave them out"],
        ),
        (
            ("--instance-labels", "5", "--recipe", "mpem"),
            ["recipe mpem", "cannot learn a part of them", "use another recipe"],
        ),
    ],
)
def test_what_is_refused(words, facts, tmp_path, refused):
    error = refused("train", "digits", *words, "--out", tmp_path / "run")
    assert all(fact in error for fact in facts), error
    assert not (tmp_path / "run").exists()


def write_answers(path, run, **answer_by_row):
    """Answers to an audit with the truth: the first three instances of a bag are of the class that wins."""
    answers = majority.audit(run, labels=30).to_label
    truth = zip(answers.bag, answers.instance, strict=True)
    answers["answer"] = ["ab"[(int(bag[1:]) + (int(row) % 5 > 2)) % 2] for bag, row in truth]
    for row, answer in answer_by_row.items():
        answers.loc[int(row[1:]), "answer"] = answer
    answers.to_csv(path, index=False)
    return set(zip(answers.bag, answers.instance, strict=True))


def test_answers_of_an_audit_are_learned_and_recorded(tmp_path):
    write_table(tmp_path / "bags.csv", lambda bag, row: True)
    source, options = tmp_path / "bags.csv", {"folds": 3, "fold": 1}
    audited = train_quick(source, folds=3, fold=0)
    answered = write_answers(tmp_path / "answers.csv", audited)
    assert not trained_instances(audited.folder)
    run = train_quick(source, **options, instance_labels=tmp_path / "answers.csv", out=tmp_path / "run")
    learned = trained_instances(run.folder)
    assert learned, "the answers about training bags of this fold"
    assert learned <= answered
    assert run.result["used_instance_labels"] == len(learned)
    assert differ(weights_of(run), weights_of(train_quick(source, **options)))
    write_answers(tmp_path / "answers.csv", audited, i0="")
    with pytest.raises(InputError, match="holds another run"):
        train_quick(source, **options, instance_labels=tmp_path / "answers.csv", out=tmp_path / "run")


@pytest.mark.parametrize(
    ("column", "value", "facts"),
    [
        ("answer", "c", ["no class 'c'", "a, b"]),
        ("bag", "b99", ["the source has no bag b99"]),
        ("instance", "999", ["no such instance 999"]),
        ("answer", "", ["names no class"]),
    ],
)
def test_answers_that_do_not_fit_the_bags(column, value, facts, tmp_path):
    write_table(tmp_path / "bags.csv", lambda bag, row: False)
    pd.DataFrame({"bag": ["b0"], "instance": ["0"], "answer": ["a"]} | {column: [value]}).to_csv(tmp_path / "a.csv")
    with pytest.raises(InputError) as raised:
        train_quick(tmp_path / "bags.csv", instance_labels=tmp_path / "a.csv", out=tmp_path / "run")
    assert all(fact in str(raised.value) for fact in facts), raised.value
    assert not (tmp_path / "run").exists()
