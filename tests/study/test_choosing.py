"""The choice by validation bags alone, and its cost."""

import pytest

from majority.study.choosing import choices, mean_cost, pick
from majority.study.comparison import Comparison
from majority.study.writing import markdown


def test_the_choice_sees_validation_bags_and_the_cost_test_instances(cell):
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


def test_methods_that_see_instance_labels_are_no_choice(cell):
    cells = [cell(name, a, val=v) for name, a, v in [("proportion", 0.9, 1.0), ("supervised", 0.95, 1.0)]]
    assert choices(Comparison([*cells, cell("count")])) == []
    (choice,) = choices(Comparison([*cells, cell("count", 0.5), cell("vote", 0.4, val=0.1)]))
    assert choice.methods == ("count", "vote")
    assert choice.best == 0.5


def test_equals_go_to_log_mean_then_to_the_first_by_name():
    assert pick({"attention": 0.9, "log-mean": 0.9, "vote": 0.9}) == "log-mean"
    assert pick({"vote": 0.9, "naive": 0.9, "log-mean": 0.8}) == "naive"
    assert pick({"vote": 0.95, "log-mean": 0.9}) == "vote"


def test_seeds_are_averaged_before_the_choice(cell):
    cells = [cell("count", 0.6, val=0.8), cell("vote", 0.5, val=1.0), cell("vote", 0.1, val=0.5, seed=1)]
    (choice,) = choices(Comparison(cells))
    assert choice.chosen == {"count": 1}


def test_settings_scenarios_and_sources_are_chosen_for_apart(cell):
    pair = lambda **more: [cell("count", 0.6, **more), cell("vote", 0.5, val=0.95, **more)]
    made = choices(Comparison([*pair(), *pair(epochs=150), *pair(scenario="small"), *pair(source="digits")]))
    assert len(made) == 4
    assert mean_cost(made) == pytest.approx(0.1)


def test_results_without_validation_figures_are_left_out(cell):
    old = [{name: value for name, value in cell(m).items() if name != "val"} for m in ("count", "vote")]
    assert choices(Comparison(old)) == []


def test_where_no_instance_is_labelled_the_choice_is_made_and_its_cost_is_not_known(cell):
    cells = [cell("count", val=0.7), cell("vote", val=0.9)]
    for one in cells:
        one["test"] = {"bag_accuracy": 0.9}
    comparison = Comparison(cells)
    (choice,) = choices(comparison)
    assert (choice.chosen, choice.accuracy, choice.best, choice.cost) == ({"vote": 1}, None, None, None)
    assert mean_cost([choice]) is None
    page = markdown(comparison.tables(), [choice], [])
    assert "| cifar10 | large | paper | 2 | vote 1 | - | - | - | 1 |" in page
    assert "No instance label tells what these cost." in page
    assert "| vote | 0.900 (n=1) |" in page
