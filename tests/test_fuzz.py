"""A short seeded run of the fuzzer; `python tests/nightly/fuzz.py --minutes 60` runs it for longer."""

import sys
from pathlib import Path


def test_changed_files_end_in_a_result_or_a_message(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).with_name("nightly")))
    import fuzz

    seeds = tmp_path / "seeds"
    seeds.mkdir()
    targets = fuzz.write_seeds(seeds)
    counts = fuzz.fuzz(targets, seeds, 0, lambda number: number < len(targets))
    for name in [name for name in sys.modules if name.split(".")[0] in ("fuzz", "fuzzing")]:
        sys.modules.pop(name)
    assert counts.failures == {}
    assert len(counts.inputs) == len(targets)
    assert counts.endings["a message"] > len(targets) / 3
