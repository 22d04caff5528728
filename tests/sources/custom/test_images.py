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
from majority.sources.custom import images as images_room


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


def test_deep_pixels_become_eight_bits(tmp_path, make):
    table = make.images(tmp_path, bags=4, grey=True)
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "images/0-0.png")
    source = load_source(save(table, tmp_path))
    assert source.bags.store.shape[3] == 1
    assert (source.bags.store[list(source.paths).index("images/0-0.png")] == 40_000 >> 8).all()


def test_images_are_turned_as_their_camera_says(tmp_path, make):
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


def test_turned_images_keep_their_form_in_every_format(tmp_path, make):
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
def test_turned_images_are_as_high_and_wide_as_they_are_seen(tmp_path, make, suffix, turn):
    table = make.images(tmp_path, bags=4, suffix=suffix)
    exif = Image.Exif()
    exif[0x0112] = turn
    stored = np.zeros((12, 8, 3), np.uint8)
    stored[:6] = 255  # the upper half becomes the right one, or mirrored or turned the other way the left one
    for name in table["path"]:
        Image.fromarray(stored).save(tmp_path / name, exif=exif)
    source = load_source(save(table, tmp_path))
    assert source.originals.sizes == "8x12"
    assert source.bags.store.shape[1:] == (8, 12, 3)
    dark, bright = (slice(6), slice(6, 12)) if turn in (6, 7) else (slice(6, 12), slice(6))
    assert (source.bags.store[:, :, dark] < 20).all()
    assert (source.bags.store[:, :, bright] > 235).all()


def test_a_png_that_names_its_orientation_after_its_pixels_is_taken_as_it_lies(tmp_path, make):
    """To find it there, every PNG would be decoded to be measured."""
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
    assert source.originals.sizes == "12x8"
    assert (source.bags.store == pixels).all()


@pytest.fixture
def calls(monkeypatch):
    """Names of the files that were decoded."""
    names, true = [], images_room.decoded
    monkeypatch.setattr(images_room, "decoded", lambda path, shape: names.append(path.name) or true(path, shape))
    return names


def test_the_cache_is_reused_and_notices_changes(tmp_path, make, calls):
    place = save(make.images(tmp_path, bags=4), tmp_path)
    before = np.array(load_source(place).bags.store)
    assert len(calls) == 12
    calls.clear()
    assert np.array_equal(load_source(place).bags.store, before)
    assert calls == []
    changed = tmp_path / "images/1-1.png"
    Image.new("RGB", (8, 8), (1, 2, 3)).save(changed)
    os.utime(changed, ns=(1, 10**18))
    source = load_source(place)
    assert calls == ["1-1.png"]
    position = list(source.paths).index("images/1-1.png")
    assert source.bags.store[position, 0, 0].tolist() == [1, 2, 3]
    assert np.array_equal(np.delete(source.bags.store, position, axis=0), np.delete(before, position, axis=0))
    calls.clear()
    table = pd.read_csv(place)
    save(table[table["bag"] != "b0"], tmp_path)  # rows that go need no decoding
    assert load_source(place).bags.store.shape[0] == 9
    assert calls == []


def test_the_cache_is_found_from_every_folder(tmp_path, make, calls, monkeypatch):
    place = save(make.images(tmp_path, bags=4), tmp_path)
    load_source(place)
    calls.clear()
    for folder, name in ((tmp_path, "bags.csv"), (tmp_path / "images", "../bags.csv")):
        monkeypatch.chdir(folder)
        assert len(load_source(name).bags) == 4
    assert calls == []


def test_train_and_predict_decode_once(tmp_path, majority, make, calls):
    for number, words in enumerate([(), ("--image-size", 8), ("--image-size", 6)]):  # the images have 8 x 8
        run, out = tmp_path / f"run{number}", tmp_path / "p.csv"
        place = save(make.images(tmp_path), tmp_path)
        assert (
            majority("train", place, "--recipe", "quick", "--epochs", 1, "--device", "cpu", *words, "--out", run)[0]
            == 0
        )
        assert majority("predict", run, place, "--device", "cpu", "--out", out)[0] == 0
        assert majority("check", place, *words)[0] == 0
        assert sorted(calls) == sorted({f"{bag}-{i}.png" for bag in range(12) for i in range(3)})
        calls.clear()


