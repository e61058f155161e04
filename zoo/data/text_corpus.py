import pathlib

import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data.builders import PairsBuilder, config_of
from zoo.data.examples import Examples, licence_of, open_tfds, prepare, require_split
from zoo.data.lines import read_lines
from zoo.data.packed import untuned
from zoo.data.pairs import SPLIT_NAMES, Report


class TextCorpus(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A folder of texts, whose examples are their lines, the empty ones too.

    Its files are train.txt and valid.txt (or validation, val, dev), also with .gz behind, or
    wiki.train.tokens and wiki.valid.tokens, as WikiText comes.
    """

    VERSION = PairsBuilder.VERSION
    name = "text_corpus"

    def __init__(self, folder, **kwargs):
        self.folder = pathlib.Path(folder)
        self.files = _find(self.folder)
        super().__init__(config=config_of(self.folder.resolve().name, self.files), **kwargs)

    def _info(self):
        return self.dataset_info_from_configs(
            description=self.__doc__,
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
            disable_shuffling=True,  # lines keep their order
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(*paths) for split, paths in self.files.items()}

    def _generate_examples(self, path):
        for number, line in enumerate(read_lines(path)):
            yield number, {"text": line}


def load_text(data, split, feature=None, cache=None):
    """Reads the lines of a text into memory, as the sources of `Examples` without targets.

    Arguments:
        data: a folder of files (see `TextCorpus`), or "tfds:NAME", a data set of
            tensorflow-datasets that has texts; the lines of each example are lines of the text.
        split: "train", "validation" or "test".
        feature: the name of the text in a "tfds:" set, by default the only one that is a text.
        cache: a folder for prepared data, that of tensorflow-datasets by default.

    Example:

    ```python
    import pathlib, tempfile
    from zoo.data import load_text

    folder = pathlib.Path(tempfile.mkdtemp())
    for split in ("train", "valid"):
        (folder / f"{split}.txt").write_text("= A title =\\n\\nA line .\\n")
    text = load_text(folder, "validation", cache=folder)
    assert text.sources == ["= A title =", "", "A line ."]
    ```
    """
    data = str(data)
    tfds.disable_progress_bar()
    if data.startswith("tfds:"):
        builder, split = open_tfds(data.removeprefix("tfds:"), split, cache)
        feature = _text_of(builder, feature, data)
    elif pathlib.Path(data).is_dir():
        builder, feature = TextCorpus(data, data_dir=cache), "text"
        prepare(builder)
        require_split(builder, split)
    else:
        raise FileNotFoundError(
            f"`data` must be a folder of texts or 'tfds:NAME'. Received: {data}, which is no folder"
        )
    lines = []
    for texts in untuned(builder.as_dataset(split).batch(1024)):
        for text in texts[feature].numpy():
            # (not str.splitlines: it knows ends of lines that files have not)
            text = text.decode("utf-8", "replace").replace("\r\n", "\n")
            lines += text.removesuffix("\n").split("\n")
    lines = [line.strip() for line in lines]
    if not any(lines):
        raise ValueError(f"{data} has no text for {split}")
    return Examples(lines, [], Report(examples=len(lines)), licence_of(builder.info))


def _text_of(builder, feature, data):
    # A `Text` is such a tensor too; not all that is text is a `Text`.
    tensors = {
        name: one
        for name, one in builder.info.features.items()
        if isinstance(one, tfds.features.Tensor) and one.shape == ()
    }
    texts = [name for name, one in tensors.items() if one.tf_dtype == tf.string]
    feature = feature or (texts[0] if len(texts) == 1 else None)
    if feature not in texts:
        raise ValueError(
            f"`feature` must name one of the texts of {data}, which are {texts}. "
            f"Received: feature={feature}"
        )
    return feature


def _find(folder):
    """The file of each split in a folder, {split: [path]}."""
    files = {file.name.removesuffix(".gz"): file for file in sorted(folder.iterdir())}
    found = {}
    for split, names in SPLIT_NAMES.items():
        wanted = [name for one in names for name in (f"{one}.txt", f"wiki.{one}.tokens")]
        there = [files[name] for name in wanted if name in files]
        found |= {split: there[:1]} if there else {}
    for split in ("train", "validation"):
        if split not in found:
            name = SPLIT_NAMES[split][-1]
            raise FileNotFoundError(
                f"{folder} should hold {name}.txt or wiki.{name}.tokens (or with .gz behind), "
                f"but it has {', '.join(sorted(files)) or 'nothing'}"
            )
    return found
