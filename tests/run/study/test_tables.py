"""Rows of different settings, and the tables of the paper with the printed figures."""

import csv
import io
import json
from statistics import stdev

import pytest

from majority.errors import InputError
from majority.files import write_json, write_lines
from majority.recipes import RECIPES, TaskInfo
from majority.run.study.comparison import Comparison, Figure
from majority.run.study.missing import study_command
from majority.run.study.results import CURVE_NAMES, read_results, save_results, setting_of
from majority.run.study.table_formats import fold_ranges, latex, long_csv, markdown
from majority.run.study.tables import aggregate, as_csv, as_markdown

SETS = ("cifar10", "svhn", "pathmnist", "octmnist")


def entry(tables, method, column):
    """The figure of a method in a column of the only table."""
    (table,) = tables
    return dict(table.rows)[(method,)][table.columns.index(column)]


# ---------------------------------------------------------------------- settings


def test_a_setting_names_its_differences_from_the_recipe(cell):
    assert setting_of(cell()) == ("paper", "")
    assert setting_of(cell(epochs=150, patience=100)).changed == "150 of 1,500 epochs, patience 100"
    assert setting_of(cell(epochs=2000)).changed == "2,000 instead of 1,500 epochs"
    assert setting_of(cell(backbone="cnn", bags=40, bag_size=8)).changed == "backbone cnn, bags 40, bag size 8"
    assert setting_of(cell(with_replacement=True, data_seed=3)).changed == "with replacement, data seed 3"
    assert setting_of(cell(seed=4)) == setting_of(cell(source="/x/cifar10.npz")) == ("paper", "")


def test_a_stage_that_is_left_out_is_a_change():
    """As in runs from before the recipe had the stage, or with --set census.head=null."""
    task = TaskInfo("", (64,))
    plan = RECIPES["census"].plan_for(task)

    def changes(plan):
        result = {"source": "own.csv", "recipe": "census", "plan": plan.as_dict(), "task": task._asdict()}
        return setting_of(result).changed

    assert changes(plan) == ""
    assert changes(plan.with_settings({"census.head": None})) == "no census.head"


def test_settings_that_are_not_recorded_are_not_those_of_the_recipe(cell):
    old = {name: value for name, value in cell().items() if name not in ("plan", "data")}
    assert setting_of(old).changed == "settings not recorded, 9 epochs run"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "other", [{"epochs": 150}, {"patience": 9}, {"backbone": "cnn"}, {"bags": 40}, {"bag_size": 8}, {"data_seed": 1}]
)
def test_different_settings_are_different_rows(cell, other):
    rows = aggregate([cell(accuracy=0.2), cell(accuracy=0.4, fold=1), cell(accuracy=0.9, fold=2, **other)])
    assert [(row["n"], row["instance_accuracy"]) for row in rows] == [(2, pytest.approx(0.3)), (1, 0.9)]
    assert rows[0]["changed"] == ""
    assert rows[1]["changed"]


def test_a_row_averages_seeds_within_folds_and_shows_the_stem_of_the_file(cell):
    cells = [
        cell(accuracy=a, fold=f, seed=s, source="/x/svhn28.npz") for a, f, s in [(0.2, 0, 0), (0.4, 0, 1), (0.9, 1, 0)]
    ]
    (row,) = aggregate([*cells, cells[0]])
    assert (row["source"], row["n"], row["runs"]) == ("svhn28", 2, 3)
    assert row["instance_accuracy"] == pytest.approx(0.6)
    assert row["instance_accuracy_sd"] == pytest.approx(stdev([0.3, 0.9]))
    assert "| svhn28 | large | count | 2 | 0.600 ± 0.424 |" in as_markdown([row])
    assert next(csv.DictReader(io.StringIO(as_csv([row]))))["runs"] == "3"


# ---------------------------------------------------------------------- the paper's tables


def test_a_figure_has_a_mean_a_deviation_and_the_number_of_folds(cell):
    found = entry(Comparison([cell(accuracy=0.6, fold=f) for f in (0, 1)]).accuracy(), "count", "cifar10")
    assert (found.mean, found.sd, found.n) == (pytest.approx(0.6), pytest.approx(0), 2)
    assert found.measured == "0.600 ± 0.000 (n=2)"


