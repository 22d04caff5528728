"""The examples of training loops that use our losses; Lightning is one of the nightly tests."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


def accuracy_of(capsys) -> float:
    return float(capsys.readouterr().out.split()[-1])


def test_a_plain_loop_learns_the_digits(capsys):
    runpy.run_path(str(EXAMPLES / "own_loop.py"), run_name="__main__")
    assert accuracy_of(capsys) > 0.93


def test_a_network_of_timm_is_trained(capsys, monkeypatch):
    def create_model(name, pretrained, in_chans, num_classes):
        layers = torch.nn.Conv2d(in_chans, 16, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten()
        return torch.nn.Sequential(*layers, torch.nn.LazyLinear(num_classes))

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    example = runpy.run_path(str(EXAMPLES / "timm_backbone.py"))
    example["main"](epochs=1)
    assert 0 < accuracy_of(capsys) <= 1
