"""RunConfig: one description of a run behind every door, and what is derived from it."""

import json
import shlex
import tomllib

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import majority
from majority.errors import InputError
from majority.run.config import OPTIONS, RunConfig

NAMES = st.text("abcé, '_", min_size=1, max_size=8).map(str.strip).filter(bool)
SETTINGS = st.dictionaries(
    st.sampled_from(["training.weight_decay", "training.optimizer", "assumed_wrong", "training.momentum"]),
    st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.floats(0, 1), st.sampled_from(["muon", "a=b"])),
    max_size=3,
)
COMMON = {
    "method": NAMES,
    "recipe": NAMES,
    "seed": st.integers(0, 2**32 - 1),
    "data_seed": st.integers(0, 2**32 - 1),
    "fold": st.integers(0, 4),
    "epochs": st.integers(1, 99),
    "learning_rate": st.floats(1e-9, 1),
    "background": NAMES,
    "settings": SETTINGS,
    "method_options": st.dictionaries(st.sampled_from(["of", "x"]), st.sampled_from(["counts", 0.5, None]), max_size=2),
}
OWN = {"bag_column": NAMES, "image_size": st.integers(1, 1024), "refit": st.booleans(), "labels": NAMES}
OWN["features"] = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
BENCHMARK = {
    "bags": st.integers(4, 10**6),
    "bag_size": st.integers(1, 10**6),
    "ties": st.sampled_from(["lowest", "resample", "error"]),
    "with_replacement": st.booleans(),
    "winner_ratio": st.floats(0.1, 100),
    "labels": st.sampled_from(["winner", "top2"]),
}
CONFIGS = st.one_of(
    st.fixed_dictionaries({"source": st.just("bags of mine.csv")}, optional=COMMON | OWN),
    st.fixed_dictionaries({"source": st.just("digits")}, optional=COMMON | BENCHMARK),
)


@pytest.fixture(scope="module")
def described(majority):
    """What `majority config` prints for the words of a command."""

    def run(*words):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("majority.run.plan.check_config", lambda config: None)  # the names are made up
            code, printed, error = majority("config", *words)
        assert code == 0, error
        return printed

    return run


@pytest.fixture(scope="module")
def schema(described):
    return json.loads(described("--schema"))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONFIGS)
def test_every_form_of_a_run_describes_the_same_run(described, schema, tmp_path_factory, options):
    config = RunConfig.from_options(**options)
    assert RunConfig.from_options(**config.options()) == config
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    words = shlex.split(config.as_command())
    assert words[:2] == ["majority", "train"]
    text = described(*words[2:])
    file = tmp_path_factory.mktemp("config") / "run.toml"
    file.write_text(text)
    assert described("--config", file) == text
    jsonschema.validate(tomllib.loads(text), schema)


WRONG = [
    ({"seed": -1}, ["seed is ", "-1", "from 0"]),
    ({"seed": 2**32}, ["seed is ", "4294967296", "to 4,294,967,295"]),
    ({"scenario": ""}, ["scenario is ''"]),
    ({"method": "countt"}, ["no method 'countt'", "mean count?", "use one of auto, count"]),
    ({"epochs": "many"}, ["epochs is 'many'", "whole number"]),
    ({"bagsize": 3}, ["no option bagsize", "bag_size"]),
    ({"ties": "lowset"}, ["ties is 'lowset'", "lowest or resample or error"]),
    ({"folds": 5}, ["folds is not for labelled sets", "digits"]),
    ({"bag_column": "x"}, ["bag_column is not for labelled sets", "digits"]),
    ({"background_share": 0.3}, ["background_share", "name the background"]),
]


@pytest.mark.parametrize(("options", "facts"), WRONG)
def test_a_wrong_value_is_one_message_behind_every_door(majority, tmp_path, options, facts):
    file, out = tmp_path / "run.toml", tmp_path / "run"
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items()))
    with pytest.raises(InputError) as in_python:
        majority_train("digits", **options, out=out)
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    doors = [str(in_python.value), majority("train", "digits", "--config", file, "--out", out)[2]]
    if "bagsize" not in options:  # the parser of the command finds the nearest option itself
        doors += [majority(command, "digits", *words, "--out", out)[2] for command in ("train", "config")]
    for message in doors:
        assert all(fact in message for fact in facts), message
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


majority_train = majority.train


def test_a_printed_file_is_the_same_run_and_the_command_wins(majority, succeeds, tmp_path):
    """With folds, all of them; a setting in the file gives way to its short name in the command."""
    table, file = tmp_path / "bags😀.csv", tmp_path / "run.toml"
    rows = [f"{bag},{'ab'[bag % 2]},{bag % 2 + i}.5" for bag in range(30) for i in range(3)]
    table.write_text("\n".join(["bag,bag_label,one", *rows]))
    quick = ["--recipe", "quick", "--method", "adjusted-mean", "--epochs", 1, "--device", "cpu"]
    code, printed, _ = majority("config", table, *quick, "--folds", 3)
    file.write_text(printed)
    assert (code, tomllib.loads(printed)["source"], tomllib.loads(printed)["epochs"]) == (0, str(table), 1)
    assert "\n# learning_rate: " in printed, "what can be set is shown"
    succeeds("train", "--config", file, "--epochs", 2, "--out", tmp_path / "runs")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["fold0", "fold1", "fold2"]
    assert json.loads((tmp_path / "runs/fold1/result.json").read_text())["epochs"] == 2


def test_all_errors_of_a_file_are_reported_at_once(refused, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('seed = -1\nbags = 2\nties = "no"\nbackground_share = 2\nlike = 3\n')
    error = refused("train", "digits", "--config", file, "--out", tmp_path / "run")
    assert [line.split()[0] for line in sorted(error.removeprefix("majority: ").splitlines())] == [
        "background_share", "bags", "like", "seed", "ties",
    ]  # fmt: skip


def test_a_damaged_config_json_names_the_field(refused, tmp_path):
    options = {"recipe": "quick", "method": "adjusted-mean", "epochs": 1, "bags": 8, "bag_size": 4, "verbose": False}
    majority_train("digits", **options, out=tmp_path / "run")
    config = tmp_path / "run/config.json"
    whole = json.loads(config.read_text())
    for change, fact in (({"fold": 9}, "fold is 9: give"), ({"folt": 1}, "folt: did you mean fold?")):
        damaged = whole | {"run": whole["run"] | {"bags": whole["run"]["bags"] | change}}
        config.write_text(json.dumps(damaged))
        error = refused("evaluate", tmp_path / "run")
        assert "config.json is damaged" in error
        assert fact in error


def test_help_fits_80_columns_and_shows_every_option_on_request(majority, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("train", "study"):
        short, whole = majority(command, "--help")[1], majority(command, "--help", "all")[1]
        assert max(map(len, whole.splitlines())) <= 80
        assert "…" not in whole
        assert short.count(" --") < 20 < whole.count("│ --")
    assert all(f"--{option.in_command}" in majority("train", "--help", "all")[1] for option in OPTIONS.values())
