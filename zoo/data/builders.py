"""The data sets, as tensorflow-datasets builders."""

import dataclasses
import hashlib
import pathlib

import tensorflow_datasets as tfds

from zoo.data.pairs import Report, find_splits, read_pairs

HERE = pathlib.Path(__file__).parent


class _PairsBuilder(tfds.core.GeneratorBasedBuilder):
    """Base class: examples are {"source": text, "targets": [text, ...]}.

    What was read and what was skipped stands in `builder.info.metadata["reports"]`, by split.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _splits(self):
        raise NotImplementedError

    def _pairs_info(self, **about):
        features = {
            "source": tfds.features.Text(),
            "targets": tfds.features.Sequence(tfds.features.Text()),
        }
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features),
            metadata=tfds.core.MetadataDict(reports={}),
            disable_shuffling=True,  # examples keep the order of their lines
            **about,
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split, p) for split, p in self._splits().items()}

    def _generate_examples(self, split, paths):
        report = Report()
        yield from enumerate(read_pairs(paths, report))
        if not report.examples:
            raise ValueError(f"There is no good line for {split}: {report}")
        self.info.metadata["reports"][split] = dataclasses.asdict(report)


class CmuDict(_PairsBuilder):
    """The CMU Pronouncing Dictionary in its standard split for grapheme-to-phoneme conversion.

    "train" has one pronunciation an example (a word with several is several examples), "validation"
    all pronunciations of a word. The 12,000 test words of the literature are not in it.
    """

    name = "cmu_dict"

    def _info(self):
        return self._pairs_info(
            description=self.__doc__, license="BSD-style, see zoo/data/cmudict/LICENSE"
        )

    def _splits(self):
        folder = HERE / "cmudict"
        return {"train": [folder / "train.tsv.gz"], "validation": [folder / "dev.tsv.gz"]}


class ParallelCorpus(_PairsBuilder, skip_registration=True):
    """A folder of files of one's own: train.tsv, or train.SOURCE and train.TARGET, and so on."""

    name = "parallel_corpus"

    def __init__(self, folder, source=None, target=None, **kwargs):
        self.folder = folder
        self.files = find_splits(pathlib.Path(folder), source, target)
        # Prepared once for these contents: another file is another configuration.
        digest = hashlib.sha256()
        for split, paths in self.files.items():
            for path in paths:
                digest.update(f"{split} {path.name} ".encode())
                digest.update(path.read_bytes())
        name = f"{pathlib.Path(folder).resolve().name}_{digest.hexdigest()[:16]}"
        config = tfds.core.BuilderConfig(name=name, version=self.VERSION)
        super().__init__(config=config, **kwargs)

    def _info(self):
        return self._pairs_info(description=self.__doc__)

    def _splits(self):
        return self.files
