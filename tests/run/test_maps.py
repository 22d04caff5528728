"""`majority map`, the model card and the metadata of an exported model, as a user sees them."""

import json
import uuid

import numpy as np
import pandas as pd
import pytest
from PIL import Image


def table_of(places, bags=12, size=9):
    """Instances of class a are around 2, of class b around -2; `places` gives x and y of instance i of a bag."""
    rng, rows = np.random.default_rng(0), []
    for bag in range(bags):
        for i in range(size):
            true = "ab"[(bag + (i % 3 == 0)) % 2]
            x, y = places(bag, i)
            rows.append([f"s{bag}", "ab"[bag % 2], rng.normal(2 if true == "a" else -2, 0.3), rng.normal(), x, y])
    return pd.DataFrame(rows, columns=["bag", "bag_label", "f0", "f1", "x", "y"])


@pytest.fixture(scope="module")
def run(succeeds, tmp_path_factory):
    """A run on tiles of 256 pixels, three in a row; the test bags are its own."""
    folder = tmp_path_factory.mktemp("maps")
    table_of(lambda bag, i: (256 * (i % 3) + 7, 256 * (i // 3))).to_csv(folder / "tiles.csv", index=False)
    words = ("--recipe", "quick", "--method=log-mean", "--epochs", 10, "--device", "cpu", "--out", folder / "run")
    succeeds("train", folder / "tiles.csv", *words)
    return folder / "run"


def read_valid(path):
    """The features of a file as RFC 7946 has it, with properties as QuPath 0.4 and later reads them."""
    content = json.loads(path.read_text())
    assert content["type"] == "FeatureCollection"
    for feature in content["features"]:
        geometry, properties = feature["geometry"], feature["properties"]
        assert (feature["type"], str(uuid.UUID(feature["id"]))) == ("Feature", feature["id"])
        assert (geometry["type"], properties["objectType"]) in [("Polygon", "tile"), ("Point", "annotation")]
        if geometry["type"] == "Polygon":
            (ring,) = geometry["coordinates"]
            assert (ring[0], len(ring)) == (ring[-1], 5)
        assert [0 <= part <= 255 for part in properties["classification"]["color"]] == [True] * 3
        assert all(isinstance(value, float) for value in properties["measurements"].values())
    return content["features"]


def test_tiles_for_qupath(run, succeeds, tmp_path):
    source, out = run.parent / "tiles.csv", tmp_path / "maps"
    assert "108 instances in 12 maps" in succeeds("map", run, source, "--out", out)
    succeeds("predict", run, source, "--out", tmp_path / "classes.csv")
    rows = pd.read_csv(tmp_path / "classes.csv")
    ids = set()
    for bag, of_bag in rows.groupby("bag"):
        features = read_valid(out / f"{bag}.geojson")
        for feature, row in zip(features, of_bag.itertuples(), strict=True):
            (ring,) = feature["geometry"]["coordinates"]
            assert ring[0] == [row.x, row.y]
            assert ring[2] == [row.x + 256, row.y + 256]
            properties = feature["properties"]
            assert properties["objectType"] == "tile"
            assert properties["classification"]["name"] == of_bag.loc[row.Index, "class"]
            assert properties["measurements"]["p(a)"] == pytest.approx(of_bag.loc[row.Index, "p(a)"], abs=1e-5)
            ids.add(feature["id"])
    assert len(ids) == 108
    colours = {tuple(f["properties"]["classification"]["color"]) for f in features}
    assert len(colours) == 2


def test_the_picture_has_the_colour_of_each_tile_at_its_place(run, succeeds, tmp_path):
    succeeds("map", run, run.parent / "tiles.csv", "--out", tmp_path)
    picture = np.asarray(Image.open(tmp_path / "s0.png"))
    for feature in read_valid(tmp_path / "s0.geojson"):
        x, y = feature["geometry"]["coordinates"][0][0]
        column, row = (round(edge + (at + 128) * 1024 / 768) for edge, at in ((12, x - 7), (12, y)))
        assert picture[row, column].tolist() == feature["properties"]["classification"]["color"]


def test_points_on_one_map_with_north_above(run, succeeds, tmp_path):
    """Places that lie in no rows are points; coordinates that are no pixels are drawn with y upwards."""
    table_of(lambda bag, i: (60 + bag + i / 7, 40 + bag / 3 + i**2 / 9)).to_csv(tmp_path / "fields.csv", index=False)
    succeeds("map", run, tmp_path / "fields.csv", "--together", "--out", tmp_path / "maps")
    features = read_valid(tmp_path / "maps" / "all.geojson")
    assert len(features) == 108
    assert {feature["geometry"]["type"] for feature in features} == {"Point"}
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == ["all.geojson", "all.png"]
    places = np.array([feature["geometry"]["coordinates"] for feature in features])
    north = features[int(places[:, 1].argmax())]["properties"]["classification"]["color"]
    picture = np.asarray(Image.open(tmp_path / "maps" / "all.png"))
    x = round(12 + (places[places[:, 1].argmax(), 0] - places[:, 0].min()) * 1024 / np.ptp(places, axis=0).max())
    assert picture[12, x].tolist() == north


def test_tile_size_is_given(run, refused, succeeds, tmp_path):
    words = ("map", run, run.parent / "tiles.csv", "--out", tmp_path / "maps", "--tile-size")
    succeeds(*words, 100)
    (ring,) = read_valid(tmp_path / "maps" / "s0.geojson")[0]["geometry"]["coordinates"]
    assert ring[1][0] - ring[0][0] == 100
    assert "--tile-size" in refused(*words, -1)


def test_bags_without_coordinates_are_refused(run, refused, tmp_path):
    table_of(lambda bag, i: (0, 0)).drop(columns=["x", "y"]).to_csv(tmp_path / "none.csv", index=False)
    assert "x and y" in refused("map", run, tmp_path / "none.csv", "--out", tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


def test_names_of_bags_that_are_no_file_names(run, refused, succeeds, tmp_path):
    table = table_of(lambda bag, i: (i, i))
    table["bag"] = "a/" + table["bag"]
    table.to_csv(tmp_path / "bags.csv", index=False)
    err = refused("map", run, tmp_path / "bags.csv", "--out", tmp_path / "maps")
    assert "a/s0" in err
    assert "--together" in err
    succeeds("map", run, tmp_path / "bags.csv", "--together", "--out", tmp_path / "maps")


def test_pictures_of_others_are_not_replaced(run, refused, tmp_path):
    table_of(lambda bag, i: (i, bag)).to_csv(tmp_path / "bags.csv", index=False)
    (tmp_path / "s1.png").write_bytes(b"a scan")
    assert "s1.png" in refused("map", run, tmp_path / "bags.csv", "--out", tmp_path)
    assert (tmp_path / "s1.png").read_bytes() == b"a scan"
    assert not list(tmp_path.glob("*.geojson"))


def test_model_card_has_figures_with_n_and_limits(run):
    card, result = (run / "model-card.md").read_text(), json.loads((run / "result.json").read_text())
    for title in ("Use", "Data", "Labels", "Method", "Figures", "Limits"):
        assert f"\n## {title}\n" in card
    test = result["test"]
    assert f"On {test['bags']} test bags with {test['instances']} instances, 0 of known class" in card
    assert f"{test['bag_accuracy']:.3f}" in card
    assert "- a\n- b\n" in card
    assert str(run.parent) not in card


@pytest.mark.usefixtures("onnx_operators")
def test_exported_model_has_the_same_facts(run, succeeds, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    succeeds("export", run, "--out", tmp_path / "m.onnx")
    about = json.loads(onnxruntime.InferenceSession(tmp_path / "m.onnx").get_modelmeta().custom_metadata_map["about"])
    result = json.loads((run / "result.json").read_text())
    assert about["classes"] == ["a", "b"]
    assert about["source"] == "tiles.csv"
    assert about["figures"]["n_bags"] == result["test"]["bags"]
    assert about["figures"]["bag_accuracy"] == result["test"]["bag_accuracy"]