def test_bag_accuracy_comes_first_if_no_instance_is_labelled(cell):
    cells = [cell(fold=fold) for fold in (0, 1)]
    assert Comparison(cells).bag_accuracy() == []
    assert not any(table.name == "Test bag accuracy" for table in Comparison(cells).tables())
    for one, accuracy in zip(cells, (0.7, 0.9), strict=True):
        one["test"] = {"bag_accuracy": accuracy, "consistency_rate": 0.8}
    tables = Comparison(cells).tables()
    assert [table.name for table in tables[:2]] == ["Test bag accuracy", "Table 3: consistency rate"]
    assert entry(tables[:1], "count", "cifar10").measured == "0.800 ± 0.141 (n=2)"
    others = [cell("vote", fold=fold) | {"test": {"bag_accuracy": 0.6}} for fold in (0, 1)]
    (differences,) = Comparison([*cells, *others], "vote").differences()
    assert differences.name == "Bag accuracy minus that of vote"
    assert entry([differences], "count", "cifar10").mean == pytest.approx(0.2)


def test_the_temperatures_are_two_by_two(cell):
    methods = {"count": 0.1, "soft-count": 0.2, "count-only": 0.3, "log-mean": 0.4, "vote": 0.9}
    (table,) = Comparison([cell(name, a, source="digits") for name, a in methods.items()]).temperatures()
    assert table.columns == ("T2 = 0.1", "no T2")
    means = {head: [figure.mean for figure in figures] for head, figures in table.rows}
    assert means == {("digits", "0.1"): [0.1, 0.3], ("digits", "1"): [0.2, 0.4]}


def test_differences_are_to_count_and_to_log_mean(cell):
    cells = [cell("vote", 0.5 + fold / 10, fold=fold) for fold in (0, 1)] + [cell("log-mean", 0.4)]
    (table,) = Comparison(cells).differences()
    assert table.name == "Instance accuracy minus that of log-mean"
    assert entry([table], "vote", "cifar10").measured == "+0.100 (n=1)"
    both = Comparison([*cells, *(cell("count", 0.3, fold=fold) for fold in (0, 1))]).differences()
    gap = dict(both[0].rows)[("vote",)][0]
    assert (gap.n, gap.mean) == (2, pytest.approx(0.25))
    assert gap.low < 0.25 < gap.high
    assert "[" in gap.measured


def test_settings_and_scenarios_never_share_a_table(cell):
    cells = [cell(), cell(epochs=150), cell(scenario="small"), cell(scenario="0.2,0.5")]
    assert [(table.scenario, table.setting.changed) for table in Comparison(cells).accuracy()] == [
        ("small", ""), ("large", ""), ("0.2,0.5", ""), ("large", "150 of 1,500 epochs"),
    ]  # fmt: skip


def test_runs_of_several_seeds_are_counted():
    assert Figure("s", "m", 0.5, None, 1, 3).measured == "0.500 (n=1, 3 runs)"


# ---------------------------------------------------------------------- files


def test_files_hold_every_figure(cell):
    sources = ("cifar10", "oct_kermany_7801")
    cells = [cell(m, 0.5, source=s, fold=f, epochs=150) for m in ("count", "vote") for s in sources for f in (0, 2)]
    comparison = Comparison(cells)
    tables = comparison.tables()
    rows = list(csv.DictReader(io.StringIO(long_csv(tables))))
    head = "table,source,scenario,method,recipe,changed,n,mean,sd,low,high,p,p_holm"
    assert ",".join(rows[0]) == head
    assert len(rows) == sum(len(table.figures) for table in tables)
    assert {row["changed"] for row in rows} == {"150 of 1,500 epochs"}
    page = markdown(tables, [], ["a note"])
    assert page.count("## ") == len(tables)
    assert "- a note" in page
    for table in page.split("## ")[1:]:
        assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) == 1


