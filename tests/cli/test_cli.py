"""The command as a person types it: what it prints, what it leaves, how it fails."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from majority import __version__
from majority.cli.app import main

TINY = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--epochs", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def finished_run(succeeds, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    succeeds("train", "digits", "--method", "log-mean", *TINY, "--out", out)
    return out


def test_a_reader_that_has_seen_enough_gets_no_message():
    command = f"{sys.executable} -m majority list | true"
    assert subprocess.run(command, shell=True, capture_output=True, text=True).stderr == ""


def test_version(majority):
    assert majority("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(("rate", "learned"), [("1e-9", False), ("3e-3", True)])
def test_whether_bags_show_that_anything_was_learned(succeeds, tmp_path, rate, learned):
    words = ["--recipe", "quick", "--bags", "80", "--bag-size", "8", "--epochs", "12", "--scenario", "large"]
    out = succeeds("train", "digits", *words, "--learning-rate", rate, "--out", tmp_path / "run")
    assert ("warning: no evidence that the model has learned" in out) is not learned
    assert (
        "Caution: no evidence that the model has learned" in (tmp_path / "run/report.html").read_text()
    ) is not learned


def test_train_prints_figures_and_names_its_folder_by_what_it_does(succeeds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = succeeds("train", "digits", *TINY, "--scenario", "0.3,0.6")
    assert "recipe quick" in out
    assert "instance accuracy" in out
    assert (tmp_path / "runs" / "digits-0.3-0.6-auto-fold0" / "result.json").exists()


def test_every_option_of_train_reaches_the_run(succeeds, tmp_path):
    options = ["--fold", 2, "--seed", 3, "--data-seed", 4, "--batch-bags", 5, "--learning-rate", 0.01]
    options += ["--max-instances", 4, "--patience", 7, "--backbone", "mlp", "--ties", "resample", "--with-replacement"]
    succeeds(
        "train", "digits", "--method", "count", *TINY, *options, "--option", "of=counts", "--out", tmp_path / "run"
    )
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    bags = config["run"]["bags"]
    assert bags | {"fold": 2, "data_seed": 4, "ties": "resample", "with_replacement": True} == bags
    training = {"seed": 3, "batch_bags": 5, "learning_rate": 0.01, "max_instances": 4, "patience": 7, "epochs": 2}
    assert config["plan"]["training"] | training == config["plan"]["training"]
    assert config["plan"]["backbone"] == "mlp"
    assert config["run"]["method_options"] == {"of": "counts"}


def test_evaluate_repeats_the_figures_of_the_run(majority, finished_run):
    code, out, _ = majority("evaluate", finished_run, "--device", "cpu")
    accuracy = json.loads((finished_run / "result.json").read_text())["test"]["instance_accuracy"]
    assert code == 0
    assert f"{accuracy:.4f}" in out
    code, out, _ = majority("evaluate", finished_run, "--all", "--device", "cpu")
    assert [part in out for part in ("train bags", "val bags", "test bags")] == [True] * 3


def test_predict_writes_a_row_an_instance(succeeds, finished_run, tmp_path):
    out = succeeds("predict", finished_run, "--out", tmp_path / "p.csv", "--device", "cpu")
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert len(rows) == 5 * 8
    assert "40 instances" in out
    probabilities = np.array([[float(row[f"p({c})"]) for c in range(10)] for row in rows])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4)
    assert [row["class"] for row in rows] == [str(c) for c in probabilities.argmax(axis=1)]
    succeeds("predict", finished_run, "--all", "--out", tmp_path / "all.csv", "--device", "cpu")
    assert len(list(csv.DictReader((tmp_path / "all.csv").open()))) == (20 + 5 + 5) * 8


def test_list_fits_a_screen_and_all_has_the_rest(succeeds):
    out = succeeds("list")
    assert out.count("\n") < 40
    for name in ("digits", "pathmnist", "auto", "log-mean", "supervised", "census"):
        assert name in out
    out = succeeds("list", "--all")
    for name in ("additive-transmil", "resnet18-small", "cutout", "CC BY 4.0", "downloaded when a command first needs"):
        assert name in out


WRONG_USE = {
    "train digist": "digits",
    "train digits --recipe soup": "there is no recipe 'soup'",
    "train digits --scenario tiny": "tiny",
    "train digits --fold 7": "fold is 7: give a whole number from 0 to 4",
    "train digits --bag-size 500": "--with-replacement",
    "train digits --set training.seed=1": "use seed",
    "train digits --method count --option of=counts --option of=counts": "each name once",
    "train digits --method count --option instance_temperature=abc": "instance_temperature='abc'",
    "train digits --option of": "NAME=VALUE",
    "train digits --epochs 2 --set training.epochs=3": "training.epochs is given twice",
    "train digits --out -": "nothing is written to standard output",
    "train digits --colour blue": "--colour",
    "train nowhere.npz": "there is no file nowhere.npz",
    "evaluate nowhere": "not a run folder",
    "study digits --folds a": "write 0, 0-4 or 0,2",
    "study digits --methods ,": "methods is []: give text, or several",
    "study digits --bags 0": "bags is 0: give a whole number from 4",
    "study .": "there are no feature files",
    "train . --folds 0": "folds is 0: give a whole number from 3",
}


def test_wrong_use_is_one_message_and_exit_2(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, message in WRONG_USE.items():
        err = refused(*words.split())
        assert message in err, words
        assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


SEEN_BEFORE = {
    "--set training.bogus=1": "no setting training.bogus",
    "--set training.epochs=-1": "epochs is -1",
    "--option nonsense=3": "no option 'nonsense'",
    "--backbone vgg": "there is no backbone 'vgg'",
    "--recipe quick --set mpem.ratios=[0.5]": "has no setting mpem.ratios",
    "--recipe mpem --method vote": "does not work with method vote",
    "--device tpu": "auto, cpu, cuda",
}


def test_what_cannot_be_right_is_said_before_any_data_are_read(refused, tmp_path):
    (tmp_path / "bags.csv").write_text("bag,bag_label,f0\n1,a,not a number\n")
    for words, message in SEEN_BEFORE.items():
        error = refused("train", tmp_path / "bags.csv", *words.split(), "--out", tmp_path / "run")
        assert message in error, words
        assert "bags.csv" not in error


def test_help_says_the_defaults(majority):
    def shown(*words):
        return " ".join(majority(*words, "--help")[1].replace("│", " ").split())

    assert "[from 0 to 4,294,967,295; default: 0]" in shown("train")
    assert "(default: one per core, two per GPU)" in shown("study")
    assert "(default: bag_label; label in a labels.csv)" in shown("check")
    assert "(default: the distance of neighbours in a row)" in shown("map")


def test_predict_refuses_a_place_it_cannot_write(refused, finished_run):
    assert "cannot be written" in refused("predict", finished_run, "--out", "/proc/p.csv", "--device", "cpu")


def test_debug_shows_the_traceback(monkeypatch):
    from majority import InputError

    monkeypatch.setattr(sys, "argv", ["majority", "--debug", "train", "digist"])
    with pytest.raises(InputError):
        main()


def test_training_that_fails_is_exit_1(majority, tmp_path):
    arguments = ["train", "digits", *TINY, "--epochs", 30, "--learning-rate", 1e38, "--out", tmp_path / "run"]
    code, _, err = majority(*arguments)
    assert code == 1
    assert "lower learning rate" in err
    assert not (tmp_path / "run" / "best.safetensors").exists()


def test_an_interrupt_is_exit_130_without_a_traceback(majority, monkeypatch):
    from majority.run import experiment

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run_experiment", interrupted)
    code, _, err = majority("train", "digits")
    assert (code, "Traceback" in err) == (130, False)


def test_predictions_never_replace_their_source(majority, refused, finished_run, tmp_path, monkeypatch):
    manifest = tmp_path / "new.csv"
    manifest.write_text("bag,path\n")
    assert majority("evaluate", finished_run, manifest, "--out", manifest)[0] == 2, "no .json file"
    assert "is the source itself" in refused("predict", finished_run, manifest, "--out", manifest)
    assert manifest.read_text() == "bag,path\n"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "is the source itself" in refused("predict", finished_run, "~/new.csv", "--out", manifest)
    labels = tmp_path / "slides/labels.csv"
    labels.parent.mkdir()
    labels.write_text("bag,label\n")
    assert "inside the source" in refused("predict", finished_run, labels.parent, "--bags", "--out", labels)
    assert labels.read_text() == "bag,label\n"


def test_test_bags_are_not_said_to_be_trained_on(succeeds, finished_run):
    assert "trained on" not in succeeds("evaluate", finished_run, "digits")


def test_a_run_started_with_an_option_continues_with_the_setting_it_is_short_for(succeeds, tmp_path):
    words = ["train", "digits", "--recipe", "quick", "--bags", 8, "--bag-size", 4, "--out", tmp_path / "run"]
    succeeds(*words, "--epochs", 2)
    assert "is finished" in succeeds(*words, "--set", "training.epochs=2")


def test_a_number_may_replace_a_whole_number_of_the_plan(succeeds, tmp_path):
    """The plan of census has 3 epochs of warm-up, and the setting takes any number."""
    words = ["train", "digits", "--recipe", "census", "--method", "count", "--bags", 8, "--bag-size", 4, "--epochs", 1]
    words += ["--set", "census.teachers=1", "--device", "cpu", "--out", tmp_path / "run"]
    succeeds(*words, "--set", "training.warmup_epochs=0.5")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["plan"]["training"]["warmup_epochs"] == 0.5


def test_a_background_has_a_name(refused, tmp_path):
    assert "background" in refused("train", "digits", "--background", "", "--out", tmp_path / "run")
