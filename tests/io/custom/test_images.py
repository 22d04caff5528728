"""Manifests of images: formats, sizes, the cache, and images that cannot be used."""

import json
import os
import unicodedata

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from majority import load_source
from majority.data import stores as store_module
from majority.data.stores import MappedRows
from majority.io.custom import images as images_module


def save(table, folder):
    table.to_csv(folder / "bags.csv", index=False)
    return folder / "bags.csv"


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".webp"])
def test_every_format_colour_and_grey(tmp_path, make, suffix):
    for grey in (False, True):
        source = load_source(save(make.images(tmp_path, bags=4, suffix=suffix, grey=grey), tmp_path))
        assert source.bags.store.shape == (12, 8, 8, 1 if grey and suffix != ".webp" else 3)  # WebP has no grey
        assert source.bags.store.dtype == np.uint8
    position = list(source.paths).index(f"images/0-0{suffix}")
    pixels = np.asarray(Image.open(tmp_path / f"images/0-0{suffix}"))
    assert np.array_equal(source.bags.store[position].squeeze(), pixels)


def test_one_grey_image_among_colours_is_repeated(tmp_path, make):
    table = make.images(tmp_path, bags=4)
    Image.new("L", (8, 8), 77).save(tmp_path / "images/0-0.png")
    source = load_source(save(table, tmp_path))
    position = list(source.paths).index("images/0-0.png")
    assert (source.bags.store[position] == 77).all()


def test_sizes(tmp_path, make):
    place = save(make.images(tmp_path, bags=4, pixels=(10, 12)), tmp_path)
    assert load_source(place).bags.store.shape[1:] == (10, 12, 3)  # all have one size
    assert load_source(place, image_size=16).bags.store.shape[1:] == (16, 16, 3)
    Image.new("RGB", (30, 20)).save(tmp_path / "images/0-0.png")
    assert load_source(place).bags.store.shape[1:] == (64, 64, 3)
    assert load_source(save(make.images(tmp_path, pixels=(4, 300)), tmp_path)).bags.store.shape[1:] == (64, 64, 3)


def test_16_bit_pixels_become_8_bit(tmp_path, make):
    table = make.images(tmp_path, bags=4, grey=True)
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "images/0-0.png")
    source = load_source(save(table, tmp_path))
    assert source.bags.store.shape[3] == 1
    assert (source.bags.store[list(source.paths).index("images/0-0.png")] == 40_000 >> 8).all()


def test_the_exif_orientation_is_applied(tmp_path, make):
    table = make.images(tmp_path, bags=4)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[0] = 255  # the top row becomes the right column
    Image.fromarray(pixels).save(tmp_path / "images/0-0.png", exif=exif)
    source = load_source(save(table, tmp_path))
    turned = source.bags.store[list(source.paths).index("images/0-0.png")]
    assert (turned[:, -1] == 255).all()
    assert (turned[:, :-1] == 0).all()


