import contextlib
import pathlib
import sys
from typing import NamedTuple

import tensorflow as tf
import tensorflow_datasets as tfds

from zoo.data.builders import CmuDict, Multi30k, ParallelCorpus, is_tsv
from zoo.data.packed import untuned
from zoo.data.pairs import SPLIT_NAMES, Report
from zoo.errors import UsageError, first_line


class Examples(NamedTuple):
    """One split of a data set, in memory."""

    sources: list  # of str; of bytes, where they are images
    targets: list  # of lists of str: all that are right
    report: Report
    licence: str

    def pairs(self):
        """The sources and the targets of a training: a source once with each of its targets."""
        pairs = [(s, t) for s, all in zip(self.sources, self.targets, strict=True) for t in all]
        return [s for s, _ in pairs], [t for _, t in pairs]


def load_examples(data, split, source=None, target=None, cache=None, most_characters=None):
    """Reads one split of a data set into memory.

    Arguments:
        data: "cmu_dict", which the zoo ships; "multi30k", which it downloads, or "multi30k:FOLDER";
            a folder of files, or a .tsv to train on (see `ParallelCorpus`); or "tfds:NAME", any
            data set of tensorflow-datasets with two texts an example.
        split: "train", "validation" or "test".
        source, target: the endings of the files in a folder, the keys in its files of JSON lines,
            or the features of a "tfds:" set (by default its supervised keys).
        cache: a folder for prepared data, that of tensorflow-datasets by default.
        most_characters: int, those of a text in a folder's files; lines with more are skipped. By
            default 5,000.

    Example:

    ```python
    from zoo.data import load_examples

    examples = load_examples("cmu_dict", "validation")
    assert len(examples.sources) == 5447
    print(examples.sources[0], examples.targets[0])
    ```
    """
    data = str(data)
    if bool(source) != bool(target) or (source and source == target):
        raise UsageError(
            "`source` and `target` must name two different sides of the pairs, or none. "
            f"Received: source={source}, target={target}"
        )
    if data == CmuDict.name:
        builder = CmuDict(data_dir=cache)
    elif data == Multi30k.name or data.startswith(f"{Multi30k.name}:"):
        folder = data.removeprefix(Multi30k.name).removeprefix(":")
        builder = Multi30k(source, target, folder, data_dir=cache)
    elif data.startswith("tfds:"):
        return _load_tfds(data.removeprefix("tfds:"), split, source, target, cache)
    elif pathlib.Path(data).is_dir() or is_tsv(data):
        builder = ParallelCorpus(data, source, target, most_characters, data_dir=cache)
    else:
        raise FileNotFoundError(
            "`data` must be a folder, a .tsv, 'cmu_dict', 'multi30k' or 'tfds:NAME'. "
            f"Received: {data}, which is no folder"
        )
    return read_split(builder, split)


def read_split(builder, split):
    """Reads one split of a `PairsBuilder` into memory."""
    tfds.disable_progress_bar()
    prepare(builder)
    require_split(builder, split)
    sources, targets = [], []
    are_images = isinstance(builder.info.features["source"], tfds.features.Image)
    decoders = {"source": tfds.decode.SkipDecoding()} if are_images else None
    dataset = builder.as_dataset(split, decoders=decoders)
    for batch in untuned(dataset.ragged_batch(4096)):  # many times faster than one by one
        read = batch["source"].numpy().tolist()
        sources += read if are_images else [text.decode("utf-8") for text in read]
        targets += [[text.decode("utf-8") for text in row] for row in batch["targets"].to_list()]
    report = Report(**builder.info.metadata["reports"][split])
    return Examples(sources, targets, report, licence_of(builder.info))


def prepare(builder):
    """Prepares a data set where it is not prepared yet."""
    is_away = isinstance(builder, Multi30k) and not builder.folder
    if is_away and not builder.data_path.exists():
        print(f"downloading {builder.ADDRESS}", file=sys.stderr, flush=True)
    try:
        with contextlib.redirect_stdout(None):  # it would speak of a download
            _prepare_or_take(builder)
    except (OSError, tfds.download.DownloadError) as error:
        if not is_away:
            raise
        wanted = [f"{builder.FILES['train']}.{language}.gz" for language in builder.languages]
        raise ConnectionError(
            f"{builder.ADDRESS} cannot be reached. Give a folder with {', '.join(wanted)} and so "
            "on, as multi30k:FOLDER"
        ) from error


def _prepare_or_take(builder):
    """Prepares a data set, or takes what another process has prepared in the meantime.

    Each prepares in a folder of its own and renames it: what has the right name is whole.
    """
    try:
        builder.download_and_prepare()
    except Exception:
        if not builder.data_path.exists():
            raise
        builder.info.read_from_directory(builder.data_dir)
    if not builder.info.initialized:  # it was there before this one began, but not long before
        builder.info.read_from_directory(builder.data_dir)


def open_tfds(name, split, cache=None):
    """The builder of a data set of tensorflow-datasets, prepared, and its name of a split."""
    tfds.disable_progress_bar()
    try:
        builder = tfds.builder(name, data_dir=cache)
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(
            "`data` must name a data set of tensorflow-datasets. "
            f"Received: tfds:{name}, which it does not know"
        ) from error
    try:
        _prepare_or_take(builder)
    except (OSError, tfds.download.DownloadError) as error:
        if getattr(error, "errno", None):  # a file's
            raise
        raise ConnectionError(
            f"tfds:{name} cannot be downloaded: {first_line(error)}. Prepare it where it can be, "
            f"and copy it to {builder.data_dir}, or give a folder"
        ) from error
    names = [name for name in SPLIT_NAMES.get(split, ()) if name in builder.info.splits]
    split = names[0] if names else split
    require_split(builder, split)
    return builder, split


def _load_tfds(name, split, source, target, cache):
    builder, split = open_tfds(name, split, cache)
    keys = (source, target) if source else builder.info.supervised_keys
    texts = [key for key, feature in builder.info.features.items() if _is_text(feature)]
    if not keys or any(key not in texts for key in keys[:2]):
        raise ValueError(
            f"`source` and `target` must name two texts of tfds:{name}, which has {sorted(texts)}. "
            f"Received: source={source}, target={target}"
        )
    report, sources, targets = Report(), [], []
    for i, example in enumerate(tfds.as_numpy(untuned(builder.as_dataset(split)))):
        one, other = (example[key].decode("utf-8", "replace").strip() for key in keys[:2])
        if one and other:
            report.examples += 1
            sources.append(one)
            targets.append([other])
        else:
            report.skip(f"example {i}", "empty text")
    return Examples(sources, targets, report, licence_of(builder.info))


def _is_text(feature):
    spec = feature.get_tensor_spec()
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string and spec.shape.rank == 0


def require_split(builder, split):
    if split not in builder.info.splits and getattr(builder, "folder", None):
        names = " or ".join(SPLIT_NAMES[split])
        raise FileNotFoundError(
            f"{builder.folder} should hold files for {split} too, named {names}, but it has only "
            f"{', '.join(builder.info.splits)}"
        )
    if split not in builder.info.splits:
        raise ValueError(
            f"`split` must be one of {sorted(builder.info.splits)}, which are all that "
            f"{builder.name} has. Received: split={split!r}"
        )


def licence_of(info):
    """What a data set says of its licence."""
    return info.as_proto.redistribution_info.license or "not stated"
