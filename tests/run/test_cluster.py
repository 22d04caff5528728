"""Studies and predictions on a Ray cluster of two nodes on this machine, one of which is killed; and clear errors."""

import os
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from studies import rows_of, undisturbed_rows

from majority.errors import InputError
from majority.run import cluster
from majority.run.cluster import connect

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
FEW_PROCESSES = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}  # of Ray itself
TINY = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--device", "cpu"]
NOTICED_SOON = {"RAY_health_check_period_ms": "300", "RAY_health_check_initial_delay_ms": "300"}  # that a node died
WAIT = 180  # seconds: the machine may be busy


@pytest.fixture(scope="module")
def nodes():
    """A cluster with one node; a function adds another one."""
    pytest.importorskip("ray", reason="no ray: nothing is run on a cluster")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in (cluster.DRIVER_VARIABLES | NOTICED_SOON).items():
            patch.setenv(name, value)
        patch.setenv("OMP_NUM_THREADS", "1")
        started = Cluster(initialize_head=True, head_node_args=NODE | FEW_PROCESSES)
        patch.setenv("RAY_ADDRESS", started.address)
        yield started
        started.shutdown()


@pytest.fixture(scope="module")
def connection(nodes):
    """A program may be connected: its commands use its connection and the same processes of the nodes. Tests that
    connect themselves come before those that use it."""
    with connect() as connected:
        yield connected


def tasks_of(node):
    """The processes of a node that run a task of ours."""
    (raylet,) = node.all_processes["raylet"]
    pid = raylet.process.pid
    names = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            names.append(Path(f"/proc/{child}/cmdline").read_text())
        except OSError:  # it has ended
            continue
    return [name for name in names if "_run_task" in name]


class Killer(threading.Thread):
    """Kills a node as soon as it runs a task and the condition is true."""

    def __init__(self, nodes, condition):
        super().__init__(daemon=True)
        self.nodes, self.node, self.condition, self.killed_tasks = nodes, nodes.add_node(**NODE), condition, []
        self.start()

    def run(self):
        end = time.monotonic() + WAIT
        try:
            while time.monotonic() < end:
                if self.condition() and (tasks := tasks_of(self.node)):
                    self.killed_tasks = tasks
                    return
                time.sleep(0.005)
        finally:
            self.nodes.remove_node(self.node, allow_graceful=False)


def running(out):
    """The number of cells in training; os.walk, because folders come and go meanwhile."""
    return sum("metrics.jsonl" in files and "result.json" not in files for _, _, files in os.walk(out))


def test_no_cluster_at_the_address(monkeypatch):
    pytest.importorskip("ray", reason="no ray: nothing is run on a cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for given, facts in {
        address: [address, "ray start --head"],
        "ray://10.0.0.1:10001": ["RAY_ADDRESS", "ray start --head"],
    }.items():
        monkeypatch.setenv("RAY_ADDRESS", given)
        with pytest.raises(InputError) as error, connect():
            pass
        assert all(fact in str(error.value) for fact in facts)


def test_a_study_ends_with_the_same_table_although_a_node_is_killed(
    nodes, majority, labelled_set, tmp_path, monkeypatch
):
    labelled_set(classes=2)  # small is an empty range for two classes: these cells fail
    monkeypatch.chdir(tmp_path)
    options = ["--methods", "log-mean,naive", "--scenarios", "small,large", "--folds", "0-1", *TINY, "--epochs", "60"]
    out = Path("out")
    killer = Killer(nodes, lambda: running(out) == 2)
    code, printed, err = majority("study", "own.npz", *options, "--on", "ray", "--out", out)
    killer.join()
    assert killer.killed_tasks
    assert code == 1, err
    assert "[8/8]" in printed
    assert "4 of 8 cells failed" in err
    assert err.count("in small (0.5 to 0.4) with 2 classes") == 4
    assert (out / "failures.txt").read_text().count("out/own/small/") == 4
    assert not [path for path in out.rglob(".*") if path.is_file()], "no probe, lock or draft is left"
    assert rows_of(out) == undisturbed_rows("own.npz", tmp_path / "whole", epochs=60)