def test_turned_images_are_resized_after_turning_in_every_format(tmp_path, make):
    """A dark and a bright half, stored lying on their side: 12 wide and 8 high once turned."""
    table = make.images(tmp_path, bags=4, grey=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = np.zeros((12, 8), np.uint8)
    stored[:6] = 255  # the upper half becomes the right one
    deep = stored.astype(np.uint16) << 8
    for number, (name, pixels) in enumerate({"png": stored, "deep.png": deep, "tif": stored, "jpg": stored}.items()):
        Image.fromarray(pixels).save(tmp_path / f"images/turned.{name}", exif=exif)
        table.loc[number, "path"] = f"images/turned.{name}"
    source = load_source(save(table, tmp_path), image_size=16)
    for name in ("png", "deep.png", "tif", "jpg"):
        image = source.bags.store[list(source.paths).index(f"images/turned.{name}"), :, :, 0]
        assert (image[:, :6] < 60).all()
        assert (image[:, 10:] > 200).all()


@pytest.mark.parametrize(("suffix", "turn"), [(".png", 5), (".jpg", 6), (".tif", 7), (".webp", 8)])
def test_height_and_width_of_turned_images(tmp_path, make, suffix, turn):
    table = make.images(tmp_path, bags=4, suffix=suffix)
    exif = Image.Exif()
    exif[0x0112] = turn
    stored = np.zeros((12, 8, 3), np.uint8)
    stored[:6] = 255  # the upper half becomes the right one, or mirrored or turned the other way the left one
    for name in table["path"]:
        Image.fromarray(stored).save(tmp_path / name, exif=exif)
    source = load_source(save(table, tmp_path))
    assert source.image_files.sizes == "8x12"
    assert source.bags.store.shape[1:] == (8, 12, 3)
    dark, bright = (slice(6), slice(6, 12)) if turn in (6, 7) else (slice(6, 12), slice(6))
    assert (source.bags.store[:, :, dark] < 20).all()
    assert (source.bags.store[:, :, bright] > 235).all()


def test_an_orientation_after_the_pixels_of_a_png_is_ignored(tmp_path, make):
    """Otherwise every PNG would have to be decoded to know its size."""
    table = make.images(tmp_path, bags=4)
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.zeros((12, 8, 3), np.uint8)
    pixels[0] = 255
    for name in table["path"]:
        Image.fromarray(pixels).save(tmp_path / name, exif=exif)
        data = (tmp_path / name).read_bytes()
        start = data.index(b"eXIf") - 4
        end, last = data.index(b"IDAT") - 4, data.index(b"IEND") - 4
        (tmp_path / name).write_bytes(data[:start] + data[end:last] + data[start:end] + data[last:])
    source = load_source(save(table, tmp_path))
    assert source.image_files.sizes == "12x8"
    assert (source.bags.store == pixels).all()


@pytest.fixture
def decoded(monkeypatch):
    """The names of the files that were decoded."""
    names, decode = [], images_module.decode
    monkeypatch.setattr(images_module, "decode", lambda path, shape: names.append(path.name) or decode(path, shape))
    return names


def test_the_cache_is_reused_and_detects_changes(tmp_path, make, decoded):
    place = save(make.images(tmp_path, bags=4), tmp_path)
    before = np.array(load_source(place).bags.store)
    assert len(decoded) == 12
    decoded.clear()
    assert np.array_equal(load_source(place).bags.store, before)
    assert decoded == []
    changed = tmp_path / "images/1-1.png"
    Image.new("RGB", (8, 8), (1, 2, 3)).save(changed)
    os.utime(changed, ns=(1, 10**18))
    source = load_source(place)
    assert decoded == ["1-1.png"]
    position = list(source.paths).index("images/1-1.png")
    assert source.bags.store[position, 0, 0].tolist() == [1, 2, 3]
    assert np.array_equal(np.delete(source.bags.store, position, axis=0), np.delete(before, position, axis=0))
    decoded.clear()
    table = pd.read_csv(place)
    save(table[table["bag"] != "b0"], tmp_path)  # removed rows need no decoding
    assert load_source(place).bags.store.shape[0] == 9
    assert decoded == []


def test_the_cache_is_found_from_every_folder(tmp_path, make, decoded, monkeypatch):
    place = save(make.images(tmp_path, bags=4), tmp_path)
    load_source(place)
    decoded.clear()
    for folder, name in ((tmp_path, "bags.csv"), (tmp_path / "images", "../bags.csv")):
        monkeypatch.chdir(folder)
        assert len(load_source(name).bags) == 4
    assert decoded == []


def test_train_and_predict_decode_once(tmp_path, majority, make, decoded):
    for number, words in enumerate([(), ("--image-size", 8), ("--image-size", 6)]):  # the images have 8 x 8
        run, out = tmp_path / f"run{number}", tmp_path / "p.csv"
        place = save(make.images(tmp_path), tmp_path)
        assert (
            majority("train", place, "--recipe", "quick", "--epochs", 1, "--device", "cpu", *words, "--out", run)[0]
            == 0
        )
        assert majority("predict", run, place, "--device", "cpu", "--out", out)[0] == 0
        assert majority("check", place, *words)[0] == 0
        assert sorted(decoded) == sorted({f"{bag}-{i}.png" for bag in range(12) for i in range(3)})
        decoded.clear()


def test_headers_are_read_once_for_all_sizes(tmp_path, make, monkeypatch):
    place = save(make.images(tmp_path, bags=4), tmp_path)
    load_source(place, image_size=6)
    monkeypatch.setattr(images_module, "_read_header", lambda path: pytest.fail(f"{path} was opened again"))
    assert load_source(place).bags.store.shape[1:] == (8, 8, 3)


def test_cached_images_can_be_read_after_another_command_replaced_them(tmp_path, make, monkeypatch):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 0)
    place = save(make.images(tmp_path, bags=4), tmp_path)
    bags = load_source(place).bags
    assert isinstance(bags.store, MappedRows)
    before, fingerprint = bags.store[:], bags.fingerprint()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(tmp_path / "images/1-1.png")
    assert load_source(place).bags.fingerprint() != fingerprint
    assert not bags.store.path.exists()
    assert bags.fingerprint() == fingerprint
    assert np.array_equal(bags.store[:], before)


