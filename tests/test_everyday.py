"""Small things that new users ran into."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import torch

from majority import InputError
from majority.data.segments import Segments
from majority.nn.methods import create_head
from majority.recipes import RECIPES

DOCS = Path(__file__).parents[1] / "docs"
TRAIN = ("--recipe", "quick", "--epochs", 1, "--device", "cpu")


def test_mpem_takes_count_if_no_method_is_named(majority, tmp_path):
    assert RECIPES["mpem"].resolve_method("auto") == "count"
    small = (
        "--backbone",
        "mlp",
        "--set",
        "mpem.ratios=[0.5]",
        "--epochs",
        1,
        "--bags",
        8,
        "--bag-size",
        4,
        "--device",
        "cpu",
    )
    words = ("--recipe", "mpem", *small)
    code, _, err = majority("train", "digits", *words, "--out", tmp_path / "run")
    assert code == 0, err
    assert json.loads((tmp_path / "run/result.json").read_text())["method"] == "count"


@pytest.mark.parametrize("p", [1, 2.5, 4, 20])
def test_the_p_of_a_norm_is_an_option(p):
    torch.manual_seed(0)
    features = torch.rand(7, 3, dtype=torch.float64)
    head = create_head("feature-pnorm", 3, 2, p=p).double()
    pooled = torch.stack([torch.linalg.vector_norm(piece, ord=p, dim=0) for piece in features.split([3, 4])])
    expected = head.classifier(pooled).log_softmax(dim=1)
    torch.testing.assert_close(head(features, Segments([3, 4])).bag_log_probs, expected)
    lse = create_head("feature-lse", 3, 2, p=p).double()
    pooled = torch.stack([(p * piece).exp().sum(dim=0).log() for piece in features.split([3, 4])])
    expected = lse.classifier(pooled).log_softmax(dim=1)
    torch.testing.assert_close(lse(features, Segments([3, 4])).bag_log_probs, expected)


@pytest.mark.parametrize(("method", "p"), [("feature-pnorm", 0.5), ("feature-pnorm", 1e6), ("feature-mean", 4)])
def test_a_wrong_p_is_refused(method, p):
    with pytest.raises(InputError, match="p="):
        create_head(method, 3, 2, p=p)


def test_the_page_of_another_source_shows_the_bags_of_the_training(majority, tmp_path, opened):
    rows = [(bag, "ab"[bag % 2], bag % 2 + i / 9) for bag in range(30) for i in range(3)]
    table = pd.DataFrame(rows, columns=["bag", "bag_label", "f"])
    table.to_csv(tmp_path / "own.csv", index=False)
    table.iloc[:12].to_csv(tmp_path / "new.csv", index=False)
    assert majority("train", tmp_path / "own.csv", *TRAIN, "--out", tmp_path / "run")[0] == 0
    assert majority("report", tmp_path / "run", tmp_path / "new.csv")[0] == 0
    pages = (opened(tmp_path / "run" / name) for name in ("report.html", "report-new.html"))
    cells = [page.locator("[aria-label='parts of the data'] tbody tr").all_inner_texts() for page in pages]
    assert [row.split("\t")[0] for row in cells[0]] == ["training", "validation", "test"]
    assert cells[1][:2] == cells[0][:2]
    assert cells[1][2].startswith(f"{tmp_path.name}/new.csv (this page)")


@pytest.mark.usefixtures("registries")
def test_a_backbone_and_an_augmentation_of_the_docs(majority, tmp_path, monkeypatch):
    page = (DOCS / "how-to/extend.md").read_text()
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Augmentation(" in code]
    (tmp_path / "mine.py").write_text(block)
    (command,) = re.findall(r"MAJORITY_PLUGINS=\$PWD/mine.py majority (train .*)", page)
    monkeypatch.setenv("MAJORITY_PLUGINS", str(tmp_path / "mine.py"))
    words = [word.strip("'") for word in command.split()]
    small = ("--epochs", 1, "--bags", 8, "--bag-size", 4, "--device", "cpu", "--out", tmp_path / "run")
    code, _, err = majority(*words, *small)
    assert code == 0, err
    plan = json.loads((tmp_path / "run/config.json").read_text())["plan"]
    assert (plan["backbone"], plan["training"]["augment"]) == ("wide", ["darken"])
