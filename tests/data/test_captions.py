import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data import load_captions, write_images


def picture(side, colour, encode=tf.io.encode_png):
    return encode(np.full((side, 2 * side, 3), colour, "uint8")).numpy()


class TinyCaptions(tfds.core.GeneratorBasedBuilder):
    """Photos with captions in the layout of coco_captions."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        text = {"text": np.str_, "id": np.int64}  # as it is written there
        features = {
            "image": tfds.features.Image(encoding_format="jpeg"),
            "image/filename": tfds.features.Text(),
            "image/id": tfds.features.Scalar(np.int64),
            "captions": tfds.features.Sequence(text),
            "objects": tfds.features.Sequence({"label": tfds.features.ClassLabel(num_classes=3)}),
        }
        features = tfds.features.FeaturesDict(features)
        return self.dataset_info_from_configs(features=features, disable_shuffling=True)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(3), "val": self._generate_examples(1)}

    def _generate_examples(self, count):
        for i in range(count):
            texts = [f"A dog  number {i}.", "", "Some\ndog."] if i != 1 else []
            yield (
                i,
                {
                    "image": np.full((60, 100, 3), 50 * i, "uint8"),
                    "image/filename": f"{i}.jpg",
                    "image/id": i,
                    "captions": [{"id": j, "text": text} for j, text in enumerate(texts)],
                    "objects": [{"label": 1}],
                },
            )


def test_photos_of_tensorflow_datasets(tmp_path):
    examples = load_captions("tfds:tiny_captions", "train", size=50, cache=tmp_path)
    assert examples.targets == [["A dog number 0.", "Some dog."], ["A dog number 2.", "Some dog."]]
    assert examples.report.messages == ["example 1: no caption"]
    pixels = tf.io.decode_image(examples.sources[1]).numpy()
    assert pixels.shape == (30, 50, 3)  # made smaller
    assert np.abs(pixels.astype(int) - 100).max() <= 3
    whole = load_captions("tfds:tiny_captions", "train", cache=tmp_path)
    assert tf.io.decode_image(whole.sources[0]).shape == (60, 100, 3)
    # Each caption of a photo is trained on.
    sources, targets = examples.pairs()
    assert len(sources) == len(targets) == 4
    assert sources[0] == sources[1]
    # coco_captions calls its dev part "val".
    assert len(load_captions("tfds:tiny_captions", "validation", cache=tmp_path).sources) == 1


def test_the_true_coco_captions_has_what_is_looked_for():
    from zoo.data.captions import _features

    features = tfds.builder("coco_captions").info.features
    assert _features("coco_captions", features) == ("image", ["captions", "text"])
    digits = tfds.builder("mnist").info.features
    with pytest.raises(ValueError, match="images with captions. Received: tfds:mnist, which has"):
        _features("mnist", digits)


def test_a_folder_of_files(tmp_path):
    folder = tmp_path / "photos"
    (folder / "sea").mkdir(parents=True)
    (folder / "sea" / "a.png").write_bytes(picture(10, 1))
    (folder / "b.jpg").write_bytes(picture(80, 200, tf.io.encode_jpeg))
    (folder / "c.png").write_bytes(b"no image")
    lines = ["sea/a.png\tthe sea\tblue water", "b.jpg\ta wall", "c.png\tx", "d.png\ty", "no tab"]
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    examples = load_captions(folder, "train", size=64, cache=tmp_path / "cache")
    assert examples.targets == [["the sea", "blue water"], ["a wall"]]
    assert examples.sources[0] == picture(10, 1)  # as it is
    assert tf.io.decode_image(examples.sources[1]).shape == (32, 64, 3)
    assert examples.report.messages == [
        "train.tsv:5: no tab",
        "c.png: no image",
        "d.png: No such file or directory",
    ]
    assert str(examples.report).startswith("2 examples, 3 lines skipped")
    write_images(examples, tmp_path / "out")
    out = tmp_path / "out"
    assert (out / "images.txt").read_text() == f"{out}/000000.png\n{out}/000001.jpg\n"
    assert (out / "captions.txt").read_text() == "the sea\tblue water\na wall\n"
    assert (out / "000000.png").read_bytes() == picture(10, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("no/such/folder", "must be 'scenes', a folder or 'tfds:NAME'"),
        ("scenes:many", "must be like scenes:24000. Received: scenes:many"),
        ("tfds:tiny_translate_of_captions", "which it does not know"),
    ],
)
def test_errors_say_what_was_received(data, message, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_captions(data, "train", cache=tmp_path)
