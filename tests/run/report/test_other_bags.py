"""The report of a run about bags of another source: a separate page, which names that source."""

import numpy as np


def test_a_run_is_reported_on_bags_of_another_source(majority, tmp_path):
    rng = np.random.default_rng(0)

    def table(name, bags, *columns):
        rows = [(bag, "ab"[bag % 2], f"{rng.normal(4 * (bag % 2)):.3f}") for bag in range(bags) for _ in range(4)]
        known = [["ab"[row % 8 // 4], ""][row % 2] for row in range(len(rows))]
        cells = {"bag": 0, "bag_label": 1, "f0": 2}
        lines = [",".join([*(str(row[cells[c]]) for c in columns if c in cells), *([label] * ("label" in columns))])
                 for row, label in zip(rows, known, strict=True)]  # fmt: skip
        (tmp_path / name).write_text("\n".join([",".join(columns), *lines]) + "\n")
        return tmp_path / name

    run, training = tmp_path / "run", table("slides.csv", 40, "bag", "bag_label", "f0")
    assert (
        majority("train", training, "--recipe", "quick", "--method=adjusted-mean", "--epochs", "2", "--out", run)[0]
        == 0
    )
    before = (run / "report.html").read_bytes()
    other = table("other.csv", 10, "bag", "bag_label", "f0", "label")
    code, out, _ = majority("report", run, other)
    assert code == 0
    assert out.strip() == str(run / "report-other.html")
    page = (run / "report-other.html").read_text()
    name = f"{tmp_path.name}/other.csv"
    assert f"on the {name} bags" in page
    assert f"<td>{name} (this page)</td>" in page
    assert str(other) not in page
    assert f"slides.csv · adjusted-mean · {name}" in page
    assert "Instance figures are over the 20 of 40 instances with a known class" in page
    assert (run / "report.html").read_bytes() == before


def test_other_bags_have_the_background_of_the_run(succeeds, tmp_path):
    rng, lines = np.random.default_rng(0), ["bag,bag_label,f0,label"]
    for bag in range(30):
        label = "ab"[bag % 2]
        lines += [f"{bag},{label},{rng.normal(4 * (bag % 2)):.3f},{label}" for _ in range(3)]
        lines += [f"{bag},{label},{rng.normal(20):.3f},void" for _ in range(3)]
    for name in ("mine.csv", "other.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    words = ["--method", "log-mean", "--background", "void", "--recipe", "quick", "--epochs", "2"]
    succeeds("train", tmp_path / "mine.csv", *words, "--out", tmp_path / "run")
    out = succeeds("report", tmp_path / "run", tmp_path / "mine.csv")
    assert "note: the run was trained on this source" in out
    caution = "the run was trained on bags of this source"
    page = (tmp_path / "run/report-mine.html").read_text()
    assert caution in page
    assert f"<td>{tmp_path.name}/mine.csv (this page)</td>" in page
    succeeds("report", tmp_path / "run", tmp_path / "other.csv")
    page = (tmp_path / "run/report-other.html").read_text()
    assert caution not in page
    assert "void is the background" in page
    assert '<td class="n">100.0 %</td>' in page, "all instances that vote have the class of the label"
