"""`torchrun -m majority train`: one run folder, one message, and what happens if a process is killed."""

import io
import json
import os
import runpy
import signal
import socket
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from majority.cli.app import main
from majority.training import checkpoint
from majority.training.steps import SharedSteps

SHORT = ("--recipe", "quick", "--method", "log-mean", "--epochs", "4", "--bags", "20", "--bag-size", "4")


def as_torchrun(rank, size, folder, port, killed, *words):
    """The command as torchrun starts it: exit code, standard output, standard error. The `killed` process kills itself
    at the fourth step."""
    torch.set_num_threads(1)
    checkpoint.CHECKPOINT_SECONDS = 0  # a checkpoint after every epoch
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    os.environ |= {name: str(number) for name, number in numbers.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test"}
    steps, plain = [], SharedSteps.step

    def step(self, batch):
        steps.append(batch)
        if len(steps) == 4 and rank == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        plain(self, batch)

    out, err = io.StringIO(), io.StringIO()
    words = [word.replace("RANK", str(rank)) for word in words]
    with mock.patch.object(SharedSteps, "step", step), redirect_stdout(out), redirect_stderr(err):
        sys.argv = ["majority", "train", *words, "--device", "cpu"]
        try:
            main()
        except SystemExit as stopped:
            return stopped.code or 0, out.getvalue(), err.getvalue()


@pytest.fixture
def train(in_processes, labelled_set):
    def run(*words, size=2, killed=None, source=None):
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port = listening.getsockname()[1]
        return in_processes(__file__, "as_torchrun", size, port, killed, source or labelled_set(), *map(str, words))[1]

    return run


def losses_in(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return np.array([(record["train_loss"], record["val_loss"]) for record in records])


def test_a_killed_process_ends_the_others_and_the_same_command_goes_on(train, majority, labelled_set, tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for number in (0, 1):
        (ended,) = filter(None, train(*SHORT, "--out", killed, killed=number))
        code, _, message = ended
        assert code == 1
        assert len(message.splitlines()) == 1
        assert "repeat the same command to continue" in message
    assert len(losses_in(killed)) == 2, "two steps per epoch"
    assert not (killed / "result.json").exists()

    (code, out, _), (other_code, *other) = train(*SHORT, "--out", killed)
    assert (code, other_code) == (0, 0)
    assert "was interrupted: continuing" in out
    assert other == ["", ""], "one process prints"
    assert majority("train", labelled_set(), *SHORT, "--device", "cpu", "--out", whole)[0] == 0
    assert losses_in(killed) == pytest.approx(losses_in(whole), rel=1e-5)
    results = [json.loads((folder / "result.json").read_text()) for folder in (killed, whole)]
    assert results[0]["best_epoch"] == results[1]["best_epoch"]
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (("--seed", "RANK"), ("seed", "process 0", "process 1", "same command")),
        (("--batch-bags", "1"), ("2 processes", "at most 1 of 20 training bags", "--batch-bags")),
        (("--scenario", "huge"), ("scenario 'huge' is unknown",)),
    ],
)
def test_an_error_is_one_message_and_leaves_nothing(train, tmp_path, words, facts):
    ended = train(*SHORT, *words, "--out", tmp_path / "run")
    (message,) = filter(None, (err for _, _, err in ended))
    assert all(fact in message for fact in facts)
    assert len(message.splitlines()) == 1
    assert [code for code, _, _ in ended] == [2, 2]
    assert not (tmp_path / "run").exists()


def be_python(*words):
    """`python -u -m majority ...` in this process."""
    *options, sys.argv[0] = words[:3]
    assert options == ["-u", "-m"]
    sys.argv[1:] = words[3:]
    sys.stdout.reconfigure(line_buffering=True)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def be_torchrun(rank, size, folder, *words):
    """What torchrun and its processes print. They are copies of this process: a new one takes seconds to start."""
    from torch.distributed import run

    def launch(config, entrypoint):
        assert entrypoint == sys.executable
        config.start_method = "fork"
        return plain(config, be_python)

    with Path(folder, "printed").open("w") as file:
        os.dup2(file.fileno(), 1)
    os.environ["OMP_NUM_THREADS"] = "1"
    plain = run.elastic_launch
    with mock.patch.object(run, "elastic_launch", launch):
        run.main([*words])
    return Path(folder, "printed").read_text()


def test_processes_with_other_bags_are_refused(train, labelled_set, tmp_path):
    sources = [labelled_set(f"own-{rank}.npz", classes=3 + rank) for rank in (0, 1)]
    (message,) = filter(None, (err for *_, err in train(*SHORT, source=sources[0].replace("0.npz", "RANK.npz"))))
    assert "the processes of this training differ" in message
    assert "same files" in message


def test_torchrun_trains_in_two_processes(in_processes, labelled_set, tmp_path):
    words = ("--nproc-per-node", "2", "-m", "majority", "train", labelled_set(), *SHORT, "--device", "cpu")
    _, (printed,) = in_processes(__file__, "be_torchrun", 1, *words, "--out", str(tmp_path / "run"))
    assert printed.count("run folder:") == 1
    assert (tmp_path / "run" / "report.html").exists()