def test_files_are_looked_at_once_for_all_sizes(tmp_path, make, monkeypatch):
    place = save(make.images(tmp_path, bags=4), tmp_path)
    load_source(place, image_size=6)
    monkeypatch.setattr(images_room, "_look", lambda path: pytest.fail(f"{path} was looked at again"))
    assert load_source(place).bags.store.shape[1:] == (8, 8, 3)


def test_images_are_read_though_another_command_replaces_them(tmp_path, make, monkeypatch):
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


def test_few_images_are_held_in_memory(tmp_path, make):
    store = load_source(save(make.images(tmp_path, bags=4), tmp_path)).bags.store
    assert isinstance(store, np.ndarray)
    assert isinstance(store, np.ndarray)


def test_a_damaged_cache_is_made_again(tmp_path, make, monkeypatch):
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


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, make, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-file"))
    assert len(load_source(save(make.images(tmp_path, bags=4), tmp_path)).bags) == 4


def test_wrong_images_are_all_named(tmp_path, majority, make):
    table = make.images(tmp_path)
    (tmp_path / "images/0-0.png").unlink()
    (tmp_path / "images/1-0.png").write_bytes(b"no image")
    whole = (tmp_path / "images/2-0.png").read_bytes()
    (tmp_path / "images/2-0.png").write_bytes(whole[: len(whole) // 2])
    Image.new("1", (20_000, 20_000)).save(tmp_path / "images/3-0.png")  # 400 million pixels in a small file
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "images/4-0.tif")
    table.loc[12, "path"] = "images/4-0.tif"
    table.loc[15, "path"] = ""
    place = save(table, tmp_path)
    code, out, err = majority("check", place)
    assert (code, err) == (1, "")
    flat = " ".join(out.split())
    for row, name, what in [
        (2, "0-0.png", "there is no such image: correct the path"),
        (5, "1-0.png", "it is no PNG, JPEG, TIFF or WEBP image, or is damaged: mend it or leave it out"),
    ]:
        assert f"bags.csv, row {row}: {tmp_path / 'images' / name}: {what}" in flat
    assert "3-0.png: it has more than 64 million pixels" in flat
    assert "row 17: path is empty" in flat
    assert "2-0.png: it cannot be decoded" in flat
    assert "4-0.tif: it holds floating-point pixels" in flat
    assert out.count("problem: ") == 6


def test_paths_of_another_system(tmp_path, majority, make):
    table = make.images(tmp_path)
    table["path"] = table["path"].str.replace("/", "\\")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert "0-0.png: there is no such image: write / between folders, not \\" in out
    assert "and 16 more of this kind, in rows 22 to 37" in out


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_file_is_found_in_either_spelling_of_unicode(tmp_path, make, forms):
    table = make.images(tmp_path, bags=4)
    written, asked = (unicodedata.normalize(form, "images/Gewebe-ä.png") for form in forms)
    (tmp_path / "images/0-0.png").rename(tmp_path / written)
    table.loc[0, "path"] = asked
    for _ in range(2):
        source = load_source(save(table, tmp_path))
        assert asked in source.paths
        assert len(source.bags.store) == 12


def test_the_same_image_twice(tmp_path, majority, make):
    table = make.images(tmp_path)
    table.loc[1, "path"] = table.loc[0, "path"]
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert "row 3: it names the image of row 2, in the same bag: remove one of the two" in out
    table = make.images(tmp_path)
    table.loc[0, "path"] = table.loc[3, "path"]
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 0
    assert "warning: 1 image is in two or more bags" in out
    table["split"] = ["train"] * 3 + ["val"] * 3 + ["train"] * 15 + ["val"] * 15
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert "has two splits" in out


def spellings(folder):
    (folder / "elsewhere/deep").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "elsewhere/deep")
    (folder / "elsewhere/images").symlink_to(folder / "images")
    return {
        "a dot": "./images/{}",
        "a way back": "elsewhere/../images/{}",
        "a way back from a link": "link/../images/{}",
        "doubled slashes": "images//{}",
        "absolute": f"{folder}/images/{{}}",
    }


