"""Worker processes: killed, failing and interrupted studies, and how their progress is shown."""

import json
import multiprocessing
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from studies import rows_of, undisturbed_rows

from majority.run.config import RunConfig
from majority.run.folder import run_lock
from majority.run.study import Cell, FinishedCell, live, run_cells, workers
from majority.run.study.live import show_cells
from majority.run.study.workers import State, worker_environments

BAGS = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--device", "cpu"]
OPTIONS = ["--methods", "log-mean,naive", "--scenarios", "large", "--folds", "0-1", *BAGS, "--epochs", "40"]


def cell_of(source="digits", **options):
    tiny = {"scenario": "large", "bags": 20, "bag_size": 8, "recipe": "quick"}
    return Cell(RunConfig.from_options(source, **(tiny | options)))


WAIT = 180  # seconds: the machine may be busy


COMMAND = """
import multiprocessing, os, signal, sys
os.setsid()
os.environ["OMP_NUM_THREADS"] = {threads!r}
signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored in a shell's background
sys.stdout, sys.stderr = (open(f"{folder}/{{name}}", "w", buffering=1) for name in ("stdout", "stderr"))
from majority.cli import main
from majority.run.study import workers
workers.CONTEXT = multiprocessing.get_context("fork")  # a new process imports the package for seconds
sys.argv = ["majority", *{words!r}]
main()
"""


@pytest.fixture
def start(processes, tmp_path):
    """Start the command in its own process group; it writes into tmp_path/stdout and tmp_path/stderr."""
    started = []

    def start(*words):
        threads = str(torch.get_num_threads())  # the same order of sums in all processes
        program = COMMAND.format(threads=threads, folder=tmp_path, words=[*map(str, words)])
        started.append(processes.Process(target=exec, args=(program, {})))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.join()


def wait_for(condition, seconds=WAIT):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)
    return found


def children(pid):
    return [child for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def alive(pids):
    return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in status(pid)]