@pytest.mark.nightly  # it takes as long as hundreds of others
@pytest.mark.usefixtures("connection")
def test_predictions_are_the_same_although_a_node_is_killed(nodes, majority, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(2_000, 3)), columns=["a", "b", "c"])
    table.insert(0, "bag", rng.permutation(np.repeat([f"field {i}" for i in range(40)], 50)))  # in many blocks each
    labels = dict(zip(table["bag"].unique(), ["cat", "dog"] * 20, strict=True))
    table.assign(bag_label=table["bag"].map(labels)).to_csv(tmp_path / "train.csv", index=False)
    run, source = tmp_path / "run", tmp_path / "new"
    options = ["--recipe", "quick", "--method", "log-mean", "--epochs", "1", "--device", "cpu"]
    assert majority("train", tmp_path / "train.csv", *options, "--out", run)[0] == 0
    source.mkdir()
    for i in range(4):
        table[i * 500 : (i + 1) * 500].to_parquet(source / f"part-{i}.parquet", row_group_size=40)
    command = ["predict", run, source, "--device", "cpu"]
    parts = ["--block-rows", "40", "--on", "ray"]
    assert majority(*command, "--out", tmp_path / "whole.parquet")[0] == 0
    out, stamps = tmp_path / "parts", {}

    def some_are_done():
        for path in out.glob("part-*.parquet"):
            stamps.setdefault(path, path.stat().st_mtime_ns)
        return len(stamps) > 5

    killer = Killer(nodes, some_are_done)
    code, printed, err = majority(*command, *parts, "--out", out)
    assert code == 0, err
    killer.join()
    assert killer.killed_tasks
    assert "52 of 52 blocks done" in printed
    whole, joined = (pd.read_parquet(path).sort_values("instance") for path in (tmp_path / "whole.parquet", out))
    pd.testing.assert_frame_equal(whole.reset_index(drop=True), joined.reset_index(drop=True), rtol=1e-5)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps, "finished parts are not done again"
    assert not [*out.glob(".*")]

    code, _, err = majority(*command, "--bags", "--block-rows", "400", "--on", "ray", "--out", tmp_path / "bags")
    assert code == 0, err
    assert majority(*command, "--bags", "--out", tmp_path / "bags.parquet")[0] == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "bags.parquet"), pd.read_parquet(tmp_path / "bags"))


def test_nodes_with_other_versions_or_without_the_files_are_refused(connection, majority, labelled_set, tmp_path):
    connection.check_nodes([tmp_path])
    with pytest.raises(InputError, match=r"absent: node .* cannot see it.*share"):
        connection.check_nodes([tmp_path, tmp_path / "absent"])
    for device, fact in (("cuda", "no node"), ("cuda:1", "Ray chooses")):
        with pytest.raises(InputError, match=f"--device {device}: .*{fact}"), connect(device):
            pass
    own = labelled_set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "__version__", "9.9")
        code, _, err = majority("study", own, "--methods", "naive", *TINY, "--on", "ray", "--out", tmp_path / "out")
    assert code == 2
    assert "this command has" in err
    assert "has 9.9" in err
    assert err.count("\n") == 1
    assert not [*(tmp_path / "out").rglob("config.json")]


def test_without_ray_the_message_says_how_to_install_it(refused, labelled_set, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["study", labelled_set(), "--methods", "naive", *TINY, "--on", "ray", "--out", tmp_path / "out"]
    err = refused(*command)
    assert "pip install 'majority[ray]'" in err
    assert err.count("\n") == 1


def test_an_unknown_place_is_refused(refused, tmp_path):
    for words in (["study", "digits"], ["predict", tmp_path, tmp_path]):
        assert "--on slurm: give local or ray" in refused(*words, "--on", "slurm", "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()
