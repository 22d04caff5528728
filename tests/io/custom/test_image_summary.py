"""Images that are resized: the summary, and warnings about images unlike the others or unlike those of a run."""

import pytest
from PIL import Image

from majority.io.custom import images as images_module

QUICK = ("--recipe", "quick", "--epochs", 1, "--device", "cpu")


def save(table, folder):
    table.to_csv(folder / "bags.csv", index=False)
    return folder / "bags.csv"


def test_large_images_are_resized(tmp_path, majority, make, says):
    place = save(make.images(tmp_path, bags=20, pixels=(260, 300)), tmp_path)
    for _ in range(2):  # the second time from the cache
        code, out, _ = majority("check", place)
        assert code == 0
        assert says(out, "60 images of 64x64x3, resized from 260x300 ")
        assert says(out, "warning: ", "resized to 64x64 from 260x300", "--image-size")
    _, out, _ = majority("train", place, *QUICK, "--out", tmp_path / "run")
    assert says(out, "warning: ", "resized to 64x64 from 260x300", "--image-size")
    _, out, _ = majority("check", place, "--image-size", 16)
    assert "60 images of 16x16x3, resized from 260x300 " in out
    assert "0 problems, 0 warnings" in out


def test_images_of_one_size_are_not_warned_of(tmp_path, majority, make):
    _, out, _ = majority("check", save(make.images(tmp_path, bags=20, grey=True), tmp_path))
    assert "60 images of 8x8x1 " in out
    assert "0 problems, 0 warnings" in out


def test_a_few_odd_images_are_listed(tmp_path, majority, make, says):
    place = save(make.images(tmp_path, bags=20), tmp_path)
    Image.new("RGB", (30, 40)).save(tmp_path / "images/3-1.png")
    Image.new("L", (8, 8)).save(tmp_path / "images/4-0.png")
    code, out, _ = majority("check", place)
    assert code == 0
    assert "60 images of 64x64x3, resized from 8 to 40 high and 8 to 30 wide, some grey " in out
    facts = ("warning: 59 of 60 images are 8x8", "images/3-1.png is 40x30")
    assert says(out, *facts, "become 64x64", "--image-size")
    assert says(out, "warning: 59 of 60 images are colour", "images/4-0.png is grey", "become colour")
    assert "0 problems, 2 warnings" in out
    _, out, _ = majority("check", place, "--image-size", 8)
    assert says(out, *facts, "become 8x8")
    assert "--image-size" not in out
    for i in range(5):
        Image.new("RGB", (9, 9)).save(tmp_path / f"images/{i}-2.png")
    _, out, _ = majority("check", place)
    assert says(out, "images/0-2.png is 9x9, images/1-2.png is 9x9, images/2-2.png is 9x9 and 3 more")


def test_height_and_width_are_separate_ranges_if_both_vary(tmp_path, majority, make, says):
    table = make.images(tmp_path, bags=20)
    for i, name in enumerate(table["path"]):
        Image.new("RGB", [(28, 28), (20, 30), (40, 20)][i % 3]).save(tmp_path / name)
    _, out, _ = majority("check", save(table, tmp_path))
    assert "60 images of 64x64x3, resized from 20 to 30 high and 20 to 40 wide " in out
    assert says(out, "warning: ", "resized to 64x64 from 20 to 30 high and 20 to 40 wide", "--image-size")


def test_many_sizes_are_a_range(tmp_path, majority, make):
    table = make.images(tmp_path, bags=20)
    for i, name in enumerate(table["path"]):
        Image.new("RGB" if i % 2 else "L", (20 + i % 9, 20)).save(tmp_path / name)
    _, out, _ = majority("check", save(table, tmp_path))
    assert "60 images of 64x64x3, resized from 20x20 up to 20x28, some grey " in out
    assert "but images" not in out


@pytest.fixture
def other(tmp_path, make):
    """Write images into another folder."""

    def write(**kind):
        folder = tmp_path / "other"
        folder.mkdir(exist_ok=True)
        return save(make.images(folder, **kind), folder)

    return write


def test_images_unlike_those_of_the_run_are_warned_of(tmp_path, majority, make, other, says):
    place, run = save(make.images(tmp_path, bags=20, grey=True), tmp_path), tmp_path / "run"
    majority("train", place, *QUICK, "--out", run)
    facts = ("warning: 36 of 36 images", "trained on (8x8, grey)", "become 8x8x1")
    for kind, example in [({"pixels": (28, 28)}, "28x28, colour"), ({"pixels": (9, 8), "grey": True}, "9x8, grey")]:
        new = other(**kind)
        for words in (["evaluate", run, new], ["predict", run, new, "--out", tmp_path / "p.csv"]):
            code, out, _ = majority(*words)
            assert code == 0
            assert says(out, *facts, f"images/0-0.png ({example})")
    _, out, _ = majority("evaluate", run, other(grey=True))
    assert "not like" not in out


def test_a_run_knows_the_original_size_of_its_images(tmp_path, majority, make, other):
    place, run = save(make.images(tmp_path, bags=20, pixels=(30, 40)), tmp_path), tmp_path / "run"
    majority("train", place, *QUICK, "--image-size", 8, "--out", run)
    assert "not like" not in majority("evaluate", run, other(pixels=(30, 40)))[1]
    assert "(30x40, colour), e.g. images/0-0.png (8x8, colour)" in majority("evaluate", run, other(pixels=(8, 8)))[1]
    code, out, _ = majority("train", place, *QUICK, "--image-size", 8, "--out", run)
    assert code == 0
    assert "is finished" in out


def test_images_unlike_those_of_a_benchmark_set(tmp_path, majority, other, says):
    majority("train", "digits", *QUICK, "--bags", 40, "--out", tmp_path / "run")
    _, out, _ = majority("predict", tmp_path / "run", other(), "--out", tmp_path / "p.csv")
    assert says(out, "warning: 36 of 36 images", "trained on (8x8, grey)")


def test_no_file_is_opened_again_to_know_its_size(tmp_path, majority, make, monkeypatch):
    place = save(make.images(tmp_path, bags=20, pixels=(20, 30)), tmp_path)
    majority("check", place, "--image-size", 8)
    for name in ("_read_header", "decode"):
        monkeypatch.setattr(images_module, name, lambda *_: pytest.fail("a file was opened again"))
    assert "resized from 20x30" in majority("check", place, "--image-size", 8)[1]
