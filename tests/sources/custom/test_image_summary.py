"""Images that are made alike: what became of which is said, and what is unlike a run's images is warned of."""

import json

import pytest
from PIL import Image

from majority.sources.custom import images as images_room

QUICK = ("--recipe", "quick", "--epochs", 1, "--device", "cpu")


def save(table, folder):
    table.to_csv(folder / "bags.csv", index=False)
    return folder / "bags.csv"


def test_all_too_large(tmp_path, majority, make):
    place = save(make.images(tmp_path, bags=20, pixels=(260, 300)), tmp_path)
    for _ in range(2):  # the second time from the cache
        code, out, _ = majority("check", place)
        assert code == 0
        assert "60 images of 64x64x3, resized from 260x300 " in out
        assert "warning: the images are resized to 64x64 from 260x300: choose another size with --image-size" in out
    _, out, _ = majority("train", place, *QUICK, "--out", tmp_path / "run")
    assert "warning: the images are resized to 64x64 from 260x300" in out
    _, out, _ = majority("check", place, "--image-size", 16)
    assert "60 images of 16x16x3, resized from 260x300 " in out
    assert "0 problems, 0 warnings" in out


def test_images_as_they_are_need_no_word(tmp_path, majority, make):
    _, out, _ = majority("check", save(make.images(tmp_path, bags=20, grey=True), tmp_path))
    assert "60 images of 8x8x1 " in out
    assert "0 problems, 0 warnings" in out


def test_a_few_odd_ones_are_named(tmp_path, majority, make):
    place = save(make.images(tmp_path, bags=20), tmp_path)
    Image.new("RGB", (30, 40)).save(tmp_path / "images/3-1.png")
    Image.new("L", (8, 8)).save(tmp_path / "images/4-0.png")
    code, out, _ = majority("check", place)
    assert code == 0
    assert "60 images of 64x64x3, resized from 8 to 40 high and 8 to 30 wide, some grey " in out
    said = "59 of 60 images are 8x8, but images/3-1.png is 40x30: all become"
    assert f"warning: {said} 64x64; leave out what does not belong, or give --image-size" in out
    assert "warning: 59 of 60 images are colour, but images/4-0.png is grey: all become colour" in out
    assert "0 problems, 2 warnings" in out
    _, out, _ = majority("check", place, "--image-size", 8)
    assert f"warning: {said} 8x8; leave out what does not belong\n" in out
    for i in range(5):
        Image.new("RGB", (9, 9)).save(tmp_path / f"images/{i}-2.png")
    _, out, _ = majority("check", place)
    assert "but images/0-2.png is 9x9, images/1-2.png is 9x9, images/2-2.png is 9x9 and 3 more are not" in out


def test_no_size_is_named_that_no_image_has(tmp_path, majority, make):
    table = make.images(tmp_path, bags=20)
    for i, name in enumerate(table["path"]):
        Image.new("RGB", [(28, 28), (20, 30), (40, 20)][i % 3]).save(tmp_path / name)
    _, out, _ = majority("check", save(table, tmp_path))
    assert "60 images of 64x64x3, resized from 20 to 30 high and 20 to 40 wide " in out
    assert "the images are resized to 64x64 from 20 to 30 high and 20 to 40 wide: choose" in out


def test_many_sizes_are_a_range(tmp_path, majority, make):
    table = make.images(tmp_path, bags=20)
    for i, name in enumerate(table["path"]):
        Image.new("RGB" if i % 2 else "L", (20 + i % 9, 20)).save(tmp_path / name)
    _, out, _ = majority("check", save(table, tmp_path))
    assert "60 images of 64x64x3, resized from 20x20 up to 20x28, some grey " in out
    assert "but images" not in out


@pytest.fixture
def other(tmp_path, make):
    """Images in another folder."""

    def made(**kind):
        folder = tmp_path / "other"
        folder.mkdir(exist_ok=True)
        return save(make.images(folder, **kind), folder)

    return made


def test_images_unlike_those_of_the_run_are_warned_of(tmp_path, majority, make, other):
    place, run = save(make.images(tmp_path, bags=20, grey=True), tmp_path), tmp_path / "run"
    majority("train", place, *QUICK, "--out", run)
    said = "36 of 36 images are not like those that the run was trained on (8x8, grey), e.g. images/0-0.png"
    for kind, example in [({"pixels": (28, 28)}, "28x28, colour"), ({"pixels": (9, 8), "grey": True}, "9x8, grey")]:
        new = other(**kind)
        for words in (["evaluate", run, new], ["predict", run, new, "--out", tmp_path / "p.csv"]):
            code, out, _ = majority(*words)
            assert code == 0
            assert f"warning: {said} ({example}): they become 8x8x1 and may be classified wrongly" in out
    _, out, _ = majority("evaluate", run, other(grey=True))
    assert "not like" not in out


def test_a_run_knows_what_its_images_were_before_they_were_resized(tmp_path, majority, make, other, monkeypatch):
    place, run = save(make.images(tmp_path, bags=20, pixels=(30, 40)), tmp_path), tmp_path / "run"
    majority("train", place, *QUICK, "--image-size", 8, "--out", run)
    assert "not like" not in majority("evaluate", run, other(pixels=(30, 40)))[1]
    assert "(30x40, colour), e.g. images/0-0.png (8x8, colour)" in majority("evaluate", run, other(pixels=(8, 8)))[1]
    config = json.loads((run / "config.json").read_text())
    config.pop("images")  # of a run that was made before this was kept
    (run / "config.json").write_text(json.dumps(config))
    assert "not like" not in majority("evaluate", run, other(pixels=(8, 8)))[1]
    code, out, _ = majority("train", place, *QUICK, "--image-size", 8, "--out", run)
    assert code == 0
    assert "is finished" in out


def test_images_unlike_those_of_a_benchmark_set(tmp_path, majority, other):
    majority("train", "digits", *QUICK, "--bags", 40, "--out", tmp_path / "run")
    _, out, _ = majority("predict", tmp_path / "run", other(), "--out", tmp_path / "p.csv")
    assert "36 of 36 images are not like those that the run was trained on (8x8, grey)" in out


def test_no_file_is_decoded_or_opened_again_to_know_its_size(tmp_path, majority, make, monkeypatch):
    place = save(make.images(tmp_path, bags=20, pixels=(20, 30)), tmp_path)
    majority("check", place, "--image-size", 8)
    for name in ("_look", "decoded"):
        monkeypatch.setattr(images_room, name, lambda *of: pytest.fail("a file was opened again"))
    assert "resized from 20x30" in majority("check", place, "--image-size", 8)[1]
