"""Seeds, varied settings, options, bags of your own, labelled vectors, a reference by name, and --config."""

import json

import numpy as np
import pandas as pd
import pytest

from majority import InputError, load_source
from majority.run.study.results import read_request

SMALL = ("--scenarios", "large", "--recipe", "quick", "--bags", 8, "--bag-size", 4, "--epochs", 1, "--device", "cpu")
RATES = "training.learning_rate=1e-3,3e-4"

pytestmark = pytest.mark.usefixtures("one_process")


def table_of(out):
    rows = pd.read_csv(out / "tables.csv")
    return rows[(rows["figure"] == "bag_accuracy") & rows["reference"].isna()].reset_index(drop=True)


def write_bags(path, n=20, split=False):
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(n) % 2, 3)
    table = pd.DataFrame(rng.normal(label[:, None], 0.3, (3 * n, 2)), columns=["f", "g"])
    table = table.assign(bag=np.repeat(np.arange(n), 3), bag_label=np.where(label, "b", "a"))
    if split:
        table["split"] = np.repeat(
            np.where(np.arange(n) % 5 < 3, "train", np.where(np.arange(n) % 5 < 4, "val", "test")), 3
        )
    table.to_csv(path, index=False)
    return path


def test_seeds_and_varied_settings_are_compared_in_one_table(majority, refused, succeeds, tmp_path):
    out = tmp_path / "study"
    words = ("--methods", "count", "--folds", "0-1", "--seeds", "0-1", "--vary", RATES, "--option", "of=counts")
    succeeds("study", "digits", *words, *SMALL, "--winner-ratio", 2, "--classes", 4, "--out", out)
    table = table_of(out)
    assert set(table["method"]) == {"count (learning_rate 0.001)", "count (learning_rate 0.0003)"}
    assert table["n"].tolist() == [2, 2]
    assert table["runs"].tolist() == [4, 4]
    assert table["changed"].nunique() == 1
    assert all(word in table["changed"][0] for word in ("of counts", "classes 4", "winner ratio 2"))
    cell = out / "digits/large/count/training.learning_rate=0.0003/fold1-seed1"
    config = json.loads((cell / "config.json").read_text())
    assert config["plan"]["training"] | {"learning_rate": 3e-4, "seed": 1} == config["plan"]["training"]
    assert config["run"]["method_options"] == {"of": "counts"}

    pages = majority("report", out, "--reference", "count (learning_rate 0.001)")
    assert pages[0] == 0
    assert "missing" not in pages[1]
    assert "minus that of count (learning_rate 0.001)" in (out / "tables.md").read_text()
    assert "count (learning_rate 0.001)" in refused("report", out, "--reference", "vote")

    (cell / "result.json").unlink()
    printed = succeeds("report", out)
    assert "1 cell of this study missing" in printed
    assert read_request(out).study.as_command(str(out)) in printed
    again = printed.split("to train them: majority ")[1].splitlines()[0].split()
    succeeds(*again, "--device", "cpu", "--out", out)
    assert (cell / "result.json").exists()


def test_bags_of_your_own_and_benchmark_bags_in_one_study(majority, succeeds, tmp_path):
    place, out = write_bags(tmp_path / "own.csv"), tmp_path / "study"
    words = ("--methods", "count,vote", "--folds", "0-1", *SMALL, "--out", out)
    succeeds("study", place, "digits", *words)
    table = table_of(out)
    assert table["source"].tolist() == ["digits", "digits", "own", "own"]
    assert table["n"].tolist() == [2] * 4
    assert (out / "own/bags/vote/fold1/result.json").exists()
    assert "missing" not in majority("report", out)[1]


def test_divided_bags_have_one_fold(majority, succeeds, tmp_path):
    place, out = write_bags(tmp_path / "own.csv", split=True), tmp_path / "study"
    words = ("--methods", "count", "--folds", "0-2", "--recipe", "quick", "--epochs", 1, "--device", "cpu")
    succeeds("study", place, *words, "--out", out)
    assert [path.parent.name for path in out.rglob("result.json")] == ["fold0"]
    assert "missing" not in majority("report", out)[1]


def test_labelled_vectors_are_a_source(succeeds, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 4
    vectors = (3 * np.eye(4)[labels] + rng.normal(size=(200, 4))).astype(np.float32)
    place = tmp_path / "vectors.npz"
    np.savez(place, train_features=vectors[:150], train_labels=labels[:150], test_features=vectors[150:],
             test_labels=labels[150:])  # fmt: skip
    assert load_source(place).store.shape == (200, 4)
    words = ("--methods", "count", *SMALL, "--out", tmp_path / "study")
    succeeds("study", place, *words)
    assert table_of(tmp_path / "study")["source"].tolist() == ["vectors"]
    np.savez(place, train_features=vectors.astype(int), train_labels=labels)
    with pytest.raises(InputError, match="floating-point vectors"):
        load_source(place)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digits", "--vary", "training.learning_rate=1e-3"), "two different values"),
        (("digits", "--vary", "training.speed=1,2"), "no setting training.speed"),
        (("digits", "--vary", RATES, "--learning-rate", "0.1"), "give it once"),
        (("digits", "--methods", "count,vote", "--option", "of=counts"), "vote has no option"),
        (("OWN", "--bag-size", "4"), "bag_size"),
        (("OWN", "--methods", "vote", "--scenarios", "small"), "scenarios is not for bags of your own"),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(refused, tmp_path, words, message):
    own = write_bags(tmp_path / "own.csv")
    words = [own if word == "OWN" else word for word in words]
    assert message in refused("study", *words, "--out", tmp_path / "out")
    assert not list(tmp_path.rglob("config.json"))


# ---------------------------------------------------------------- --config


def test_a_file_holds_the_options_and_the_command_line_wins(succeeds, tmp_path):
    out, file = tmp_path / "study", tmp_path / "study.toml"
    file.write_text(
        f"""
        sources = ["digits"]
        methods = ["count", "vote"]
        scenarios = ["large", "0.5,0.7"]
        folds = [0, 1]
        recipe = "quick"
        bags = 8
        bag-size = 4
        epochs = 1
        out = {json.dumps(str(out))}
        [vary]
        training.learning_rate = [1e-3, 3e-4]
        [set]
        training.weight_decay = 0.05
        """
    )
    succeeds("study", "--config", file, "--folds", "0", "--methods", "vote", "--device", "cpu")
    table = table_of(out)
    assert set(table["scenario"]) == {"large", "0.5,0.7"}
    assert set(table["method"]) == {"vote (learning_rate 0.001)", "vote (learning_rate 0.0003)"}
    assert set(table["n"]) == {1}
    assert "weight decay 0.05" in table["changed"][0] or "weight_decay 0.05" in table["changed"][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("metods = 'count'", "did you mean methods?"),
        ("set = 3", "settings is 3"),
        ("= 3", "Invalid statement"),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_is_one_message(refused, tmp_path, content, message):
    file = tmp_path / "study.toml"
    if content is not None:
        file.write_text(content)
    err = refused("study", "digits", "--config", file, "--out", tmp_path / "out")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_any_option_may_vary(majority, succeeds, tmp_path):
    out = tmp_path / "study"
    words = ("--methods", "count", "--vary", "classes=3,4", "--vary", "option.of=counts,proportions", *SMALL)
    succeeds("study", "digits", *words, "--out", out)
    rows = {f"count (classes {number}, option.of {of})" for number in (3, 4) for of in ("counts", "proportions")}
    assert set(table_of(out)["method"]) == rows
    assert table_of(out)["changed"].nunique() == 1
    assert "missing" not in majority("report", out)[1]
