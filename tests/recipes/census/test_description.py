"""What census says about its result on the report page."""

import pytest

from majority import InputError
from majority.recipes import describe_result

RESULT = {
    "recipe": "census",
    "wrong_labels": {"share": 0.1, "bags": 60, "corrections": {"3": ""}},
    "background": {
        "share": 0.25,
        "prior": 0.2,
        "tried": [{"share": 0.25, "bag_accuracy": 0.8}],
        "validation_bags": 15,
        "warning": "the bags do not determine the background share",
    },
    "views": {"chosen": [], "tried": [{"views": [], "val_loss": 1.8}], "validation_bags": 15},
    "losses": {
        "weights": {"vote": 0.4, "soft-count": 0.6},
        "validation_bags": 15,
        "class_offsets": {"oak": 0.25, "pine": -0.5},
    },
    "validation_instances": 6400,
}


def test_every_choice_of_the_bags_is_one_line_in_a_fixed_order():
    lines = describe_result(RESULT).lines
    assert list(lines) == [
        "bag losses",
        "class offsets",
        "views",
        "background share",
        "validation bags",
        "wrong labels",
    ]
    assert lines["bag losses"] == (
        "soft-count 0.60, vote 0.40 (weights by how well instance predictions explain the labels of 15 validation "
        "bags, and by how evenly labels are distributed)"
    )
    assert lines["class offsets"].startswith("pine -0.50, oak +0.25")
    assert "crops 1.800" in lines["views"]
    assert "10 % of 60" in lines["wrong labels"]
    assert "6,400 instances" in lines["validation bags"]
    assert lines["background share"].startswith("0.25, estimated")


def test_a_share_that_the_bags_do_not_determine_is_a_warning():
    assert describe_result(RESULT).warnings == ("the bags do not determine the background share",)


def test_a_run_in_which_the_bags_chose_nothing_has_no_lines():
    described = describe_result({"recipe": "census"})
    assert (described.lines, described.warnings) == ({}, ())


@pytest.mark.parametrize(
    ("entry", "value", "found"),
    [
        ("losses", {"weights": {"vote": 1.0}}, r"losses\.validation_bags is missing"),
        ("views", {"chosen": [], "validation_bags": 5}, r"views\.tried is missing"),
        ("background", {}, r"background\.\w+ is missing"),
    ],
)
def test_an_incomplete_entry_is_one_message(entry, value, found):
    with pytest.raises(InputError, match=rf"result\.json is damaged \({found}\): replace it with a complete copy"):
        describe_result(RESULT | {entry: value})
