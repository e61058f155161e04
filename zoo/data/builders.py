"""The data sets, as tensorflow-datasets builders."""

import dataclasses
import hashlib
import pathlib

import tensorflow_datasets as tfds

from zoo.data.pairs import (
    JSON_LINES,
    MOST_CHARACTERS,
    Report,
    find_splits,
    json_fields,
    read_pairs,
    tsv_fields,
)

HERE = pathlib.Path(__file__).parent


class PairsBuilder(tfds.core.GeneratorBasedBuilder):
    """Base class: examples are {"source": text or image, "targets": [text, ...]}.

    What was read and what was skipped stands in `builder.info.metadata["reports"]`, by split.
    """

    VERSION = tfds.core.Version("1.0.0")
    source_feature = tfds.features.Text()

    def _splits(self, dl_manager):
        """The files of each split, as `read_pairs` takes them."""
        raise NotImplementedError

    _fields = staticmethod(tsv_fields)  # of a line of a file that has source and targets
    most_characters = MOST_CHARACTERS  # of a text; a line with more is skipped

    def _pairs_info(self, **about):
        features = {
            "source": self.source_feature,
            "targets": tfds.features.Sequence(tfds.features.Text()),
        }
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features),
            metadata=tfds.core.MetadataDict(reports={}),
            disable_shuffling=True,  # examples keep the order of their lines
            **about,
        )

    def _split_generators(self, dl_manager):
        splits = self._splits(dl_manager)
        return {split: self._generate_examples(split, paths) for split, paths in splits.items()}

    def _examples(self, split, paths, report):
        """Yields the examples of a split, and tells the report of them."""
        return read_pairs(paths, report, self.most_characters, self._fields)

    def _generate_examples(self, split, paths):
        report = Report()
        yield from enumerate(self._examples(split, paths, report))
        if not report.examples:
            raise ValueError(f"There is no good line for {split}: {report}")
        self.info.metadata["reports"][split] = dataclasses.asdict(report)


class CmuDict(PairsBuilder):
    """The CMU Pronouncing Dictionary in its standard split for grapheme-to-phoneme conversion.

    "train" has one pronunciation an example (a word with several is several examples), "validation"
    all pronunciations of a word. The 12,000 test words of the literature are not in it.
    """

    name = "cmu_dict"

    def _info(self):
        return self._pairs_info(
            description=self.__doc__, license="BSD-style, see zoo/data/cmudict/LICENSE"
        )

    def _splits(self, dl_manager):
        folder = HERE / "cmudict"
        return {"train": [folder / "train.tsv.gz"], "validation": [folder / "dev.tsv.gz"]}


class ParallelCorpus(PairsBuilder, skip_registration=True):
    """A folder of files of one's own: train.tsv, or train.SOURCE and train.TARGET, and so on.

    Or train.jsonl, where an object on each line has the texts under the keys SOURCE and TARGET. Or
    one file to train on, NAME.tsv, where validation and test are beside it.
    """

    name = "parallel_corpus"

    def __init__(self, folder, source=None, target=None, most_characters=None, **kwargs):
        path = pathlib.Path(folder)
        if is_tsv(path):
            self.folder, self.files = path.parent, find_splits(path.parent, train=path)
        else:
            self.folder, self.files = path, find_splits(path, source, target)
        reading = {}  # beside the files, what decides what is read of them
        if most_characters:
            reading["most_characters"] = self.most_characters = most_characters
        if any(JSON_LINES in path.suffixes for paths in self.files.values() for path in paths):
            reading["keys"] = source, target
            self._fields = json_fields(source, target)
        config = config_of(path.resolve().name, self.files, reading)
        super().__init__(config=config, **kwargs)

    def _info(self):
        return self._pairs_info(description=self.__doc__)

    def _splits(self, dl_manager):
        return self.files


class Multi30k(PairsBuilder):
    """Multi30k: 31,014 captions of pictures in several languages, and 1,000 to test on.

    Elliott et al. 2016 (German), 2017 (French), Barrault et al. 2018 (Czech). "test" is that of
    2016. The files are downloaded, or read from a folder.
    """

    name = "multi30k"
    ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
    FILES = {"train": "train", "validation": "val", "test": "test_2016_flickr"}

    def __init__(self, source=None, target=None, folder=None, **kwargs):
        self.folder = folder
        self.languages = (source or "en", target or "de")
        self.files = find_splits(pathlib.Path(folder), *self.languages) if folder else {}
        config = config_of("_".join(self.languages), self.files)
        super().__init__(**{**kwargs, "config": config})

    def _info(self):
        return self._pairs_info(
            description=self.__doc__,
            homepage="https://github.com/multi30k/dataset",
            license="research and education only, not commercial (Multi30k and Flickr30k)",
        )

    def _splits(self, dl_manager):
        addresses = {
            split: [f"{self.ADDRESS}/{file}.{language}.gz" for language in self.languages]
            for split, file in self.FILES.items()
        }
        return self.files or dl_manager.download(addresses)


def is_tsv(path):
    """Whether a path is a file of lines with tabs, by its name; also with .gz behind."""
    path = pathlib.Path(path)
    return path.name.removesuffix(".gz").endswith(".tsv") and path.is_file()


def config_of(name, files, reading=None):
    """Prepared once for these contents, read so: another file is another configuration."""
    digest = hashlib.sha256()
    for split, paths in files.items():
        for path in paths:
            digest.update(f"{split} {path.name} ".encode())
            digest.update(path.read_bytes())
    if reading:
        digest.update(repr(reading).encode())
    name = f"{name}_{digest.hexdigest()[:16]}" if files else name
    return tfds.core.BuilderConfig(name=name, version=PairsBuilder.VERSION)
