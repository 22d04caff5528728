"""The figures of the page about audits are those of its raw file."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_quotes_the_table():
    table = (ROOT / "results/audit/table.md").read_text()
    assert table in (ROOT / "docs/how-to/audit.md").read_text()
    for part in ("development", "other", "all"):
        found = json.loads((ROOT / "results/audit/summary.json").read_text())[part]
        for labels, least in found["least_coverage"].items():
            assert f"{least:.3f}, {found['mean_coverage'][labels]:.3f}" in table
        assert f"{found['mean_ratio_50']:.3f}, {found['greatest_ratio_50']:.3f}" in table
        assert f"{found['share_error_100']:.4f}" in table
        assert f"{found['calibration_after_50']:.4f}" in table