def status(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return " Z "


def running(out):
    return {path.parent for path in out.rglob("metrics.jsonl") if path.stat().st_size} - finished(out)


def finished(out):
    return {path.parent for path in out.rglob("report.html")}


def test_a_killed_study_leaves_no_process_and_continues_to_the_same_tables(
    start, majority, succeeds, labelled_set, tmp_path, request
):
    out = tmp_path / "killed"
    own = labelled_set()
    study = start("study", own, *OPTIONS, "--jobs", "2", "--out", out)
    wait_for(lambda: finished(out) and running(out))
    workers = children(study.pid)
    assert len(workers) == 2
    study.kill()
    study.join()
    wait_for(lambda: not alive(workers), seconds=10)
    kept = {folder: (folder / "best.safetensors").stat().st_mtime_ns for folder in finished(out)}
    assert 0 < len(kept) < 4
    assert not (out / "tables.csv").exists()
    assert majority("report", out)[0] == 0, "about the finished cells"
    request.getfixturevalue("one_process")
    succeeds("study", own, *OPTIONS, "--jobs", "1", "--out", out)
    assert all((folder / "best.safetensors").stat().st_mtime_ns == stamp for folder, stamp in kept.items())
    assert rows_of(out) == undisturbed_rows(own, tmp_path / "whole", epochs=40)
    assert not (out / ".lock").exists()


def test_an_interrupted_study_says_how_to_continue(start, labelled_set, tmp_path):
    own, out = labelled_set(), tmp_path / "out"
    study = start("study", own, *OPTIONS, "--epochs", "2000", "--jobs", "1", "--out", out)
    wait_for(lambda: running(out))
    workers = children(study.pid)
    os.killpg(study.pid, signal.SIGINT)
    study.join(WAIT)
    assert study.exitcode == 130
    assert "repeat the same command" in (tmp_path / "stdout").read_text()
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    assert not alive(workers)


@pytest.mark.usefixtures("one_process")
def test_failed_cells_do_not_stop_the_rest_and_are_tried_again(majority, labelled_set, tmp_path):
    own = labelled_set(classes=2)  # small is an empty range for two classes
    out = tmp_path / "out"
    command = ["study", own, labelled_set("other.npz"), "--methods", "naive", "--scenarios", "small,large", *BAGS]
    command += ["--epochs", "2", "--jobs", "1", "--out", out]
    with run_lock(out / "other/large/naive/fold0"):
        code, printed, err = majority(*command)
    assert code == 1
    failed = [line for line in err.splitlines() if line.startswith("failed: ")]
    assert "own/small/naive/fold0: no bag of" in failed[0]
    assert "another command is working in" in failed[1]
    assert len(failed) == 2
    assert "failed: no bag of 8" in printed
    assert all(line.removeprefix("failed: ") in (out / "failures.txt").read_text() for line in failed)
    assert len(rows_of(out)) == len((out / "results.jsonl").read_text().splitlines()) == 2

    labelled_set()
    code, printed, err = majority(*command)
    assert (code, err) == (0, "")
    assert len([line for line in printed.splitlines() if line.startswith("[")]) == 2
    assert not (out / "failures.txt").exists()
    assert len(rows_of(out)) == 4


def test_only_one_command_works_in_a_study(majority, tmp_path):
    (tmp_path / "failures.txt").write_text("of the running command")
    with run_lock(tmp_path):
        before = {file: file.read_text() for file in tmp_path.iterdir()}
        code, printed, err = majority("study", "digits", *OPTIONS, "--out", tmp_path)
        assert (code, printed) == (2, "")
        assert f"another command is working in {tmp_path}" in err
        assert err.count("\n") == 1
        assert {file: file.read_text() for file in tmp_path.iterdir()} == before


@pytest.fixture
def forks(monkeypatch):
    """Workers are copies of this process: a new one imports the package for seconds."""
    monkeypatch.setattr(workers, "CONTEXT", multiprocessing.get_context("fork"))


def do_in_the_process(monkeypatch, tmp_path, actions):
    """What training does in place of a cell, by the name of its folder; processes are listed in a file."""
    plain = workers.train

    def train(experiment, folder, device, trackers):
        with (tmp_path / "processes").open("a") as file:
            print(os.getpid(), file=file)
        action = next((action for name, action in actions.items() if name in str(folder)), None)
        if action:
            action()
        plain(experiment, folder, device, trackers)

    monkeypatch.setattr(workers, "train", train)


def processes_of(tmp_path):
    return len(set((tmp_path / "processes").read_text().split()))


def fail():
    raise ZeroDivisionError("of this test")


def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("forks")
def test_after_an_unexpected_error_or_a_kill_the_next_cell_gets_a_fresh_process(labelled_set, tmp_path, monkeypatch):
    do_in_the_process(monkeypatch, tmp_path, {"failing": fail, "leaving": sys.exit, "killed": be_killed})
    folders = [tmp_path / name / "fold0" for name in ("refused", "failing", "leaving", "killed", "right")]
    source = labelled_set()
    experiments = [cell_of(source, classes=99), *[cell_of(source)] * 3, cell_of(source, epochs=1)]
    ended = run_cells(list(zip(folders, experiments, strict=True)), tmp_path, "cpu", jobs=1)
    assert [cell.folder for cell in ended] == folders
    assert "99 of the 3 classes" in ended[0].failure
    assert "Traceback" not in ended[0].details
    assert ended[1].failure == "ZeroDivisionError: of this test"
    assert "Traceback" in ended[1].details
    assert "Traceback" in (tmp_path / "failures.txt").read_text()
    assert ended[2].failure.startswith("SystemExit")
    assert all(fact in ended[3].failure for fact in ("killed", "memory", "--jobs"))
    assert ended[4].result["epochs"] == 1
    assert processes_of(tmp_path) == 4


def test_a_new_process_has_its_environment_and_its_own_output(labelled_set, tmp_path, monkeypatch, capfd):
    """As users get it: a process that imports the package."""
    experiment = cell_of(labelled_set(), epochs=1)
    worker = workers.ProcessWorker({"OMP_NUM_THREADS": "3"})
    assert worker.call(workers.train_cell, experiment, tmp_path / "fold0", "cpu").result["epochs"] == 1
    found = worker.pool.submit(os.getenv, "OMP_NUM_THREADS").result()
    worker.kill()
    assert found == "3"
    assert os.environ["OMP_NUM_THREADS"] != "3"
    assert capfd.readouterr() == ("", "")


def test_each_process_gets_its_threads_and_its_gpu(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert worker_environments(on_gpu=False, jobs=None, cells=100) == [{"OMP_NUM_THREADS": "1"}] * 8
    assert worker_environments(on_gpu=False, jobs=None, cells=2) == [{"OMP_NUM_THREADS": "4"}] * 2
    assert worker_environments(on_gpu=False, jobs=3, cells=100) == [{"OMP_NUM_THREADS": "2"}] * 3
    gpus = [
        environment["CUDA_VISIBLE_DEVICES"] for environment in worker_environments(on_gpu=True, jobs=None, cells=100)
    ]
    assert gpus == ["0", "1", "0", "1"]
    only_one = worker_environments(on_gpu=True, jobs=None, cells=100, gpu=1)
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in only_one] == ["1", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert worker_environments(on_gpu=True, jobs=1, cells=100) == [
        {"OMP_NUM_THREADS": "5", "CUDA_VISIBLE_DEVICES": "3"}
    ]


# ---------------------------------------------------------------------- progress


@pytest.fixture
def state(tmp_path):
    """Ten cells: one done, one failed, one at epoch 10 of 40 in its second stage, seven waiting."""
    names = [(method, fold) for method in ("count", "vote") for fold in range(5)]
    cells = {tmp_path / f"digits/large/{method}/fold{fold}": cell_of(method=method) for method, fold in names}
    state = State(cells, tmp_path)
    first, second, third, *_ = cells
    result = {"test": {"instance_accuracy": 0.5}, "epochs": 40, "seconds": 1.25}
    state.finished = {first: FinishedCell(first, result), second: FinishedCell(second, failure="no memory")}
    state.running.append(third)
    for stage, epochs in (("pretrain", 7), ("head", 3)):
        (third / "stages" / stage).mkdir(parents=True)
        (third / "stages" / stage / "metrics.jsonl").write_text("{}\n" * epochs)
    (third / "config.json").write_text(json.dumps({"planned_epochs": 40}))
    return state


def test_a_log_gets_a_line_per_ended_cell_and_now_and_then_the_running_ones(state, monkeypatch):
    logged, now = [], [1_000.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    first, second = state.finished.values()
    with show_cells(logged.append) as watch:
        for now[0] in (1_000.0, 1_059.0, 1_060.0, 1_061.0):
            watch(state, None)
        watch(state, first)
        watch(state, second)
    assert logged == [
        "2 of 10 cells were already finished",
        "running: digits/large/count/fold2 epoch 10 of 40",
        f"[2/10] {first.folder}: instance accuracy 0.500, 40 epochs, 1.2 s",
        f"[2/10] {second.folder}: failed: no memory",
    ]


def test_a_terminal_of_80_columns_gets_bars(state, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with show_cells(print) as watch:
        watch(state, None)
        watch(state, None)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "1 of 10 cells done, 1 failed" in shown
    assert "digits/large/count/fold2" in shown
    assert "epoch 10 of 40" in shown
