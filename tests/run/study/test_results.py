"""Results of a study, read from its run folders or from files."""

import json

import pytest

from majority.errors import InputError
from majority.run.study.results import read_results


def write(path, *results):
    path.write_text("".join(json.dumps(result) + "\n" for result in results))


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
