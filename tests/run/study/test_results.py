"""Result lines that older versions wrote."""

import json
from pathlib import Path

import pytest

from majority.errors import InputError
from majority.recipes import KINDS, RECIPES
from majority.run.study.figures import small_curves
from majority.run.study.results import read_results, setting_of, with_current_names

RESULTS = Path(__file__).parents[3] / "results"


def lines_of(name):
    return [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]


def current_settings(plan):
    """Names of the settings that a plan can have, and of groups of them."""
    groups = ["training", *(name for name in plan if isinstance(plan[name], dict))]
    stages = [f"census.{stage}" for stage in ("pretrain", "head")]
    known = {"recipe", "backbone", "pixels", *groups, *stages}
    for recipe in RECIPES.values():
        for task in KINDS:
            known |= set(flat_names(recipe.plan_for(task).as_dict()))
    return known


def flat_names(plan, prefix=""):
    for name, value in plan.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from flat_names(value, f"{prefix}{name}.")


@pytest.mark.parametrize("name", ["census/runs.jsonl", "census-unmixed/runs.jsonl", "recipes/vectors.jsonl"])
def test_settings_and_stages_of_census_get_their_current_names(name):
    old = [line for line in lines_of(name) if line.get("stages")]
    assert old
    for line in old:
        before = json.dumps(line)
        renamed = with_current_names(line)
        assert json.dumps(line) == before, "the line itself stays as it is"
        assert set(flat_names(renamed["plan"])) <= current_settings(renamed["plan"])
        assert len(renamed["stages"]) == len(line["stages"])
        assert [*renamed["stages"].values()] == [*line["stages"].values()]
        assert {stage.rstrip("-0123456789") for stage in renamed["stages"]} <= {
            "pretrain", "head", "distilled", "teacher", "distilled-teacher", "student",
        }  # fmt: skip
        assert with_current_names(renamed) == renamed


def test_old_values_stay_under_their_new_names():
    line = next(line for line in lines_of("census/runs.jsonl") if (line.get("plan") or {}).get("census"))
    old, new = line["plan"]["census"], with_current_names(line)["plan"]["census"]
    pairs = {"start": "pretrain", "head": "head", "readers": "teachers", "mixed": "mixup", "sharpness": "sharpness"}
    for settings in filter(None, (old["start"], old["head"])):
        settings["drop_last"] = settings.pop("whole_steps")
    assert {new[name] == old[before] for before, name in pairs.items()} == {True}
    assert new["mixed_views"] == old.get("mixed_views", 0.0)


def test_ratios_belong_to_mpem_and_plans_of_other_recipes_have_none():
    assert with_current_names({"plan": {"recipe": "mpem", "ratios": [0.5], "census": None}})["plan"] == {
        "recipe": "mpem",
        "mpem": {"ratios": [0.5]},
    }
    plan = with_current_names(lines_of("paper/paper-patience-50-fold-0.jsonl")[0])["plan"]
    assert plan.keys() == {"recipe", "backbone", "pixels", "training"}


MPEM = "mpem (mpem.ratios 0.3 0.5 0.7)"
WITHOUT_SEARCH = "census (census.mixed_views 0.5, census.search_epochs 0, no census.validation_instances)"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("paper/paper-1500-epochs.jsonl", {"paper", "paper (precision float32)", "paper (of counts)", MPEM}),
        ("paper/paper-patience-50-fold-0.jsonl", {"paper (patience 50)"}),
        ("paper/cifar10-large-fold0-150-epochs.jsonl", {"paper (settings not recorded, 150 epochs run)"}),
        ("digits/results.jsonl", {"quick"}),
        ("recipes/images-unknown.jsonl", {"augmented", WITHOUT_SEARCH}),
    ],
)
def test_old_lines_keep_their_settings(name, settings):
    assert {str(setting_of(result)) for result in read_results(RESULTS / name)} == settings


def test_a_stage_that_is_missing_in_an_old_line_has_its_current_name():
    changes = {setting_of(result).changed for result in read_results(RESULTS / "recipes/images-cpu.jsonl")}
    assert any("no census.head" in change for change in changes)


def test_older_lines_have_the_bag_accuracy_of_the_method_under_its_name(tmp_path):
    """Before, `bag_accuracy` was by the method's own prediction, in figures, intervals and learning curves."""
    old = {"source": "digits", "method": "count", "recipe": "quick", "best_epoch": 0, "epochs": 1}
    figures = {"bag_accuracy": 0.9, "bag_accuracy_by_count": 0.8, "intervals": {"bag_accuracy": [0.8, 1.0]}}
    curve = {"epoch": [0], "train_loss": [1.0], "val_loss": [1.0], "train_bag_accuracy": [0.5]}
    line = old | {"test": figures, "curve": curve | {"val_bag_accuracy": [0.6]}}
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n")
    (read,) = read_results(tmp_path)
    assert (read["test"]["bag_accuracy"], read["test"]["method_bag_accuracy"]) == (0.8, 0.9)
    assert read["test"]["intervals"] == {"method_bag_accuracy": [0.8, 1.0]}
    assert read["curve"]["val_method_bag_accuracy"] == [0.6]
    assert "val_bag_accuracy" not in read["curve"]
    drawing = small_curves("count", [read])
    assert "bags right by the method" in drawing
    assert "bag accuracy" not in drawing
    both = small_curves("count", [read, read | {"curve": curve | {"val_bag_accuracy": [0.6]}}])
    assert "bag accuracy" in both


def test_a_curve_may_hold_more_than_lists_of_points(cell, tmp_path):
    """Only the lists that are read must have one length."""
    curve = {"epoch": [0, 1], "train_loss": [2.0, 1.0], "val_loss": [2.0, 1.0], "points": 2}
    (tmp_path / "results.jsonl").write_text(json.dumps(cell() | {"curve": curve}) + "\n")
    (result,) = read_results(tmp_path / "results.jsonl")
    assert result["curve"]["val_loss"] == [2.0, 1.0]
    curve["train_loss"] = [2.0]
    (tmp_path / "results.jsonl").write_text(json.dumps(cell() | {"curve": curve}) + "\n")
    with pytest.raises(InputError, match="different lengths"):
        read_results(tmp_path / "results.jsonl")
