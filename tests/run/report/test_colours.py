"""The colours of classes."""

import numpy as np

from majority.run.report.colours import PALETTE

DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]


def test_colours_differ_to_normal_and_colour_blind_eyes():
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in PALETTE])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    for sight in (np.eye(3), np.array(DEUTERANOPIA), np.array(PROTANOPIA)):
        seen = np.clip(linear @ sight.T, 0, 1) ** (1 / 2.2)
        distances = np.linalg.norm(seen[:, None] - seen[None], axis=2) + np.eye(len(PALETTE)) * 9
        assert distances.min() > 0.1
        assert distances[:8, :8].min() > 0.19
    assert len(set(PALETTE)) >= 20
