"""The figures of a study, from its results: means over folds, intervals, differences, choices; against references."""

import csv
import io
import math
from statistics import stdev

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from majority.errors import InputError
from majority.recipes import RECIPES, TaskInfo
from majority.run.study.figures import StudyFigures, holm, with_intervals
from majority.run.study.results import setting_of
from majority.run.study.tables import all_tables, figure_tables, latex, long_csv


def line_of(table, **names):
    (line,) = table.loc[np.logical_and.reduce([table[name] == value for name, value in names.items()])].to_dict(
        "records"
    )
    return line


# ---------------------------------------------------------------------- means and intervals


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_the_interval_is_nadeau_and_bengios_and_the_p_value_that_of_its_statistic(folds):
    rng = np.random.default_rng(folds)
    values = rng.normal(0.1, 0.2, folds)
    line = {"mean": values.mean(), "sd": values.std(ddof=1), "n": folds, "ratio": 1 / 3}
    found = with_intervals(pd.DataFrame([line, line | {"ratio": 0.0}])).to_dict("records")
    error = math.sqrt(values.var(ddof=1) * (1 / folds + 10_000 / 30_000))
    assert (found[0]["low"], found[0]["high"]) == pytest.approx(stats.t.interval(0.95, folds - 1, values.mean(), error))
    assert found[1]["p"] == pytest.approx(stats.ttest_1samp(values, 0).pvalue), "without overlap, the usual t-test"
    assert found[0]["p"] > found[1]["p"]


def test_one_fold_and_equal_folds_have_no_p_value():
    lines = [{"mean": 0.5, "sd": np.nan, "n": 1, "ratio": 1 / 3}, {"mean": 0.0, "sd": 0.0, "n": 3, "ratio": 1 / 3}]
    found = with_intervals(pd.DataFrame(lines))
    assert found["p"].isna().all()
    assert found["low"].isna().tolist() == [True, False]


