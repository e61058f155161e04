import gzip

import pytest
import tensorflow_datasets as tfds

from zoo.data import load_text

TEXT = " \n = A title = \n \nThe dog barks at a <unk> .\r\n"
LINES = ["", "= A title =", "", "The dog barks at a <unk> ."]


class Plays(tfds.core.GeneratorBasedBuilder):
    """A set in the layout of tensorflow-datasets, as tiny_shakespeare is one: texts of lines."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        texts = {"text": tfds.features.Text(), "author": tfds.features.Text()}
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(texts))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(), "validation": self._generate_examples()}

    def _generate_examples(self):
        yield 0, {"text": TEXT, "author": "nobody"}


@pytest.mark.parametrize("name", ["valid.txt", "wiki.valid.tokens", "dev.txt.gz"])
def test_the_lines_of_a_folder(name, tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "train.txt").write_text("one\ntwo\n")
    data = TEXT.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    text = load_text(folder, "validation", cache=tmp_path)
    assert text.sources == LINES
    assert str(text.report) == "4 examples"
    assert load_text(folder, "train", cache=tmp_path).sources == ["one", "two"]
    (folder / "train.txt").write_text("three\n")  # another file is another text
    assert load_text(folder, "train", cache=tmp_path).sources == ["three"]


def test_a_set_of_tensorflow_datasets(tmp_path):
    Plays(data_dir=tmp_path).download_and_prepare()
    assert load_text("tfds:plays", "validation", "text", cache=tmp_path).sources == LINES
    with pytest.raises(ValueError, match=r"one of the texts of tfds:plays, .*author.*=None"):
        load_text("tfds:plays", "train", cache=tmp_path)
    with pytest.raises(ValueError, match="`split` must be one of .*'test'"):
        load_text("tfds:plays", "test", "text", cache=tmp_path)
    with pytest.raises(ValueError, match="Received: tfds:no_plays"):
        load_text("tfds:no_plays", "train", cache=tmp_path)


def test_what_is_not_there_is_told(tmp_path):
    (tmp_path / "train.txt").write_text("one\n")
    with pytest.raises(FileNotFoundError, match=r"should hold dev.txt or .*it has train.txt"):
        load_text(tmp_path, "train", cache=tmp_path / "cache")
    with pytest.raises(FileNotFoundError, match="a folder of texts or 'tfds:NAME'"):
        load_text(tmp_path / "nowhere", "train")
    (tmp_path / "dev.txt").write_text("\n\n")
    with pytest.raises(ValueError, match="has no text for validation"):
        load_text(tmp_path, "validation", cache=tmp_path / "cache")
