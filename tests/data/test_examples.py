import gzip
import http.server
import pathlib
import threading

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import downloader

from zoo.data import CmuDict, Multi30k, builders, load_examples


@pytest.mark.slow
class CmuDictTest(tfds.testing.DatasetBuilderTestCase):
    """tensorflow-datasets' own checks of a builder."""

    DATASET_CLASS = CmuDict
    EXAMPLE_DIR = builders.HERE / "cmudict"  # it downloads nothing
    SPLITS = {"train": 107327, "validation": 5447}
    SKIP_CHECKSUMS = True
    SKIP_TF1_GRAPH_MODE = True


class Multi30kTest(tfds.testing.DatasetBuilderTestCase):
    """What would be downloaded, as the files that stand in for it."""

    DATASET_CLASS = Multi30k
    EXAMPLE_DIR = pathlib.Path(__file__).parent / "multi30k"
    SPLITS = {"train": 3, "validation": 2, "test": 1}
    DL_EXTRACT_RESULT = DL_DOWNLOAD_RESULT = {
        split: [f"{file}.{language}.gz" for language in ("en", "de")]
        for split, file in Multi30k.FILES.items()
    }
    OVERLAPPING_SPLITS = ["validation", "test"]
    SKIP_CHECKSUMS = True
    SKIP_TF1_GRAPH_MODE = True


def test_multi30k_from_a_folder(tmp_path):
    folder = pathlib.Path(__file__).parent / "multi30k"
    examples = load_examples(f"multi30k:{folder}", "test", "de", "en", cache=tmp_path)
    assert examples.sources == ["Ein Hund schläft."]
    assert examples.targets == [["A dog sleeps."]]
    assert "not commercial" in examples.licence
    with pytest.raises(FileNotFoundError, match="should hold train.en and train.fr"):
        load_examples(f"multi30k:{folder}", "train", "en", "fr", cache=tmp_path)


def test_multi30k_without_a_network(tmp_path, monkeypatch):
    monkeypatch.setattr(Multi30k, "ADDRESS", "http://localhost:9/task1/raw")  # nobody listens
    monkeypatch.setattr(downloader, "MAX_RETRIES", 0)  # it would try for minutes
    with pytest.raises(ConnectionError, match="localhost:9.* cannot be reached. Give a folder"):
        load_examples("multi30k", "train", cache=tmp_path)


