"""The choice by validation bags alone, and its cost."""

import pytest

from majority.run.study.choosing import RULE, choices, choose_method, mean_cost
from majority.run.study.comparison import Comparison
from majority.run.study.table_formats import choice_table, cost_summary, latex, markdown, recommendation


def test_the_choice_uses_validation_bags_and_the_cost_test_instances(cell):
    cells = [
        cell("count", 0.60, val=0.95), cell("vote", 0.80, val=0.90),
        cell("count", 0.50, val=0.70, fold=1), cell("vote", 0.40, val=0.90, fold=1),
    ]  # fmt: skip
    (choice,) = choices(Comparison(cells))
    assert choice.chosen == {"count": 1, "vote": 1}
    assert choice.n == 2
    assert choice.accuracy == pytest.approx((0.60 + 0.40) / 2)
    assert choice.best == pytest.approx((0.80 + 0.50) / 2)
    assert choice.cost == pytest.approx((0.20 + 0.10) / 2)


def test_methods_that_see_instance_labels_are_not_chosen(cell):
    cells = [cell(name, a, val=v) for name, a, v in [("proportion", 0.9, 1.0), ("supervised", 0.95, 1.0)]]
    assert choices(Comparison([*cells, cell("count")])) == []
    (choice,) = choices(Comparison([*cells, cell("count", 0.5), cell("vote", 0.4, val=0.1)]))
    assert choice.methods == ("count", "vote")
    assert choice.best == 0.5


def test_an_unknown_method_is_a_candidate_unless_its_runs_record_that_it_sees_instance_labels(cell):
    own, known = cell("own", val=1.0), cell("count", val=0.8)
    for of_own in (own, own | {"sees_instance_labels": False}):
        (choice,) = choices(Comparison([of_own, known]))
        assert choice.chosen == {"own": 1}
    assert choices(Comparison([own | {"sees_instance_labels": True}, known])) == []


def test_of_equal_methods_log_mean_is_chosen_or_else_the_first_by_name():
    assert choose_method({"attention": 0.9, "log-mean": 0.9, "vote": 0.9}) == "log-mean"
    assert choose_method({"vote": 0.9, "naive": 0.9, "log-mean": 0.8}) == "naive"
    assert choose_method({"vote": 0.95, "log-mean": 0.9}) == "vote"


def test_means_that_differ_only_in_the_last_digit_are_equal(cell):
    cells = [cell("log-mean", val=v, fold=fold) for fold, v in enumerate((0.7, 0.1))]
    cells += [cell("vote", val=0.4, fold=fold) for fold in range(2)]
    (choice,) = choices(Comparison(cells))
    assert (choice.recommended, choice.tied) == ("log-mean", ["vote"])


def test_the_cost_is_unknown_if_one_method_has_no_instance_figures(cell):
    (choice,) = choices(Comparison([cell("count", 0.6, val=0.95), cell("vote", None)]))
    assert (choice.chosen, choice.accuracy, choice.best, choice.cost) == ({"count": 1}, None, None, None)


def test_seeds_are_averaged_before_the_choice(cell):
    cells = [cell("count", 0.6, val=0.8), cell("vote", 0.5, val=1.0), cell("vote", 0.1, val=0.5, seed=1)]
    (choice,) = choices(Comparison(cells))
    assert choice.chosen == {"count": 1}


def test_each_setting_scenario_and_source_has_its_own_choice(cell):
    def pair(**more):
        return [cell("count", 0.6, **more), cell("vote", 0.5, val=0.95, **more)]

    made = choices(Comparison([*pair(), *pair(epochs=150), *pair(scenario="small"), *pair(source="digits")]))
    assert len(made) == 4
    assert mean_cost(made) == pytest.approx(0.1)


def test_results_without_validation_figures_are_left_out(cell):
    old = [{name: value for name, value in cell(m).items() if name != "val"} for m in ("count", "vote")]
    assert choices(Comparison(old)) == []


