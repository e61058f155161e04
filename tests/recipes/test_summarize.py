"""The summarization recipe on made-up mails, from their files to a SavedModel."""

import dataclasses
import json
import random
import re

import pytest
import tensorflow_datasets as tfds

import zoo
from recipes import summarize
from zoo.evaluation.metrics import evaluate
from zoo.serving import SavedModel
from zoo.training.export_run import export_runs


def mails(count, seed):
    """Pairs: a mail about a thing on a day, and its subject."""
    rng, pairs = random.Random(seed), []
    for _ in range(count):
        thing = "".join(rng.choice("bdfgk") + rng.choice("aeiou") for _ in range(3))
        day = rng.choice(["Monday", "Tuesday", "Friday"])
        hello = rng.choice(["Hi all,", "Dear team,", "Hello,"])
        body = f"{hello} the {thing} is needed on {day}. " + "Thank you very much! " * 5
        pairs.append((body, f"{thing} on {day}"))
    return pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summarize")
    for split, pairs in (("train", mails(300, 0)), ("dev", mails(20, 1))):
        lines = [json.dumps({"body": body, "subject": subject}) for body, subject in pairs]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def config(folder, name, **options):
    settings = {
        "source": "body", "target": "subject", "units": 32, "dropout": 0.0, "vocabulary_size": 80,
        "summary_length": 16, "beam_width": 2, "num_results": 2, "length_penalty": 0.0,
        "max_length": 32, "epochs": 2, "batch_tokens": 512, "num_buckets": 1, "average": 1,
        "learning_rate": 0.02, "warmup_steps": 10, "coverage_weight": 0.1,
    }  # fmt: skip
    return summarize.Config(data=str(folder), output=str(folder / name), **{**settings, **options})


@pytest.mark.parametrize(
    "model", ["recurrent", pytest.param("transformer", marks=pytest.mark.slow)]
)
def test_it_trains_exports_and_summarizes(folder, model, capsys):
    scores = summarize.train(config(folder, model, model=model))
    told = capsys.readouterr().out
    assert re.search(r"the first \d+ words of each text: rouge1 \d", told)
    assert (
        "300 of 300 sources are longer than --max-length and cut to their first 32 tokens" in told
    )
    path = export_runs([folder / model], folder / "saved" / model)
    assert "300 sources cut to their first 32 tokens" in (path / "README.md").read_text()
    served = SavedModel(path)
    bodies, subjects = zip(*mails(20, 1), strict=True)
    answers = [text.decode() for text in served("serving_default", text=list(bodies))["text"]]
    again = evaluate(answers, [[subject] for subject in subjects], summarize.METRICS)
    assert {name: value["score"] for name, value in again.items()} == pytest.approx(
        {name: value["score"] for name, value in scores.items()}, abs=0.5
    )
    # A row does not depend on its batch, and pieces of the text are what it looks at.
    alone = served("serving_default", text=[bodies[0]])["text"]
    assert alone[0].decode() == answers[0]
    looked = served("align", text=[bodies[0]])
    assert "".join(t.decode() for t in looked["source_tokens"][0]).startswith("\u2581")
    assert looked["source_tokens"].shape[1] == 32
    loaded = zoo.load(path)
    assert isinstance(loaded.model.decoder, zoo.CopyDecoder)
    assert loaded.model.decoder.decoder.embedding is loaded.model.encoder.encoder.embedding


@pytest.mark.slow
def test_to_copy_is_better_than_not_to(folder):
    """A thing of a dev mail is in no training."""
    scores = [
        summarize.train(config(folder, f"copy_{copy}", epochs=12, copy=copy))["rouge1"]["score"]
        for copy in (True, False)
    ]
    assert scores[0] > 90
    assert scores[0] > scores[1] + 10


class TinyMails(tfds.core.GeneratorBasedBuilder):
    """Mails in the layout of tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        texts = {name: tfds.features.Text() for name in ("email_body", "subject_line")}
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(texts),
            supervised_keys=("email_body", "subject_line"),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        sizes = {"train": (40, 0), "validation": (4, 1)}
        return {split: self._generate_examples(*size) for split, size in sizes.items()}

    def _generate_examples(self, count, seed):
        for i, (body, subject) in enumerate(mails(count, seed)):
            yield i, {"email_body": body, "subject_line": subject}


def test_a_set_of_tensorflow_datasets(folder, capsys):
    options = {"source": None, "target": None, "vocabulary_size": 60, "epochs": 1, "copy": False}
    one = config(folder, "tfds", **options)
    scores = summarize.train(dataclasses.replace(one, data="tfds:tiny_mails"))
    assert set(scores) == {"rouge1", "rouge2", "rougeL"}
    assert "train: 40 examples\ndev: 4 examples" in capsys.readouterr().out
