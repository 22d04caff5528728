"""Results of a study, read from its run folders or from files."""

import json

import pytest

from majority.errors import InputError
from majority.files import write_json, write_lines
from majority.run.study.results import CURVE_NAMES, read_results


def write(path, *results):
    path.write_text("".join(json.dumps(result) + "\n" for result in results))


def of_a_run(result):
    """As result.json: figures with the number of bags and instances that they are about."""
    return result | {part: result[part] | {"bags": 4, "instances": 20} for part in ("test", "val")}


def test_results_jsonl_comes_before_other_files(tmp_path, cell):
    write(tmp_path / "part.jsonl", cell())
    write(tmp_path / "more.jsonl", cell("vote"))
    assert {result["method"] for result in read_results(tmp_path)} == {"count", "vote"}
    write(tmp_path / "results.jsonl", cell("naive"))
    assert [result["method"] for result in read_results(tmp_path)] == ["naive"]
    assert [result["method"] for result in read_results(tmp_path / "more.jsonl")] == ["vote"]


@pytest.mark.parametrize(
    ("line", "message"), [('{"source": "x"}', "line 1 .*method is missing"), ("{", "x.jsonl.* JSON lines")]
)
def test_lines_that_are_not_results_are_refused(tmp_path, line, message):
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        read_results(tmp_path)


def test_a_long_curve_is_thinned_out_and_keeps_its_ends(cell, tmp_path):
    write_json(tmp_path / "result.json", of_a_run(cell()))
    write_lines(tmp_path / "metrics.jsonl", [{"epoch": i} | dict.fromkeys(CURVE_NAMES, i / 150) for i in range(150)])
    (result,) = read_results(tmp_path)
    assert result["curve"]["epoch"] == [*range(0, 150, 2), 149]
    assert result["curve"]["val_loss"][-1] == pytest.approx(149 / 150, abs=1e-5)
