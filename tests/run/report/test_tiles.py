"""The images on a report page: each has the name by which it can be found on disk."""

import csv
import html
import re

import numpy as np
import pytest

BAGS = ["slide_<b>0</b>&amp;", '"</title><script>alert(1)</script>', "long" * 40, *(f"slide_{i}" for i in range(3, 16))]


@pytest.fixture(scope="module")
def trained(succeeds, tmp_path_factory):
    """A run on a manifest of images with hostile names."""
    from PIL import Image

    folder, rng = tmp_path_factory.mktemp("tiles"), np.random.default_rng(0)
    (folder / "<i>&'pictures").mkdir()
    with (folder / "bags.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["bag", "bag_label", "split", "path"])
        for number, bag in enumerate(BAGS):
            split = "test" if number < 6 else "val" if number < 9 else "train"
            for i in range(3):
                path = f"<i>&'pictures/{number}-{i}.png"
                shade = rng.integers(0, 60, (8, 8, 3)) + 190 * (number % 2)
                Image.fromarray(shade.astype("uint8")).save(folder / path)
                table.writerow([bag, "ab"[number % 2], split, path])
    words = ["--recipe", "quick", "--epochs", "2", "--out", folder / "run"]
    succeeds("train", folder / "bags.csv", *words)
    return folder


def tooltips(page, section):
    """The lines of the tooltip of each tile."""
    part = page[page.index(f'id="{section}"') :].partition("</section>")[0]
    return [html.unescape(tip).split("\n") for tip in re.findall(r'<figure[^>]* title="(.*?)"><i', part, re.DOTALL)]


@pytest.mark.parametrize("by", ["train", "report"])
def test_the_tooltip_of_a_tile_has_its_bag_and_its_path(trained, succeeds, by):
    if by == "report":
        (trained / "run/report.html").unlink()
        succeeds("report", trained / "run")
    page = (trained / "run/report.html").read_text()
    tested = [f"bag {bag}, <i>&'pictures/{number}-{i}.png" for number, bag in enumerate(BAGS[:6]) for i in range(3)]
    assert sorted(first for first, _ in tooltips(page, "mosaics")) == sorted(tested)
    gallery = tooltips(page, "gallery")
    assert gallery
    assert {first for first, _ in gallery} <= set(tested)
    assert all(re.fullmatch(r"[ab], \d+\.\d%", second) for _, second in gallery)
    assert page.count("<script>") == 1
    assert "<b>0" not in page
    assert "<i>&" not in page
    assert "9-0.png" not in page, "its bag is not a test bag"


def test_bags_of_another_manifest_have_their_own_paths(trained, succeeds):
    lines = (trained / "bags.csv").read_text().replace("/0-0.png", "/9-1.png").splitlines()
    (trained / "few.csv").write_text("\n".join(lines[:10]) + "\n")
    succeeds("report", trained / "run", trained / "few.csv")
    page = (trained / "run/report-few.html").read_text()
    shown = [first for first, _ in tooltips(page, "mosaics")]
    assert len(shown) == 9
    assert f"bag {BAGS[0]}, <i>&'pictures/9-1.png" in shown
    assert f"<td>{trained.name}/few.csv (this page)</td>" in page


def test_an_image_without_a_path_has_the_number_of_its_prediction(succeeds, tmp_path):
    words = ["--bags", "20", "--bag-size", "3", "--recipe", "quick", "--epochs", "1"]
    succeeds("train", "digits", *words, "--out", tmp_path / "run")
    succeeds("predict", tmp_path / "run", "--out", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        expected = [f"bag {row['bag']}, instance {row['instance']}" for row in csv.DictReader(file)]
    page = (tmp_path / "run/report.html").read_text()
    assert sorted(first for first, _ in tooltips(page, "mosaics")) == sorted(expected)
