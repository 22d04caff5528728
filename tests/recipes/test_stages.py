"""Lists of stages: their order and inputs, in memory and in a folder, once more on all bags."""

import numpy as np
import pytest

from majority import Bags, Callback, InputError, Settings, build_model
from majority.recipes import Plan
from majority.recipes.running import run_again, run_stages
from majority.recipes.stages import Run, Stage

ONE, TWO = Settings(epochs=1, batch_bags=4), Settings(epochs=2, batch_bags=4)


def bags(seed=0):
    rng = np.random.default_rng(seed)
    return Bags.from_lists([rng.normal(size=(3, 2)).astype(np.float32) + i % 2 for i in range(12)], ["a", "b"] * 6)


def run_of(folder=None, **more):
    train = bags()

    def build(seed=0, method=None):
        return build_model(train, "log-mean", "linear", seed=seed)

    return Run(train, bags(1), Plan(training=TWO), build, folder=folder, device="cpu", **more)


def better(run):
    losses = {name: run.results[name].fitted.best_loss for name in ("one", "other")}
    kept = min(losses, key=losses.get)
    return {"kept": kept, "losses": losses}


def trials(again=False):
    return [
        Stage("one", ONE),
        Stage("other", TWO, start=lambda run: run.fresh_model(1)),
        Stage("choice", inputs=("one", "other"), choose=better, again=again),
    ]


def test_a_stage_starts_from_its_inputs_and_leaves_their_networks_as_they_are(same):
    trained = run_stages([Stage("first", ONE), Stage("second", TWO, inputs=("first",))], run_of())
    first = run_stages([Stage("first", ONE)], run_of())
    continued = run_stages([Stage("second", TWO, start=lambda run: first.model)], run_of())
    assert same(trained.model, continued.model)
    assert [*trained.trainings] == ["first", "second"]


def test_in_memory_nothing_is_written_and_the_result_is_the_same(tmp_path, same, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    alone = run_stages(trials(), run_of())
    assert not [*tmp_path.iterdir()]
    assert same(alone.model, run_stages(trials(), run_of(tmp_path)).model)
    assert alone.about == run_stages(trials(), run_of(tmp_path)).about, "also as it is read back"


def test_the_network_that_a_stage_chooses_is_kept():
    trained = run_stages(trials(), run_of())
    losses = trained.about["losses"]
    assert trained.fitted is trained.trainings[min(losses, key=losses.get)]
    assert "kept" not in trained.about


def test_on_all_bags_only_what_was_chosen_is_trained_for_as_many_epochs_without_validation():
    first = run_stages(trials(), run_of())
    again = run_again(first, run_of())
    (fitted,) = again.trainings.values()
    assert fitted.loss_name == "train_loss"
    assert fitted.epochs == first.fitted.best_epoch + 1
    assert again.about == first.about
    anew = run_again(run_stages(trials(again=True), run_of()), run_of())
    assert [*anew.trainings] == ["one", "other"], "nothing is taken over"


def test_every_stage_is_reported_once(tmp_path):
    calls = []

    class Note(Callback):
        def on_stage_start(self, stage):
            calls.append(stage)

        def on_stage_end(self, stage, fitted):
            calls.append((stage, fitted.epochs))

    for _ in range(2):  # the second time, all stages are finished
        run_stages(trials(), run_of(tmp_path, callbacks=[Note()]))
    assert calls == ["one", ("one", 1), "other", ("other", 2)]


@pytest.mark.parametrize(
    ("file", "content", "fact"),
    [
        ("choice/outcome.json", "{}", "choice.outcome.json is damaged .*: remove it and run again"),
        ("one/metrics.jsonl", "", "stages.one is damaged .0 epochs in metrics.jsonl.*: remove it and run"),
        (
            "one/metrics.jsonl",
            '{"epoch": -1, "train_loss": 0.5}\n',
            "one.metrics.jsonl, line 1 is damaged .epoch is -1.*: remove it and run",
        ),
        ("one/outcome.json", "{}", "stages.one is damaged .*epoch 0 was kept.*: remove it and run"),
        ("one/outcome.json", '{"seconds": -1e30}', "one.outcome.json is damaged .seconds.*: remove it and run"),
    ],
)
def test_files_of_a_stage_that_were_changed_are_named(tmp_path, file, content, fact):
    run_stages(trials(), run_of(tmp_path))
    (tmp_path / "stages" / file).write_text(content)
    with pytest.raises(InputError, match=fact):
        run_stages(trials(), run_of(tmp_path))


def test_a_list_whose_last_stage_trains_nothing_is_refused():
    with pytest.raises(InputError, match="choice trains no network"):
        run_stages([Stage("one", ONE), Stage("choice", choose=lambda run: {})], run_of())