def test_holms_correction_is_that_of_its_definition():
    """Holm (1979): reject in order of p while p_(i) <= alpha / (m - i + 1)."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 12):
        p_values = np.round(rng.random(size) ** 3, 3)
        corrected = holm(pd.Series(p_values)).to_numpy()
        for alpha in np.linspace(0.001, 0.999, 200):
            order, rejected = np.argsort(p_values, kind="stable"), np.zeros(size, bool)
            for rank, place in enumerate(order):
                if p_values[place] > alpha / (size - rank):
                    break
                rejected[place] = True
            assert (corrected <= alpha + 1e-12).tolist() == rejected.tolist()


def test_seeds_are_averaged_within_folds_and_a_run_counts_once(cell):
    cells = [
        cell(accuracy=a, fold=f, seed=s, source="/x/svhn28.npz") for a, f, s in [(0.2, 0, 0), (0.4, 0, 1), (0.9, 1, 0)]
    ]
    study = StudyFigures([*cells, cells[0]])
    row = line_of(study.rows, figure="instance_accuracy")
    assert (row["source"], row["n"], row["runs"]) == ("svhn28", 2, 3)
    assert row["mean"] == pytest.approx(0.6)
    assert row["sd"] == pytest.approx(stdev([0.3, 0.9]))
    assert "0.600 ± 0.424 (n=2, 3 runs)" in figure_tables(study, "instance_accuracy")[0].rows[0]


def test_an_undefined_figure_has_its_number_of_folds_beside_it(cell):
    study = StudyFigures([cell(rate=None), cell(rate=0.7, fold=1), cell("vote", rate=None)])
    (table,) = figure_tables(study, "consistency_rate")
    assert table.rows == [["count", "0.700 (n=1)"], ["vote", "- (n=0)"]]
    assert figure_tables(study, "overestimation") == [], "no row has it"


def test_the_ratio_of_test_to_training_bags_is_that_of_the_folds(cell):
    five, ten = (StudyFigures([cell(accuracy=a, fold=f, **more) for f, a in enumerate((0.1, 0.2, 0.4))]).rows
                 for more in ({}, {"folds": 10}))  # fmt: skip
    widths = [line_of(rows, figure="instance_accuracy") for rows in (five, ten)]
    wide, narrow = (row["high"] - row["low"] for row in widths)
    assert wide / narrow == pytest.approx(math.sqrt((1 / 3 + 1 / 3) / (1 / 3 + 1 / 8)))


# ---------------------------------------------------------------------- settings are rows


def test_a_setting_names_its_differences_from_the_recipe(cell):
    assert setting_of(cell()) == setting_of(cell(seed=4)) == setting_of(cell(source="/x/cifar10.npz")) == ("paper", "")
    assert setting_of(cell(epochs=150, patience=100)).changed == "150 of 1,500 epochs, patience 100"
    assert setting_of(cell(backbone="cnn", bags=40, bag_size=8)).changed == "backbone cnn, bags 40, bag size 8"
    assert setting_of(cell(with_replacement=True, data_seed=3)).changed == "with replacement, data seed 3"
    assert setting_of(cell() | {"method_options": {"of": "counts"}}).changed == "of counts"


def test_changed_stages_are_changes(cell):
    def changed(on_gpu=True, instances=25_600, **settings):
        task = TaskInfo("cifar10", on_gpu=on_gpu, instances=instances)
        plan = RECIPES["census"].plan_for(task).with_settings(settings).as_dict()
        return setting_of(cell() | {"recipe": "census", "plan": plan, "task": task._asdict()}).changed

    assert changed() == changed(**{"census.pretrain.seed": 3}) == ""
    assert changed(**{"census.pretrain.learning_rate": 0.001}) == "census.pretrain.learning_rate 0.001"
    assert changed(on_gpu=False) == changed(on_gpu=False, instances=9_000) == "on a CPU"


# ---------------------------------------------------------------------- differences


def test_the_best_method_comes_first_and_the_folds_tell_it_apart_or_not(cell):
    means = {"count": 0.3, "vote": 0.5, "soft-count": 0.5, "supervised": 0.9}
    noise = {"vote": (0.02, -0.01, 0.01)}
    cells = [
        cell(name, mean + more, fold=fold)
        for name, mean in means.items()
        for fold, more in enumerate(noise.get(name, (0, 0, 0)))
    ]
    study = StudyFigures(cells)
    (table,) = figure_tables(study, "instance_accuracy")
    assert [row[0] for row in table.rows] == ["supervised", "vote", "soft-count", "count"]
    (verdict,) = study.verdicts.values()
    assert verdict.startswith("vote ")
    assert "soft-count" in verdict
    assert " count" not in verdict, "far below"
    (alone,) = StudyFigures(cells[:3]).verdicts.values()
    assert alone == ""


def test_differences_are_paired_by_fold_and_corrected_for_their_table(cell):
    rng = np.random.default_rng(1)
    methods = {"count": 0.5, "vote": 0.55, "log-mean": 0.6}
    cells = [cell(name, accuracy + rng.normal(0, 0.01), source=source, fold=fold)
             for source in ("cifar10", "svhn") for name, accuracy in methods.items() for fold in range(5)]  # fmt: skip
    found = StudyFigures([*cells, cell("vote", 9.0, source="svhn", fold=7)], "count").differences
    assert set(found["reference"]) == {"count"}
    assert len(found) == 4
    of = {(one["source"], one["method"], one["fold"]): one["test"]["instance_accuracy"] for one in cells}
    vote = line_of(found, source="svhn", method="vote")
    assert vote["mean"] == pytest.approx(np.mean([of["svhn", "vote", f] - of["svhn", "count", f] for f in range(5)]))
    assert vote["n"] == 5, "the reference has no fold 7"
    assert found["p_holm"].tolist() == pytest.approx(holm(found["p"]).tolist())
    assert set(StudyFigures(cells).differences["reference"]) == {"count", "log-mean"}
    assert set(StudyFigures([cell("vote"), cell("naive")]).differences["reference"]) == {"vote"}
    with pytest.raises(InputError, match="give one of count; log-mean; vote"):
        StudyFigures(cells, "median").references  # noqa: B018


# ---------------------------------------------------------------------- which figure comes first


def test_bags_are_compared_if_no_instance_is_labelled_and_macro_f1_if_most_winners_are_one_class(cell):
    skewed = {"instance_accuracy": 0.8, "macro_f1": 0.4, "bag_accuracy": 0.9, "most_frequent_label": 0.73}
    assert StudyFigures([cell()]).main == "instance_accuracy"
    assert StudyFigures([cell() | {"test": {"bag_accuracy": 0.9}}]).main == "bag_accuracy"
    assert StudyFigures([cell() | {"test": skewed}]).main == "macro_f1"
    assert StudyFigures([cell() | {"test": skewed | {"most_frequent_label": 0.3}}]).main == "instance_accuracy"


# ---------------------------------------------------------------------- the choice without instance labels


def by_fold(cell, **criteria):
    """The cells of methods whose criterion is given for each fold; None: not trained."""
    named = [(name.replace("_", "-"), fold, val) for name, of in criteria.items() for fold, val in enumerate(of)]
    return [cell(name, fold=fold, val=val) for name, fold, val in named if val is not None]


@pytest.mark.parametrize(
    ("criteria", "choose", "mean", "equal"),
    [
        ({"count": (0.9, 0.9, 0.3), "vote": (0.8, 0.8, 0.8), "supervised": (1.0, 1.0, 1.0)}, "vote", 0.8, ""),
        ({"count": (0.7, 0.9), "vote": (0.8, 0.8), "naive": (0.1, 0.1)}, "count", 0.8, "vote"),
        ({"count": (0.1, 0.2, 0.3), "log_mean": (0.3, 0.2, 0.1)}, "log-mean", 0.2, "count"),
        ({"log_mean": (0.7, 0.1), "vote": (0.4, 0.4)}, "log-mean", 0.4, "vote"),  # but for the last digit
        ({"count": (0.6, 0.6, 0.6), "vote": (0.5, 0.5, 1.0), "naive": (0.1, 0.1, None)}, "count", 0.6, ""),
        ({"count": (0.6, 0.6, None), "vote": (0.5, None, 0.5), "naive": (None, 0.1, 0.1)}, "", np.nan, ""),
    ],
)
def test_the_highest_mean_over_common_folds_is_chosen(cell, criteria, choose, mean, equal):
    (choice,) = StudyFigures(by_fold(cell, **criteria)).choices
    assert (choice["choose"], ", ".join(choice["equal"])) == (choose, equal)
    assert choice["mean"] == pytest.approx(mean, nan_ok=True)


def test_each_setting_scenario_and_source_has_its_own_choice_without_methods_that_see_instance_labels(cell):
    def pair(**more):
        own = cell("own", val=1.0, **more) | {"sees_instance_labels": True}
        return [cell("count", **more), cell("vote", None, val=0.95, **more), own]

    study = StudyFigures(
        [*pair(), *pair(epochs=150), *pair(scenario="small"), *pair(source="digits"), cell(source="x")]
    )
    assert [choice["choose"] for choice in study.choices] == ["vote"] * 4
    assert StudyFigures([cell() | {"val": None}, cell("vote") | {"val": None}]).choices == []


# ---------------------------------------------------------------------- files


def test_files_hold_every_figure(cell):
    sources = ("cifar10", "oct_kermany_7801")
    study = StudyFigures(
        [cell(m, 0.5, source=s, fold=f, epochs=150) for m in ("count", "vote") for s in sources for f in (0, 2)]
    )
    rows = list(csv.DictReader(io.StringIO(long_csv(study))))
    head = "figure,reference,source,scenario,method,recipe,changed,n,runs,mean,sd,low,high,p,p_holm"
    assert ",".join(rows[0]) == head
    assert {row["changed"] for row in rows} == {"150 of 1,500 epochs"}
    assert len(rows) == 2 * 2 * 3 + 2, (
        "accuracy, consistency and validation bags of each row, and a difference per source"
    )


def test_latex_is_whole_and_escaped(cell):
    study = StudyFigures([cell(m, source="oct_kermany_7801", fold=f) for m in ("count", "vote") for f in (0, 1)])
    text = latex(all_tables(study), ["50 % & more"])
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"oct\_kermany\_7801" in body
    assert "oct_kermany" not in body.replace(r"\_", "")
    for name in ("table", "tabular"):
        assert body.count(rf"\begin{{{name}}}") == body.count(rf"\end{{{name}}}") > 0
    for tabular in body.split(r"\begin{tabular}{")[1:]:
        lines = [line for line in tabular.splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") + 1 for line in lines} == {tabular.index("}")}
