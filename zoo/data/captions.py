"""Images with captions, as `Examples` whose sources are the contents of files."""

import pathlib

import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data.examples import Examples, licence_of, load_examples, open_tfds, read_split
from zoo.data.packed import untuned
from zoo.data.pairs import Report
from zoo.data.scenes import Scenes

SCENES = Scenes.name


def load_captions(data, split, size=None, cache=None):
    """Reads images and their captions into memory, as `Examples` with sources of bytes.

    Arguments:
        data: "scenes", which are drawn (see `draw_scene`), "scenes:NUMBER" for so many to train on;
            a folder with train.tsv and dev.tsv, on each line the file of an image, a tab, its
            caption, perhaps more tabs and captions, file names relative to the folder; or
            "tfds:NAME", such as "tfds:coco_captions".
        split: "train", "validation" or "test".
        size: int; an image of more pixels on its longer side is made so small, which saves memory.
        cache: a folder for prepared data, that of tensorflow-datasets by default.

    Example:

    ```python
    import pathlib, tempfile
    import tensorflow as tf
    from zoo.data import draw_scene, load_captions

    folder = pathlib.Path(tempfile.mkdtemp())
    pixels, caption = draw_scene(seed=5)
    tf.io.write_file(str(folder / "5.png"), tf.io.encode_png(pixels))
    (folder / "train.tsv").write_text(f"5.png\\t{caption}\\n")
    examples = load_captions(folder, "train", cache=folder)
    assert examples.targets == [[caption]] and examples.sources[0].startswith(b"\\x89PNG")
    ```
    """
    data = str(data)
    name, _, number = data.partition(":")
    if name == SCENES:
        if number and not (number.isdecimal() and int(number)):
            raise ValueError(f"`data` must be like scenes:24000. Received: {data}")
        return read_split(Scenes(int(number or 24000), data_dir=cache), split)
    if data.startswith("tfds:"):
        return _load_tfds(data.removeprefix("tfds:"), split, size, cache)
    if not pathlib.Path(data).is_dir():
        raise FileNotFoundError(
            f"`data` must be '{SCENES}', a folder or 'tfds:NAME'. "
            f"Received: {data}, which is no folder"
        )
    return _with_images(load_examples(data, split, cache=cache), pathlib.Path(data), size)


def write_images(examples, folder):
    """Writes images as files, and how they are to be evaluated.

    The folder then has the images, images.txt with their names, a line each, and captions.txt with
    their captions, tabs between several: `zoo evaluate MODEL --source images.txt --reference
    captions.txt`.

    Arguments:
        examples: `Examples` with sources of bytes.
        folder: path.

    Example:

    ```python
    import tempfile
    from zoo.data import Examples, Report, write_images

    folder = tempfile.mkdtemp()
    write_images(Examples([b"\\x89PNG"], [["a dog"]], Report(1), "none"), folder)
    ```
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for i, image in enumerate(examples.sources):
        ending = "jpg" if image.startswith(b"\xff\xd8") else "png"
        files.append(folder / f"{i:06d}.{ending}")
        files[-1].write_bytes(image)
    (folder / "images.txt").write_text("".join(f"{file}\n" for file in files), encoding="utf-8")
    captions = "".join("\t".join(texts) + "\n" for texts in examples.targets)
    (folder / "captions.txt").write_text(captions, encoding="utf-8")


def _with_images(examples, folder, size):
    """Examples whose sources were names of files, with what is in them."""
    report, sources, targets = Report(**vars(examples.report)), [], []
    for name, texts in zip(examples.sources, examples.targets, strict=True):
        try:
            sources.append(_smaller((folder / name).read_bytes(), size))
            targets.append(texts)
        except OSError as error:
            report.skip(name, error.strerror)
        except tf.errors.InvalidArgumentError:
            report.skip(name, "no image")
    report.examples = len(sources)
    if not sources:
        raise ValueError(f"There is no image in {folder}: {report}")
    return Examples(sources, targets, report, examples.licence)


def _smaller(image, size):
    """An encoded image of at most `size` pixels on its longer side, or TensorFlow's error."""
    pixels = tf.io.decode_image(image, expand_animations=False)
    longest = max(pixels.shape[:2])
    if size is None or longest <= size or pixels.shape[2] not in (1, 3):
        return image
    sides = [max(1, round(side * size / longest)) for side in pixels.shape[:2]]
    pixels = tf.image.resize(pixels, sides, antialias=True)
    return tf.io.encode_jpeg(tf.saturate_cast(tf.round(pixels), tf.uint8), quality=95).numpy()


def _load_tfds(name, split, size, cache):
    builder, split = open_tfds(name, split, cache)
    image, captions = _features(name, builder.info.features)
    dataset = builder.as_dataset(split, decoders={image: tfds.decode.SkipDecoding()})
    report, sources, targets = Report(), [], []
    for i, example in enumerate(tfds.as_numpy(untuned(dataset))):
        texts = example
        for key in captions:
            texts = texts[key]
        texts = [texts] if isinstance(texts, bytes) else list(texts)
        texts = [text.decode("utf-8", "replace").strip() for text in texts]
        texts = [" ".join(text.split()) for text in texts if text]
        if not texts:
            report.skip(f"example {i}", "no caption")
            continue
        report.examples += 1
        sources.append(_smaller(example[image], size))
        targets.append(texts)
    return Examples(sources, targets, report, licence_of(builder.info))


def _features(name, features):
    """The name of the image, and the path to its captions: ["captions", "text"] for example."""
    images = [key for key, one in features.items() if isinstance(one, tfds.features.Image)]
    paths = [path for key, one in features.items() for path in _texts(one, [key])]
    wanted = [path for path in paths if path[0].startswith(("caption", "text", "description"))]
    if len(images) != 1 or not wanted:
        raise ValueError(
            "`data` must be a set of images with captions. Received: "
            f"tfds:{name}, which has {sorted(features)}"
        )
    return images[0], wanted[0]


def _texts(feature, path):
    """The paths to strings in a feature."""
    inner = getattr(feature, "feature", feature)  # of a Sequence
    if isinstance(inner, tfds.features.Tensor) and inner.tf_dtype == tf.string:
        return [path] if inner.shape == () else []
    if isinstance(inner, tfds.features.FeaturesDict):
        return [found for key, one in inner.items() for found in _texts(one, [*path, key])]
    return []