def test_latex_is_whole_plain_and_escaped(cell):
    text = latex(Comparison([cell(source="oct_kermany_7801", fold=f) for f in (0, 1)]).tables(), [], ["50 % & more"])
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"oct\_kermany\_7801" in body
    assert "oct_kermany" not in body.replace(r"\_", "")
    assert r"$\pm$" in body
    assert body.isascii()
    for name in ("table", "tabular"):
        assert body.count(rf"\begin{{{name}}}") == body.count(rf"\end{{{name}}}") > 0
    for tabular in body.split(r"\begin{tabular}{")[1:]:
        width = tabular.index("}")
        lines = [line for line in tabular.splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") + 1 for line in lines} == {width}


def test_fold_ranges():
    assert [fold_ranges(folds) for folds in ([0, 1, 2, 3, 4], [0, 2], [3], [0, 1, 3])] == ["0-4", "0;2", "3", "0-1;3"]


# ---------------------------------------------------------------------- reading


def test_results_jsonl_comes_before_other_files(tmp_path, cell):
    (tmp_path / "part.jsonl").write_text(json.dumps(cell()) + "\n")
    (tmp_path / "more.jsonl").write_text(json.dumps(cell("vote")) + "\n")
    assert {result["method"] for result in read_results(tmp_path)} == {"count", "vote"}
    (tmp_path / "results.jsonl").write_text(json.dumps(cell("naive")) + "\n")
    assert [result["method"] for result in read_results(tmp_path)] == ["naive"]
    assert [result["method"] for result in read_results(tmp_path / "more.jsonl")] == ["vote"]


@pytest.mark.parametrize(
    ("line", "message"), [('{"source": "x"}', "line 1 .*method is missing"), ("{", "x.jsonl.* JSON lines")]
)
def test_lines_that_are_not_results_are_refused(tmp_path, line, message):
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        read_results(tmp_path)


def test_results_with_different_options_or_stages_are_not_averaged(cell):
    plain, counts = cell(), cell() | {"method_options": {"of": "counts"}}
    assert setting_of(plain) != setting_of(counts)
    assert setting_of(counts).changed == "of counts"

    def census(on_gpu=True, instances=25_600, **settings):
        task = TaskInfo("cifar10", on_gpu=on_gpu, instances=instances)
        plan = RECIPES["census"].plan_for(task).with_settings(settings).as_dict()
        return setting_of(cell() | {"recipe": "census", "plan": plan, "task": task._asdict()})

    assert census().changed == ""
    pretrain, head = census(**{"census.pretrain.learning_rate": 0.001}), census(**{"census.head.learning_rate": 0.001})
    assert pretrain != head
    assert pretrain.changed == "census.pretrain.learning_rate 0.001"
    assert census(**{"census.pretrain.seed": 3}).changed == ""
    assert census(on_gpu=False).changed == "on a CPU"
    assert census(on_gpu=False) == census(on_gpu=False, instances=9_000), "folds of different size are averaged"


def of_a_run(result):
    """As result.json: figures with the number of bags and instances that they are about."""
    return result | {part: result[part] | {"bags": 4, "instances": 20} for part in ("test", "val")}


def test_a_long_curve_is_thinned_out_and_keeps_its_ends(cell, tmp_path):
    write_json(tmp_path / "result.json", of_a_run(cell()))
    write_lines(tmp_path / "metrics.jsonl", [{"epoch": i} | dict.fromkeys(CURVE_NAMES, i / 150) for i in range(150)])
    (result,) = read_results(tmp_path)
    assert result["curve"]["epoch"] == [*range(0, 150, 2), 149]
    assert result["curve"]["val_loss"][-1] == pytest.approx(149 / 150, abs=1e-5)


def test_cells_whose_run_was_removed_are_removed(cell, tmp_path):
    for fold in (0, 3):
        (tmp_path / f"fold{fold}").mkdir()
        write_json(tmp_path / f"fold{fold}/result.json", of_a_run(cell(fold=fold)))
    assert len(read_results(save_results(tmp_path))) == 2
    (tmp_path / "fold3/result.json").unlink()
    assert [result["cell"] for result in read_results(save_results(tmp_path))] == ["fold0"]


def test_the_command_of_a_study_repeats_its_options(tmp_path):
    options = {"recipe": "census", "settings": {"census.momentum": 0.9}, "bags": 5, "with_replacement": True}
    request = {"sources": ["digits"], "scenarios": ["small"], "methods": ["count"], "folds": [0, 1], "options": options}
    write_json(tmp_path / "study.json", request)
    words = study_command(tmp_path).split()
    assert words[words.index("--set") + 1] == "census.momentum=0.9"
    assert words[words.index("--bags") + 1] == "5"
    assert "--with-replacement" in words


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