def test_few_images_are_loaded_into_memory(tmp_path, make):
    store = load_source(save(make.images(tmp_path, bags=4), tmp_path)).bags.store
    assert isinstance(store, np.ndarray)
    assert not isinstance(store, np.memmap)


def test_a_damaged_cache_is_rebuilt(tmp_path, make, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = save(make.images(tmp_path, bags=4), tmp_path)
    before = np.array(load_source(place).bags.store)
    folder = tmp_path / "cache/majority/images"
    kept = sorted(entry.name for entry in folder.iterdir())
    assert len(kept) == 2  # pixels and their note
    next(folder.glob("*.npy")).write_bytes(b"damaged")
    assert np.array_equal(load_source(place).bags.store, before)
    next(folder.glob("*.json")).write_text("{")
    assert np.array_equal(load_source(place).bags.store, before)


def test_a_cache_that_cannot_be_written_to_is_not_needed(tmp_path, make, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-file"))
    assert len(load_source(save(make.images(tmp_path, bags=4), tmp_path)).bags) == 4


def test_all_wrong_images_are_reported(tmp_path, majority, make, says):
    table = make.images(tmp_path)
    (tmp_path / "images/0-0.png").unlink()
    (tmp_path / "images/1-0.png").write_bytes(b"no image")
    whole = (tmp_path / "images/2-0.png").read_bytes()
    (tmp_path / "images/2-0.png").write_bytes(whole[: len(whole) // 2])
    Image.new("1", (10_000, 7_000)).save(tmp_path / "images/3-0.png")  # 70 million pixels in a small file
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "images/4-0.tif")
    table.loc[12, "path"] = "images/4-0.tif"
    table.loc[15, "path"] = ""
    place = save(table, tmp_path)
    code, out, err = majority("check", place)
    assert (code, err) == (1, "")
    for row, name, *facts in [
        (2, "0-0.png", "no such image", "correct the path"),
        (5, "1-0.png", "PNG, JPEG, TIFF or WEBP", "damaged", "leave it out"),
        (8, "2-0.png", "cannot be decoded"),
        (11, "3-0.png", "more than 64 million", "MAJORITY_MAX_MEGAPIXELS"),
        (14, "4-0.tif", "floating-point pixels", "8 or 16 bits"),
    ]:
        assert says(out, f"bags.csv, row {row}: ", str(tmp_path / "images" / name), *facts)
    assert says(out, "row 17: path is empty")
    assert out.count("problem: ") == 6


def test_paths_with_backslashes(tmp_path, majority, make, says):
    table = make.images(tmp_path)
    table["path"] = table["path"].str.replace("/", "\\")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert says(out, "0-0.png", "no such image", "write / between folders, not \\")
    assert "rows 2 to 37" in out
    assert "and 33 more" in out


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_file_is_found_in_both_unicode_forms(tmp_path, make, forms):
    table = make.images(tmp_path, bags=4)
    on_disk, in_table = (unicodedata.normalize(form, "images/Gewebe-ä.png") for form in forms)
    (tmp_path / "images/0-0.png").rename(tmp_path / on_disk)
    table.loc[0, "path"] = in_table
    for _ in range(2):
        source = load_source(save(table, tmp_path))
        assert in_table in source.paths
        assert len(source.bags.store) == 12


def test_the_same_image_twice(tmp_path, majority, make, says):
    table = make.images(tmp_path)
    table.loc[1, "path"] = table.loc[0, "path"]
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert says(out, "row 3: ", "same image as row 2", "same bag", "remove one")
    table = make.images(tmp_path)
    table.loc[0, "path"] = table.loc[3, "path"]
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 0
    assert "warning: 1 image is in two or more bags" in out
    table["split"] = ["train"] * 3 + ["val"] * 3 + ["train"] * 15 + ["val"] * 15
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert "has two splits" in out


def aliases(folder):
    (folder / "elsewhere/deep").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "elsewhere/deep")
    (folder / "elsewhere/images").symlink_to(folder / "images")
    return {
        "a dot": "./images/{}",
        "a parent folder": "elsewhere/../images/{}",
        "the parent of a link": "link/../images/{}",
        "doubled slashes": "images//{}",
        "absolute": f"{folder}/images/{{}}",
    }


@pytest.mark.parametrize("kind", ["a dot", "a parent folder", "the parent of a link", "doubled slashes", "absolute"])
def test_the_same_image_by_two_paths(tmp_path, majority, make, says, kind):
    alias = aliases(tmp_path)[kind]
    table = make.images(tmp_path)
    table.loc[1, "path"] = alias.format("0-0.png")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert says(out, "row 3: ", "same image as row 2", "same bag", "remove one")
    table = make.images(tmp_path)
    table.loc[3, "path"] = alias.format("0-0.png")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 0
    assert says(out, "warning: 1 image ", "two or more bags", "images/0-0.png", "split or group column")
    table["split"] = ["train"] * 3 + ["val"] * 3 + ["Train"] * 15 + ["val"] * 15
    table.loc[6, "path"] = alias.format("0-1.png")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert out.count("problem: ") == 1
    assert says(out, "row 5: ", "path images/0-0.png has two splits", "'train'", "'val'")


def test_an_image_with_two_paths_is_decoded_once_and_keeps_both_paths(tmp_path, make, decoded):
    table = make.images(tmp_path, bags=4)
    table.loc[3, "path"] = "./images/0-0.png"
    for count in (11, 0):
        source = load_source(save(table, tmp_path))
        assert len(decoded) == count
        decoded.clear()
        assert source.paths[source.bags.index].tolist() == table["path"].tolist()
        assert np.array_equal(source.bags.bag(1)[0], np.asarray(Image.open(tmp_path / "images/0-0.png")))


def test_paths_through_links_are_resolved(tmp_path, majority, make):
    """`..` after a link leads to the parent of the link's target."""
    table = make.images(tmp_path)
    aliases(tmp_path)
    (tmp_path / "elsewhere/0-0.png").write_bytes((tmp_path / "images/0-1.png").read_bytes())
    (tmp_path / "images/0-0.png").rename(tmp_path / "0-0.png")
    table.loc[[0, 1], "path"] = ["0-0.png", "link/../0-0.png"]
    assert majority("check", save(table, tmp_path))[0] == 0


def test_a_path_with_a_null_byte(tmp_path, majority, make):
    table = make.images(tmp_path)
    table.loc[0, "path"] = "images\0/0-0.png"
    table.to_parquet(tmp_path / "bags.parquet")
    code, out, _ = majority("check", tmp_path / "bags.parquet")
    assert code == 1
    assert "embedded null" in out  # then byte or character, by the version of Python


def test_train_and_predict_images(tmp_path, majority, make):
    place = save(make.images(tmp_path, bags=20), tmp_path)
    words = ("--epochs", 6, "--device", "cpu", "--image-size", 8, "--no-refit", "--out", tmp_path / "run")
    code, _, err = majority("train", place, *words)
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "run/config.json").read_text())["run"]["bags"]["image_size"] == 8
    other = tmp_path / "other"
    other.mkdir()
    table = make.images(other, bags=3, pixels=(20, 20)).drop(columns="bag_label")
    table.to_csv(other / "new.csv", index=False)
    out = tmp_path / "predictions.csv"
    code, _, err = majority("predict", tmp_path / "run", other / "new.csv", "--out", out)
    assert (code, err) == (0, "")
    rows = pd.read_csv(out)
    assert rows["path"].tolist() == table["path"].tolist()
    assert rows["bag"].tolist() == table["bag"].tolist()
    assert (rows["class"] == np.where(rows["p(red)"] > 0.5, "red", "blue")).all()