@pytest.mark.parametrize("why", ["501", "refused"])
def test_a_download_that_fails(tmp_path, monkeypatch, why):
    """A server that answers no questions, or none at all, for a set of tensorflow-datasets."""
    server = http.server.HTTPServer(("localhost", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://localhost:{9 if why == 'refused' else server.server_port}/task1/raw"
    monkeypatch.setattr(Multi30k, "ADDRESS", address)
    monkeypatch.setattr(downloader, "MAX_RETRIES", 0)
    monkeypatch.setattr(tfds, "builder", lambda name, data_dir: Multi30k(data_dir=data_dir))
    try:
        with pytest.raises(ConnectionError, match=f"tfds:captions cannot be downloaded: .*{why}"):
            load_examples("tfds:captions", "train", cache=tmp_path)
    finally:
        server.shutdown()
        server.server_close()


def test_a_file_of_tabs(tmp_path):
    """It is trained on, and validation stands beside it, whatever else is called train."""
    (tmp_path / "train.tsv").write_text("a dog\tein Hund\n")
    (tmp_path / "more.tsv.gz").write_bytes(gzip.compress(b"a cow\teine Kuh\tdie Kuh\n"))
    more, read = tmp_path / "more.tsv.gz", {"cache": tmp_path / "cache"}
    assert load_examples(more, "train", **read).targets == [["eine Kuh", "die Kuh"]]
    with pytest.raises(FileNotFoundError, match="should hold files for validation too"):
        load_examples(more, "validation", **read)
    (tmp_path / "dev.tsv").write_text("a cat\teine Katze\n")
    assert load_examples(more, "validation", **read).sources == ["a cat"]
    with pytest.raises(FileNotFoundError, match="a .tsv, .*none.tsv, which is no folder"):
        load_examples(tmp_path / "none.tsv", "train", **read)


def test_the_dictionary():
    # (in the cache of all tests: to prepare it takes a while)
    examples = load_examples("cmu_dict", "validation")
    words = dict(zip(examples.sources, examples.targets, strict=True))
    with gzip.open(builders.HERE / "cmudict" / "dev.tsv.gz", "rt") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    assert words == {line[0]: line[1:] for line in lines}
    assert examples.sources == [line[0] for line in lines]
    assert str(examples.report) == "5447 examples"
    train = load_examples("cmu_dict", "train")
    assert not set(train.sources) & set(words)


def test_a_folder_of_files(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.en").write_text("a dog\n\na cat\n")
    (folder / "train.de").write_text("ein Hund\nleer\neine Katze\n")
    examples = load_examples(folder, "train", "en", "de", cache=tmp_path / "cache")
    assert examples.sources == ["a dog", "a cat"]
    assert examples.targets == [["ein Hund"], ["eine Katze"]]
    again = load_examples(folder, "train", "en", "de", cache=tmp_path / "cache")
    assert again == examples
    assert again.report.messages == ["train.en:2: empty source"]  # told each time
    # The cache notices that a file has changed.
    (folder / "train.en").write_text("the dog\n\nthe cat\n")
    changed = load_examples(folder, "train", "en", "de", cache=tmp_path / "cache")
    assert changed.sources == ["the dog", "the cat"]


@pytest.mark.parametrize("at", ["begin", "end"])
def test_another_process_prepares_the_same(tmp_path, monkeypatch, at):
    """The other one is done after this one has looked, and before this one is done."""
    folder, cache = tmp_path / "corpus", tmp_path / "cache"
    folder.mkdir()
    (folder / "train.tsv").write_text("a dog\tein Hund\nno tab\n")
    prepare, others = builders.ParallelCorpus._split_generators, []
    download_and_prepare = builders.ParallelCorpus.download_and_prepare

    def other():
        if not others:
            others.append("is at it")
            others.append(load_examples(folder, "train", cache=cache))

    def begin(builder):
        if at == "begin":
            other()
        return download_and_prepare(builder)

    def generate(builder, dl_manager):
        if at == "end":
            other()
        return prepare(builder, dl_manager)

    monkeypatch.setattr(builders.ParallelCorpus, "download_and_prepare", begin)
    monkeypatch.setattr(builders.ParallelCorpus, "_split_generators", generate)
    examples = load_examples(folder, "train", cache=cache)
    assert examples == others[1]
    assert examples.targets == [["ein Hund"]]
    assert examples.report.skipped == 1
    assert len(list(cache.glob("parallel_corpus/*/*"))) == 1  # nothing half done is left


def test_a_folder_of_json_lines(tmp_path):
    folder = tmp_path / "mails"
    folder.mkdir()
    lines = [
        '{"body": "See you\\nat noon.", "subject": "Lunch", "other": ["Noon", "Lunch?"]}',
        "no JSON",
        '["a list"]',
        '{"body": "alone"}',
        '{"body": 7, "subject": "a number"}',
        '{"body": "", "subject": "empty"}',
        '{"body": "' + "long " * 1200 + '", "subject": "long"}',
    ]
    with gzip.open(folder / "train.jsonl.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    (folder / "dev.jsonl").write_text('{"body": "b", "subject": "s", "other": "o"}\n')
    read = {"source": "body", "target": "subject", "cache": tmp_path / "cache"}
    examples = load_examples(folder, "train", **read)
    assert examples.sources == ["See you\nat noon."]
    assert examples.targets == [["Lunch"]]
    assert examples.report.messages == [
        "train.jsonl.gz:2: no JSON, Expecting value",
        "train.jsonl.gz:3: no JSON object",
        "train.jsonl.gz:4: no key 'subject', but body",
        "train.jsonl.gz:5: 'body' and 'subject' are not all texts",
        "train.jsonl.gz:6: empty source",
        "train.jsonl.gz:7: 5999 characters, over 5000",
    ]
    # Other keys and limits are read anew, and several texts under a key are all right.
    longer = load_examples(folder, "train", **read, most_characters=10_000)
    assert len(longer.sources) == 2
    others = load_examples(folder, "train", **{**read, "target": "other"})
    assert others.targets == [["Noon", "Lunch?"]]
    assert load_examples(folder, "validation", **read).sources == ["b"]
    with pytest.raises(ValueError, match="train.jsonl: name the keys of its texts"):
        load_examples(folder, "train", cache=tmp_path / "cache")


class TinyTranslate(tfds.core.GeneratorBasedBuilder):
    """A translation set in the layout of tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.Translation(languages=("pt", "en")),
            supervised_keys=("pt", "en"),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for i, pair in enumerate([("um cão", "a dog"), ("", "nothing"), ("um gato", "a cat")]):
            yield i, dict(zip(("pt", "en"), pair, strict=True))


class TinyReviews(TinyTranslate):
    """A set of texts and numbers."""

    def _info(self):
        features = {"text": tfds.features.Text(), "label": np.int64}
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features), supervised_keys=("text", "label")
        )

    def _generate_examples(self):
        yield 0, {"text": "good", "label": 1}


def test_any_translation_set_of_tensorflow_datasets(tmp_path):
    examples = load_examples("tfds:tiny_translate", "train", cache=tmp_path)
    assert examples.sources == ["um cão", "um gato"]
    assert examples.targets == [["a dog"], ["a cat"]]
    assert examples.report.messages == ["example 1: empty text"]
    back = load_examples("tfds:tiny_translate", "train", "en", "pt", cache=tmp_path)
    assert back.sources == ["a dog", "a cat"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no/such/folder", "train"), "which is no folder"),
        (("cmu_dict", "test"), "split='test'"),
        (("tfds:tiny_translate", "train", "en", "fr"), "has \\['en', 'pt'\\]. .* target=fr"),
        (("tfds:tiny_reviews", "train"), "two texts of tfds:tiny_reviews, which has \\['text'\\]"),
        (("multi30k", "train", "de"), "or none. Received: source=de, target=None"),
        (("multi30k", "train", "de", "de"), "two different sides"),
    ],
)
def test_errors_say_what_was_received(arguments, message, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_examples(*arguments, cache=tmp_path)


def test_nothing_but_bad_lines(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.tsv").write_text("no tab\n")
    with pytest.raises(ValueError, match="train.tsv:1: no tab"):
        load_examples(folder, "train", cache=tmp_path / "cache")
