"""What is read back is parsed: a message names the file and the field, and nothing is changed on disk."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest

from majority.errors import InputError
from majority.parsing import Between, parse_record, read_record, read_records


@dataclass
class Point:
    x: float
    name: str = ""
    kind: Literal["a", "b"] = "a"

    def __post_init__(self):
        if self.name == "refused":
            raise InputError("this name is refused")


class Pair(NamedTuple):
    first: int
    second: bool = False


class Holder(TypedDict):
    points: list[Point]
    pair: NotRequired[Pair | None]
    size: NotRequired[Annotated[int, Between(1, 9)]]
    either: NotRequired[int | str]
    shape: NotRequired[tuple[int, int]]
    other: NotRequired[dict[str, float]]
    free: NotRequired[Any]
    few: NotRequired[Annotated[dict[str, int], Between(0, 1)]]


def test_values_become_records():
    content = {"points": [{"x": 1}], "pair": {"first": 2}, "shape": [3, 4], "either": "text", "further": [1]}
    found = parse_record(Holder, content, "file")
    assert found["points"] == [Point(1)]
    assert found["pair"] == Pair(2)
    assert found["shape"] == (3, 4)
    assert (found["either"], found["further"]) == ("text", [1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "the content is \\[\\], a group of fields"),
        (None, "the content is None"),
        ({}, "points is missing"),
        ({"points": None}, "points is None, a list"),
        ({"points": [{}]}, r"points\[0\]\.x is missing"),
        ({"points": [{"x": "1"}]}, r"points\[0\]\.x is '1', a number is needed"),
        ({"points": [{"x": True}]}, r"points\[0\]\.x is True, a number"),
        ({"points": [{"x": float("nan")}]}, r"points\[0\]\.x is nan, a number"),
        ({"points": [{"x": float("inf")}]}, "a number"),
        ({"points": [{"x": 10**140}]}, "a number"),
        ({"points": [{"x": 1, "y": 2}]}, r"points\[0\]\.y is unknown"),
        ({"points": [{"x": 1, "kind": "c"}]}, "'a' or 'b'"),
        ({"points": [{"x": 1, "name": "refused"}]}, "this name is refused"),
        ({"points": [], "pair": {"first": 1.5}}, "pair.first is 1.5, a whole number"),
        ({"points": [], "pair": {"first": 1, "second": 1}}, "pair.second is 1, true or false"),
        ({"points": [], "size": 10}, "size is 10, a number from 1 to 9"),
        ({"points": [], "either": []}, "either is"),
        ({"points": [], "shape": [1]}, "a list of 2"),
        ({"points": [], "other": {"a": "x" * 9_000}}, "other.a is 'xxx"),
        ({"points": [], "few": {"a": 1, "b": 2}}, "few is .* a group of 0 to 1"),
    ],
)
def test_a_wrong_value_is_named_with_its_file_and_field(content, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_record(Holder, content, "some.json", "write it again")
    assert "some.json" in str(caught.value)
    assert "write it again" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged"),
        (b'{"x": 1', "is damaged"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"\x00" * 100, "is damaged"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"x":' * 900 + b"1" + b"}" * 900, "nested too deeply"),
        (b"1" * 10_000, "is damaged"),
        (b"[1]", "a list in the place of named fields"),
        (b"null", "a NoneType"),
    ],
)
def test_a_file_that_is_no_record_is_named(tmp_path, content, message):
    path = tmp_path / "point.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"point\.json.*{message}"):
        read_record(Point, path)
    assert path.read_bytes() == content


def test_lines_are_named_by_number_and_only_those_that_are_needed_are_read(tmp_path):
    path = tmp_path / "points.jsonl"
    path.write_text(json.dumps({"x": 1}) + "\n" + json.dumps({"x": None}) + '\n{"x":')
    assert read_records(Point, path, limit=1) == [Point(1)]
    with pytest.raises(InputError, match=r"points\.jsonl, line 2 is damaged \(x is None"):
        read_records(Point, path)
    assert read_records(Point, tmp_path / "none.jsonl") == []


def test_a_folder_or_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_record(Point, tmp_path)
    with pytest.raises(InputError, match=r"missing\.json cannot be read"):
        read_record(Point, tmp_path / "missing.json")


class Loose(TypedDict, total=False):
    note: str


class Strict(Loose):
    size: int


def test_a_record_may_need_more_than_the_one_it_extends():
    assert parse_record(Strict, {"size": 1}, "point.json") == {"size": 1}
    with pytest.raises(InputError, match="size is missing"):
        parse_record(Strict, {"note": "a"}, "point.json")
