"""The recipe of captions on a few scenes, from drawing them to a SavedModel and its pictures."""

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import zoo
from recipes import caption
from tests.tools import close, run_zoo_here
from zoo.data import load_captions, write_images
from zoo.serving import SavedModel, check_saved_model
from zoo.serving.offline import sources_of
from zoo.training.export_run import export_runs

SMALL = {
    "data": "scenes:240",
    "units": 32,
    "dropout": 0.0,
    "beam_width": 2,
    "num_results": 2,
    "max_length": 12,
    "epochs": 3,
    "batch_tokens": 160,
    "average": 1,
    "learning_rate": 1e-2,
    "warmup_steps": 5,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with run/, saved_models/scenes and images/, which are the 30 of dev."""
    place = tmp_path_factory.mktemp("caption")
    caption.train(caption.Config(output=str(place / "run"), **SMALL))
    export_runs([place / "run"], place / "saved_models" / "scenes")
    write_images(load_captions("scenes:240", "validation"), place / "images")
    return place


@pytest.fixture
def zoo_here(place, monkeypatch, capsys):
    def run(*arguments):
        done = run_zoo_here(monkeypatch, capsys, place, arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def lines_of(path):
    return path.read_text().splitlines()


def test_it_learns_and_says_how(place):
    lines = [json.loads(line) for line in lines_of(place / "run" / "metrics.jsonl")]
    assert lines[-1]["loss"] < 0.93 * lines[0]["loss"]
    assert set(lines[-1]) >= {"accuracy", "bleu"}
    card = (place / "saved_models/scenes/1/README.md").read_text()
    assert "images are read as 64 x 64 pixels" in card
    assert "`image_bytes` to `text`" in card


def test_files_are_what_the_commands_take(place, zoo_here, monkeypatch, capsys):
    files = lines_of(place / "images/images.txt")
    (place / "none.png").write_bytes(b"this is no image")
    said = zoo_here("predict", "saved_models/scenes", *files[:3], "none.png").splitlines()
    whole = pathlib.Path(files[0]).read_bytes()
    (place / "half.png").write_bytes(whole[: len(whole) // 2])
    arguments = ["predict", "saved_models/scenes", "none.png", files[0], "half.png"]
    told = run_zoo_here(monkeypatch, capsys, place, arguments).stderr.splitlines()
    why = "is no PNG, JPEG, GIF, BMP or WebP, or is cut off or too large: its answer is empty"
    assert told == [f"zoo: {name} {why}" for name in ("none.png", "half.png")]
    model = SavedModel(place / "saved_models/scenes")
    images = [pathlib.Path(name).read_bytes() for name in files[:3]]
    answers = model("serving_default", image_bytes=[*images, b""])
    assert said == [text.decode() for text in answers["text"]]
    assert said[3] == ""
    assert answers["scores"][3].tolist() == pytest.approx([0, -1e9])
    arguments = ("--source", "images/images.txt", "--reference", "images/captions.txt")
    scores = json.loads(zoo_here("evaluate", "saved_models/scenes", *arguments))
    assert scores == model.about["scores"]
    (place / "said.txt").write_text("\n".join(said[:3]) + "\n")
    (place / "three.txt").write_text("\n".join(files[:3]) + "\n")
    arguments = ("--source", "three.txt", "--target", "said.txt")
    rows = [
        row.split("\t") for row in zoo_here("score", "saved_models/scenes", *arguments).splitlines()
    ]
    close([float(row[0]) for row in rows], answers["score"][:3], 1e-3)


@pytest.mark.parametrize("line", ["\0\r\x1a", ""])  # as of a picture itself
def test_an_image_is_given_by_its_name(place, line):
    model = SavedModel(place / "saved_models/scenes")
    with pytest.raises(ValueError, match="the name of its file, one on each line. Received: '"):
        sources_of(model, [line])


def test_a_picture_shows_where_it_looked(place, zoo_here):
    file = lines_of(place / "images/images.txt")[0]
    zoo_here("plot", "saved_models/scenes", file, "--output", "looked.svg")
    (said,) = zoo_here("predict", "saved_models/scenes", file).splitlines()
    labels = re.findall(r"<!-- (.*?) -->", (place / "looked.svg").read_text("utf-8"))
    assert labels == said.split()


def test_alignments_are_a_grid(place):
    model = SavedModel(place / "saved_models/scenes")
    files = lines_of(place / "images/images.txt")[:2]
    images = [pathlib.Path(name).read_bytes() for name in files]
    looked = model("align", image_bytes=[images[0], b"", images[1]])
    assert looked["source_tokens"].shape == (3, 64)
    assert looked["source_tokens"][0, [0, 63]].tolist() == [b"0,0", b"7,7"]
    assert set(looked["source_tokens"][1]) == {b""}
    assert not looked["alignments"][1].any()
    words = [sum(map(bool, row)) for row in looked["target_tokens"]]
    close(looked["alignments"][0, : words[0]].sum(-1), np.ones(words[0]))


def test_it_is_loaded_again(place):
    path = place / "saved_models/scenes"
    images = load_captions("scenes:240", "validation").sources[:5]
    pipeline = zoo.load(path)
    answers, served = pipeline(images), SavedModel(path)("serving_default", image_bytes=images)
    assert answers["texts"].numpy().tolist() == served["texts"].tolist()


def test_tf_serving_will_load_and_run_it(place):
    lines = list(check_saved_model(place / "saved_models/scenes"))
    assert [line.text for line in lines if not line.is_good] == []
    assert {"awkward", "batches"} <= {line.group for line in lines}


@pytest.mark.slow
def test_a_run_goes_on_and_several_make_an_ensemble(place, tmp_path):
    config = caption.Config(output=str(tmp_path / "run"), **{**SMALL, "epochs": 1})
    caption.train(config)
    folder = export_runs([place / "run", tmp_path / "run"], tmp_path / "both")
    (image,) = load_captions("scenes:240", "validation").sources[:1]
    assert SavedModel(folder)("serving_default", image_bytes=[image])["texts"].shape == (1, 2)
    config.epochs = 2
    caption.train(config)
    assert len(lines_of(tmp_path / "run" / "metrics.jsonl")) == 2


@pytest.mark.slow
def test_photos_through_a_network_of_keras(place, tmp_path):
    """A folder of one's own, a backbone that stays as it is, pieces of words."""
    for split in ("train", "validation"):
        examples = load_captions("scenes:240", split)
        write_images(examples, tmp_path / split)
        names = lines_of(tmp_path / split / "images.txt")
        rows = [f"{name}\t{texts[0]}" for name, texts in zip(names, examples.targets, strict=True)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    options = {"backbone": "MobileNetV2", "weights": "none", "size": 64, "pieces": 40, "epochs": 1}
    options = {**SMALL, **options, "data": str(tmp_path), "batch_tokens": 640, "max_length": 30}
    scores = caption.train(caption.Config(output=str(tmp_path / "run"), **options))
    assert set(scores) == {"bleu", "chrf"}
    folder = export_runs([tmp_path / "run"], tmp_path / "photos")
    jpeg = tf.io.encode_jpeg(np.zeros((300, 400, 3), "uint8")).numpy()
    assert SavedModel(folder)("align", image_bytes=[jpeg])["alignments"].shape[2] == 4
