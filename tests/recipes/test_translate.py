"""The translation recipe on 200 made-up sentences: each model learns them, and all go together."""

import itertools
import json
import random
import shutil
import sys

import pytest

import zoo
from recipes import translate
from zoo.cli import main
from zoo.serving import SavedModel
from zoo.training.export_run import export_runs

MODELS = ("seq2seq", "bahdanau", "luong", "transformer")
# Words, and what they are in a language that puts the verb last.
WORDS = [
    {"A man": "Ein Mann", "A dog": "Ein Hund", "The girl": "Das Mädchen", "A boy": "Ein Junge"},
    {"sees": "sieht", "finds": "findet", "likes": "mag", "hears": "hört"},
    {"a red": "ein rotes", "a big": "ein großes", "the old": "das alte", "my": "mein"},
    {"car": "Auto", "boat": "Boot", "house": "Haus", "book": "Buch"},
]


def sentences():
    """200 of the 256 pairs."""
    pairs = [
        (
            f"{who} {does} {how} {what}.",
            f"{WORDS[0][who]} {WORDS[2][how]} {WORDS[3][what]} {WORDS[1][does]}.",
        )
        for who, does, how, what in itertools.product(*WORDS)
    ]
    return random.Random(0).sample(pairs, 200)


def config(model, folder, **options):
    settings = {
        "units": 64,
        "layers": 1,
        "dropout": 0.0,
        "recurrent_dropout": 0.0,
        "label_smoothing": 0.0,
        "vocabulary_size": 60,
        "epochs": 30,
        "average": 1,
        "batch_tokens": 512,
        "num_buckets": 1,
        "learning_rate": 0.01,
        "warmup_steps": 20,
        "max_length": 30,
        "length_penalty": 0.0,
    }
    output = str(folder / model)
    return translate.Config(
        data=str(folder / "toy"),
        source="en",
        target="de",
        model=model,
        output=output,
        **{**settings, **options},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translate")
    (folder / "toy").mkdir()
    english, german = zip(*sentences(), strict=True)
    for split, count in {"train": 200, "val": 40}.items():  # dev is to be learnt by heart too
        for language, lines in {"en": english, "de": german}.items():
            text = "\n".join(lines[:count]) + "\n"
            (folder / "toy" / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def runs(folder):
    """The four models, trained: {name: run}."""
    return {name: folder / name for name in MODELS if translate.train(config(name, folder))}


@pytest.mark.parametrize("model", MODELS)
def test_each_model_gives_the_sentences_back(runs, model):
    english, german = zip(*sentences(), strict=True)
    last = json.loads((runs[model] / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["loss"] < 0.05
    assert last["bleu"] > 99.9
    path = export_runs([runs[model]], runs[model] / "saved_models")
    loaded = SavedModel(path)("serving_default", text=list(english))
    assert [text.decode() for text in loaded["text"]] == list(german)


def test_runs_are_exported_as_an_ensemble(runs, folder, tmp_path):
    members = [runs["bahdanau"], runs["transformer"]]
    path = export_runs(members, folder / "both", {"length_penalty": 0.5, "beam_width": 3})
    moved = shutil.copytree(path, tmp_path / "elsewhere" / "1")
    english, german = zip(*sentences()[:20], strict=True)
    answers = SavedModel(moved)("serving_default", text=list(english))
    assert [text.decode() for text in answers["text"]] == list(german)
    assert answers["texts"].shape == (20, 3)
    pipeline = zoo.load(moved)
    assert pipeline.search["length_penalty"] == 0.5
    # The probability of a target is the mean, which no member's can be far above.
    one, other, both = (
        (zoo.load(p) if p == moved else zoo.load(export_runs([p], tmp_path / p.name))).score(
            ["A dog sees my car."], ["Ein Hund mein Auto sieht."]
        )["log_prob"][0]
        for p in (*members, moved)
    )
    assert min(one, other) - 1e-5 <= both <= max(one, other) + 1e-5
    about = json.loads((moved / "zoo.json").read_text())
    assert about["scores"]["bleu"]["score"] > 99.9  # measured, as no training did
    assert len(about["training"]["members"]) == 2
    assert "## Training, member 2" in (moved / "README.md").read_text()


def test_runs_with_other_tokenizers_make_no_ensemble(runs, folder, tmp_path):
    alone = config("luong", folder, epochs=1, joint=False, vocabulary_size=32)
    alone.output = str(tmp_path / "separate")
    translate.train(alone)
    with pytest.raises(ValueError, match="the same tokenizers.* Received: .*luong and .*separate"):
        export_runs([runs["luong"], alone.output], tmp_path / "saved_models")
    # Two vocabularies and two tables of embeddings: it exports by itself.
    pipeline = zoo.load(export_runs([alone.output], tmp_path / "saved_models"))
    assert not pipeline.model.share_embeddings
    assert pipeline.target_tokenizer.serialize() != pipeline.source_tokenizer.serialize()


def test_another_beam_and_published_bleu(runs, folder, tmp_path, monkeypatch, capsys):
    path = export_runs([runs["luong"]], tmp_path / "saved_models")
    english, german = zip(*sentences()[:20], strict=True)
    (tmp_path / "en").write_text("\n".join(english), encoding="utf-8")
    tokenized = [line.lower().replace(".", " .") for line in german]
    (tmp_path / "de").write_text("\n".join(tokenized), encoding="utf-8")
    files = ["--source", str(tmp_path / "en"), "--reference", str(tmp_path / "de")]
    options = ["--comparable", "--beam-width", "1", "--length-penalty", "0.3"]
    monkeypatch.setattr(sys, "argv", ["zoo", "evaluate", str(path), *files, *options])
    main()
    scores = json.loads(capsys.readouterr().out)
    assert set(scores) == {"comparable_bleu"}
    assert scores["comparable_bleu"]["score"] > 99.9
    assert "case:lc|tok:moses-de-sacremoses" in scores["comparable_bleu"]["signature"]
