"""The golden runs once more: the same bits where they were recorded, about the same accuracy on other machines."""

import json
import runpy
from pathlib import Path

import pytest

RECORD = runpy.run_path(str(Path(__file__).with_name("record.py")))
GOLDEN = json.loads(RECORD["GOLDEN"].read_text())
SAME = ("torch", "cpu_capability")  # where the last digits are equal, too
TOLERANCE = 0.05  # elsewhere, of the accuracy
COMMAND = """
import os
import threadpoolctl, torch
from majority.cli import main
os.environ.clear()
os.environ |= {environment}
os.chdir({folder!r})
torch.set_num_threads(1)
sys.argv = ["majority", *{words}]
with threadpoolctl.threadpool_limits(1):
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code, stopped.code
"""


def test_every_run_is_recorded_with_its_command():
    assert {name: run["command"] for name, run in GOLDEN["runs"].items()} == RECORD["RUNS"]


@pytest.fixture
def run(run_program):
    """The command as a copy of a process that has imported the package, which a new one does for seconds."""

    def run(words, folder, environment):
        return 0, run_program(COMMAND.format(environment=environment, folder=str(folder), words=words))

    return run


@pytest.mark.parametrize("name", RECORD["RUNS"])
def test_a_run_gives_the_recorded_weights_and_metrics(name, run):
    expected, found = GOLDEN["runs"][name]["outcomes"], RECORD["outcomes"](name, run)
    assert found.keys() == expected.keys()
    recorded, here = GOLDEN["environment"], RECORD["environment"]()
    if all(recorded[key] == here[key] for key in SAME):
        assert found == expected, f"recorded with {recorded}, this is {here}"
        return
    for folder, each in expected.items():
        accuracy = found[folder]["test"]["instance_accuracy"]
        assert accuracy == pytest.approx(each["test"]["instance_accuracy"], abs=TOLERANCE), folder
