"""Whatever bytes come in, there are pixels, and each image has its own."""

import io
import warnings

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from zoo.data import Batches
from zoo.image import ImageReader
from zoo.serving.check.images import awkward_images

READER = ImageReader(size=32, patch=8)
READ = tf.function(READER.read, input_signature=[tf.TensorSpec((None,), tf.string)])


def encoded(mode, colour, kind="PNG", size=(20, 12), **options):
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, kind, **options)
    return file.getvalue()


def frames(*colours):
    file, pictures = io.BytesIO(), [Image.new("RGB", (20, 20), colour) for colour in colours]
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:])
    return file.getvalue()


# What a file is, and the colour in its middle.
FILES = {
    "PNG": (encoded("RGB", (10, 20, 30)), (10, 20, 30)),
    "black": (encoded("RGB", (0, 0, 0)), (1, 1, 1)),
    "grey": (encoded("L", 77), (77, 77, 77)),
    "one bit": (encoded("1", 1), (255, 255, 255)),
    "palette": (encoded("P", 0), (1, 1, 1)),
    "16 bits": (encoded("I;16", 40000), (156, 156, 156)),
    "clear": (encoded("RGBA", (9, 9, 9, 0)), (255, 255, 255)),
    "half clear": (encoded("RGBA", (255, 0, 0, 128)), (255, 127, 127)),
    "half clear grey": (encoded("LA", (0, 128)), (127, 127, 127)),
    "JPEG": (encoded("RGB", (200, 100, 50), "JPEG"), (200, 100, 50)),
    "grey JPEG": (encoded("L", 99, "JPEG"), (99, 99, 99)),
    "CMYK": (encoded("CMYK", (0, 255, 255, 0), "JPEG"), (255, 1, 1)),
    "progressive": (encoded("RGB", (9, 200, 9), "JPEG", progressive=True), (9, 200, 9)),
    "GIF": (frames((255, 0, 0), (0, 255, 0)), (255, 1, 1)),
    "BMP": (encoded("RGB", (4, 5, 6), "BMP"), (4, 5, 6)),
    "WebP": (encoded("RGB", (200, 2, 3), "WEBP"), (200, 2, 3)),
    "one pixel": (encoded("RGB", (5, 6, 7), size=(1, 1)), (5, 6, 7)),
    "large": (encoded("L", 9, size=(9000, 9000)), (9, 9, 9)),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_of_many_kinds(kind):
    file, colour = FILES[kind]
    pixels = READ([file])[0, 15, 15].numpy().astype(int)
    assert np.abs(pixels - colour).max() <= 3


def test_a_picture_keeps_its_sides_and_stands_in_the_middle():
    pixels = READ([FILES["PNG"][0]])[0].numpy()  # 20 x 12
    is_picture = pixels.any(-1)
    rows, columns = np.flatnonzero(is_picture.any(1)), np.flatnonzero(is_picture.any(0))
    assert (len(rows), len(columns)) == (19, 32)  # 32 * 12 / 20, rounded
    assert (rows[0], rows[-1]) == (6, 24)
    assert READ([encoded("L", 9, size=(5000, 1))])[0].numpy().any(-1).sum() == 32


def test_a_picture_is_scaled_as_others_scale_it():
    picture = np.random.default_rng(0).integers(0, 256, (90, 90, 3), "uint8")
    picture = np.asarray(Image.fromarray(picture).resize((90, 90), Image.Resampling.BOX))
    smooth = np.asarray(Image.fromarray(picture).resize((32, 32), Image.Resampling.BILINEAR))
    ours = READ([tf.io.encode_png(picture).numpy()])[0].numpy().astype(int)
    assert np.abs(ours - np.maximum(smooth, 1)).max() <= 2


def test_what_is_no_image_is_nothing_and_disturbs_nobody():
    good = [file for file, _ in FILES.values()]
    halves = [file[: len(file) // 2] for file in good[:3]]
    bad = [b"", b"text", b"\x00" * 99, *halves, encoded("RGB", 1, "TIFF")]
    bad += [encoded("L", 0, size=(20_000, 20_000))]  # which has 2**28 pixels and more
    bad += [encoded("LA", 0, size=(6000, 6000))]  # and 2**26, where they may be clear
    mixed = [file for pair in zip(bad, good, strict=False) for file in pair]
    pixels = READ(mixed).numpy()
    assert not pixels[::2].any()
    np.testing.assert_array_equal(pixels[1::2], READ(good[: len(bad)]))
    assert READ(tf.constant([], tf.string)).shape == (0, 32, 32, 3)


def test_awkward_images_are_what_they_are_called():
    images = awkward_images(FILES["PNG"][0])
    there = READER.lengths(READ(list(images.values()))).numpy() == 16
    none = [name for name, is_there in zip(images, there, strict=True) if not is_there]
    assert none[:6] == list(images)[:6]
    assert none[6:] == [name for name in images if "that says" in name]
    with warnings.catch_warnings(), Image.open(io.BytesIO(images["a JPEG in CMYK"])) as picture:
        assert picture.mode == "CMYK"
    with Image.open(io.BytesIO(images["a GIF of two pictures"])) as picture:
        assert picture.n_frames == 2


def test_positions_have_names():
    pixels = READ([FILES["PNG"][0], b""])
    tokens = READER.tokens(pixels).numpy()
    assert tokens.shape == (2, 16)
    assert tokens[0, [0, 3, 4, 15]].tolist() == [b"0,0", b"0,3", b"1,0", b"3,3"]
    assert set(tokens[1]) == {b""}


def test_batches_look_images_up():
    files = [FILES[kind][0] for kind in ("PNG", "grey", "JPEG")]
    ids, table = READER.encode([*files, files[1]])
    assert ids == [[1], [2], [3], [2]]  # the second and the last are one
    targets = [[4, 5], [6], [7, 8], [9]]
    batches = Batches(ids, targets, batch_tokens=9, num_buckets=1, look_up=table)
    by_target = dict(zip(map(tuple, targets), READ([*files, files[1]]).numpy(), strict=True))
    count = 0
    for epoch in (0, 1):
        for batch in batches.epoch(epoch).as_numpy_iterator():
            assert batch["source"].shape == (3, 32, 32, 3)
            for image, target in zip(batch["source"], batch["target"], strict=True):
                wanted = by_target.get(tuple(i for i in target if i > 3), np.zeros_like(image))
                np.testing.assert_array_equal(image, wanted)
                count += wanted.any()
    assert count == 8
    # Another picture is another training.
    _, other = READER.encode([*files[:2], FILES["BMP"][0]])
    assert other.fingerprint != table.fingerprint
    again = Batches(ids, targets, batch_tokens=9, num_buckets=1, look_up=other)
    assert again.fingerprint != batches.fingerprint


@pytest.mark.parametrize(("size", "patch"), [(0, 1), (32, 5)])
def test_errors_say_what_was_received(size, patch):
    with pytest.raises(ValueError, match="Received: "):
        ImageReader(size, patch)