@pytest.mark.parametrize("kind", ["a dot", "a way back", "a way back from a link", "doubled slashes", "absolute"])
def test_the_same_image_in_two_spellings(tmp_path, majority, make, kind):
    again = spellings(tmp_path)[kind]
    table = make.images(tmp_path)
    table.loc[1, "path"] = again.format("0-0.png")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert "row 3: it names the image of row 2, in the same bag: remove one of the two" in out
    table = make.images(tmp_path)
    table.loc[3, "path"] = again.format("0-0.png")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 0
    assert "warning: 1 image is in two or more bags (e.g. images/0-0.png)" in out
    table["split"] = ["train"] * 3 + ["val"] * 3 + ["Train"] * 15 + ["val"] * 15
    table.loc[6, "path"] = again.format("0-1.png")
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert out.count("problem: ") == 1
    assert "row 5: path images/0-0.png has two splits ('train' in its first row, 'val' here)" in out


def test_an_image_in_two_spellings_is_decoded_once_and_keeps_its_names(tmp_path, make, calls):
    table = make.images(tmp_path, bags=4)
    table.loc[3, "path"] = "./images/0-0.png"
    for decoded in (11, 0):
        source = load_source(save(table, tmp_path))
        assert len(calls) == decoded
        calls.clear()
        assert source.paths[source.bags.index].tolist() == table["path"].tolist()
        assert np.array_equal(source.bags.bag(1)[0], np.asarray(Image.open(tmp_path / "images/0-0.png")))


def test_images_of_one_name_behind_links_are_two(tmp_path, majority, make):
    """Through a link `..` leads to another folder than the letters of the path say."""
    table = make.images(tmp_path)
    spellings(tmp_path)
    (tmp_path / "elsewhere/0-0.png").write_bytes((tmp_path / "images/0-1.png").read_bytes())
    (tmp_path / "images/0-0.png").rename(tmp_path / "0-0.png")
    table.loc[[0, 1], "path"] = ["0-0.png", "link/../0-0.png"]
    assert majority("check", save(table, tmp_path))[0] == 0


def test_a_path_that_is_none(tmp_path, majority, make):
    table = make.images(tmp_path)
    table.loc[0, "path"] = "images\0/0-0.png"
    table.to_parquet(tmp_path / "bags.parquet")
    code, out, _ = majority("check", tmp_path / "bags.parquet")
    assert code == 1
    assert "it cannot be decoded (embedded null byte)" in out


def test_train_and_predict_images(tmp_path, majority, make):
    place = save(make.images(tmp_path, bags=20), tmp_path)
    words = ("--epochs", 6, "--device", "cpu", "--image-size", 8, "--out", tmp_path / "run")
    code, _, err = majority("train", place, *words)
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "run/config.json").read_text())["data"]["image_size"] == 8
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


def test_images_like_those_of_a_known_source_may_be_treated_as_they_are(tmp_path, majority, make):
    table = save(make.images(tmp_path), tmp_path)
    words = ["train", table, "--epochs", "1", "--out", tmp_path / "run", "--like", "pathmnist"]
    assert majority(*words)[0] == 0
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert {"flip", "rotate90"} <= {*config["plan"]["training"]["augment"]}
    assert "--like pathmnist" in (tmp_path / "run/report.html").read_text()
    code, _, err = majority(*words[:-2])
    assert code == 2
    assert "like is pathmnist, asked None" in err
    code, _, err = majority("train", tmp_path / "no such file.csv", "--like", "mars")  # judged before data are read
    assert code == 2
    assert "there is no --like 'mars': take one of cifar10, svhn" in err
    code, _, err = majority("train", "digits", "--like", "cifar10", "--out", tmp_path / "other")
    assert code == 2
    assert "what may be done to digits is known, leave it out" in err


def test_where_no_image_is_changed_that_is_said(tmp_path, majority, make):
    table = save(make.images(tmp_path), tmp_path)
    words = ["train", table, "--recipe", "quick", "--epochs", "1", "--out", tmp_path / "run"]
    assert "note: recipe quick changes no images, so --like has no effect" in majority(*words, "--like", "svhn")[1]


def test_vectors_are_like_no_images(tmp_path, majority, make):
    table = save(make.table(), tmp_path)
    code, _, err = majority("train", table, "--out", tmp_path / "run", "--like", "pathmnist")
    assert code == 2
    assert "these are vectors, leave it out" in err
    assert not (tmp_path / "run").exists()