def test_without_instance_labels_there_is_a_choice_but_no_cost(cell):
    cells = [cell("count", val=0.7), cell("vote", val=0.9)]
    for one in cells:
        one["test"] = {"bag_accuracy": 0.9}
    comparison = Comparison(cells)
    (choice,) = choices(comparison)
    assert (choice.chosen, choice.accuracy, choice.best, choice.cost) == ({"vote": 1}, None, None, None)
    assert mean_cost([choice]) is None
    page = markdown(comparison.tables(), [choice], [])
    assert "| source | scenario | recipe | methods | chosen (folds) | n |" in page
    assert "| cifar10 | large | paper | 2 | vote 1 | 1 |" in page
    assert "its accuracy" not in latex([], [choice], [])
    assert cost_summary([choice]) in page
    assert "not known" in cost_summary([choice])
    assert "| vote | 0.900 (n=1) |" in page


def test_there_is_a_column_of_costs_if_any_row_has_one(cell):
    cells = [cell(method, source=source) for method in ("count", "vote") for source in ("digits", "mine")]
    for one in cells:
        if one["source"] == "mine":
            one["test"] = {"bag_accuracy": 0.9}
    made = choices(Comparison(cells))
    head, rows = choice_table(made)
    assert "1 row is 0.000" in cost_summary(made)
    assert head[-4:] == ["its accuracy", "best", "cost", "n"]
    assert [row[-4:] for row in rows] == [["0.500", "0.500", "0.000", "1"], ["-", "-", "-", "1"]]


def by_fold(cell, **criteria):
    """The cells of methods whose criterion is given for each fold; None: not trained."""
    named = [(name.replace("_", "-"), fold, val) for name, of in criteria.items() for fold, val in enumerate(of)]
    return [cell(name, fold=fold, val=val) for name, fold, val in named if val is not None]


def test_over_folds_the_highest_mean_is_recommended_whatever_most_folds_choose(cell):
    cells = by_fold(cell, count=(0.9, 0.9, 0.3), vote=(0.8, 0.8, 0.8), supervised=(1.0, 1.0, 1.0))
    (choice,) = choices(Comparison(cells))
    assert choice.chosen == {"count": 2, "vote": 1}
    assert (choice.recommended, choice.tied) == ("vote", [])
    page = markdown([], [choice], [])
    line = "- {}`{}`{}".format(*recommendation(choice))
    assert f"{RULE}\n\n{line}\n\n| source |" in page
    assert line.startswith("- cifar10, large, recipe paper: ")
    assert "`vote`" in line
    assert "0.800 (n=3)" in line
    assert "| count 2, vote 1 |" in page


@pytest.mark.parametrize(
    ("criteria", "method", "mean", "tied"),
    [
        ({"count": (0.7, 0.9), "vote": (0.8, 0.8), "naive": (0.1, 0.1)}, "count", "0.800", "equal: vote"),
        ({"count": (0.1, 0.2, 0.3), "log_mean": (0.3, 0.2, 0.1)}, "log-mean", "0.200", "equal: count"),
        ({"count": (0.9, 0.8), "vote": (0.9, 0.8), "naive": (0.8, 0.9)}, "count", "0.850", "equal: vote, naive"),
    ],
)
def test_methods_with_the_same_mean_are_named(cell, criteria, method, mean, tied):
    (choice,) = choices(Comparison(by_fold(cell, **criteria)))
    _, recommended, details = recommendation(choice)
    assert recommended == method
    assert mean in details
    assert details.endswith(f"; {tied}.")


def test_means_are_over_the_folds_that_all_methods_have(cell):
    criteria = {"count": (0.6, 0.6, 0.6), "vote": (0.5, 0.5, 1.0), "naive": (0.1, 0.1, None)}
    (choice,) = choices(Comparison(by_fold(cell, **criteria)))
    assert choice.n == 3
    place, method, details = recommendation(choice)
    assert place.startswith("cifar10, large, recipe paper: ")
    assert method == "count"
    assert "0.600 (n=2, the folds that all 3 methods have)" in details
    criteria = {"count": (0.6, 0.6, None), "vote": (0.5, None, 0.5), "naive": (None, 0.1, 0.1)}
    (choice,) = choices(Comparison(by_fold(cell, **criteria)))
    place, method, _ = recommendation(choice)
    assert "no fold has all 3 methods" in place
    assert method == "unknown"