def test_like_allows_the_augmentations_of_a_known_source(tmp_path, majority, make, says):
    table = save(make.images(tmp_path), tmp_path)
    words = ["train", table, "--epochs", "1", "--no-refit", "--out", tmp_path / "run", "--like", "pathmnist"]
    assert majority(*words)[0] == 0
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert {"flip", "rotate90"} <= {*config["plan"]["training"]["augment"]}
    assert "--like pathmnist" in (tmp_path / "run/report.html").read_text()
    code, _, err = majority(*words[:-2])
    assert code == 2
    assert says(err, "like is pathmnist")
    code, _, err = majority("train", tmp_path / "no such file.csv", "--like", "mars")  # refused before data are read
    assert code == 2
    assert says(err, "like", "'mars'", "cifar10, svhn")
    code, _, err = majority("train", "digits", "--like", "cifar10", "--out", tmp_path / "other")
    assert code == 2
    assert says(err, "like cifar10", "digits", "known")


def test_a_note_if_like_has_no_effect(tmp_path, majority, make, says):
    table = save(make.images(tmp_path), tmp_path)
    words = ["train", table, "--recipe", "quick", "--epochs", "1", "--out", tmp_path / "run"]
    assert says(majority(*words, "--like", "svhn")[1], "note: recipe quick ", "like", "has no effect")


def test_like_is_refused_for_vectors(tmp_path, majority, make, says):
    table = save(make.table(), tmp_path)
    code, _, err = majority("train", table, "--out", tmp_path / "run", "--like", "pathmnist")
    assert code == 2
    assert says(err, "like pathmnist", "vectors", "leave it out")
    assert not (tmp_path / "run").exists()
