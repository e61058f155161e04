"""The translation recipe on 200 made-up sentences: each model learns them, and all go together."""

import itertools
import json
import random
import re
import shutil
import sys

import pytest

import zoo
from recipes import translate
from tests.serving.bare import require_alike
from tests.tools import run_zoo_here
from zoo.cli import main
from zoo.evaluation.alignment import format_links, parse_links, symmetrize
from zoo.serving import SavedModel
from zoo.training.export_run import best_pipeline, export_runs

# Epochs and learning rate that each needs for it.
MODELS = {
    "seq2seq": (13, 0.015),
    "bahdanau": (8, 0.015),
    "luong": (13, 0.015),
    "transformer": (13, 0.007),
}
# Words, and what they are in a language that puts the verb last.
WORDS = [
    {"Tom": "Tom", "Ida": "Ida", "He": "Er", "Eva": "Eva"},
    {"sees": "sieht", "finds": "findet", "likes": "mag", "hears": "hört"},
    {"a": "ein", "my": "mein", "no": "kein", "his": "sein"},
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
    epochs, learning_rate = MODELS[model]
    settings = {
        "units": 64,
        "layers": 1,
        "dropout": 0.0,
        "recurrent_dropout": 0.0,
        "label_smoothing": 0.0,
        "vocabulary_size": 46,  # almost a piece a word: about ten pieces a sentence
        "epochs": epochs,
        "average": 1,
        "batch_tokens": 256,  # small batches: an epoch has many steps
        "num_buckets": 1,
        "learning_rate": learning_rate,
        "warmup_steps": 10,
        "max_length": 20,
        "length_penalty": 0.0,
        "beam_width": 2,
        "num_results": 2,
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
    for split in ("train", "val"):  # all are to be learnt by heart
        for language, lines in {"en": english, "de": german}.items():
            text = "\n".join(lines) + "\n"
            (folder / "toy" / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder


class Made(dict):
    """What a function makes of a model's name: of some at once, else when it is asked for."""

    def __init__(self, make, at_once=("bahdanau", "transformer")):
        self.make = make
        for name in at_once:
            self[name] = make(name)

    def __missing__(self, name):
        self[name] = self.make(name)
        return self[name]


@pytest.fixture(scope="module")
def runs(folder):
    """The models, trained: {name: run}."""

    def trained(name):
        translate.train(config(name, folder))
        return folder / name

    return Made(trained)


@pytest.fixture(scope="module")
def saved_models(runs, folder):
    """The models, exported: {name: version folder}."""
    return Made(lambda name: export_runs([runs[name]], folder / "saved" / name))


each_model = pytest.mark.parametrize(
    "model",
    [
        "bahdanau",
        "transformer",
        pytest.param("seq2seq", marks=pytest.mark.slow),
        pytest.param("luong", marks=pytest.mark.slow),
    ],
)


@each_model
def test_each_model_gives_the_sentences_back(runs, saved_models, model):
    english, german = zip(*sentences(), strict=True)
    last = json.loads((runs[model] / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["loss"] < 0.05
    assert last["bleu"] > 99.9
    answers = SavedModel(saved_models[model])("serving_default", text=list(english))
    assert [text.decode() for text in answers["text"]] == list(german)


@each_model
def test_each_model_answers_alike_elsewhere(runs, saved_models, model, tmp_path):
    moved = shutil.copytree(saved_models[model], tmp_path / "elsewhere" / "1")
    texts = [*(english for english, _ in sentences()[:20]), "", "Who is this?"]
    require_alike(best_pipeline(runs[model]), moved, texts, tmp_path)


def test_runs_are_exported_as_an_ensemble(runs, saved_models, folder, tmp_path):
    members = [runs["bahdanau"], saved_models["transformer"]]
    search = {"length_penalty": 0.5, "beam_width": 3}
    path = export_runs(members, folder / "both", search, float16=True)
    moved = shutil.copytree(path, tmp_path / "elsewhere" / "1")
    english, german = zip(*sentences()[:20], strict=True)
    answers = SavedModel(moved)("serving_default", text=list(english))
    assert [text.decode() for text in answers["text"]] == list(german)
    assert answers["texts"].shape == (20, 3)
    pipeline = zoo.load(moved)
    assert pipeline.search["length_penalty"] == 0.5
    # The probability of a target is the mean, which no member's can be above but for rounding.
    one, other, both = (
        zoo.load(path).score(["Ida sees my car."], ["Ida mein Auto sieht."])["log_prob"][0]
        for path in (saved_models["bahdanau"], saved_models["transformer"], moved)
    )
    assert min(one, other) - 1e-2 <= both <= max(one, other) + 1e-2
    about = json.loads((moved / "zoo.json").read_text())
    assert about["scores"]["bleu"]["score"] > 99.9  # measured, as no training did
    assert len(about["training"]["members"]) == 2
    assert about["config"]["data"] == about["data"]["name"] == "toy"  # a card names no folders
    assert str(folder) not in (moved / "zoo.json").read_text()
    sizes = [
        (folder / "variables" / "variables.data-00000-of-00001").stat().st_size
        for folder in (moved, saved_models["bahdanau"], saved_models["transformer"])
    ]
    assert sizes[0] < 0.6 * sum(sizes[1:])
    assert "## Training, member 2" in (moved / "README.md").read_text()


@pytest.mark.slow
def test_runs_with_other_tokenizers_make_no_ensemble(runs, folder, tmp_path):
    alone = config("seq2seq", folder, epochs=1, joint=False, vocabulary_size=32)
    alone.output = str(tmp_path / "separate")
    translate.train(alone)
    with pytest.raises(
        ValueError, match="the same tokenizers.* Received: .*seq2seq and .*separate"
    ):
        export_runs([runs["seq2seq"], alone.output], tmp_path / "saved_models")
    # Two vocabularies and two tables of embeddings: it exports by itself.
    saved = export_runs([alone.output], tmp_path / "saved_models")
    pipeline = zoo.load(saved)
    assert not pipeline.model.share_embeddings
    assert pipeline.target_tokenizer.serialize() != pipeline.source_tokenizer.serialize()
    # A model of the same pieces, whatever else it is told of them, can answer beside it.
    beside = config("transformer", folder, epochs=1, tokenizers_from=str(saved))
    beside.output = str(tmp_path / "beside")
    translate.train(beside)
    both = zoo.load(export_runs([beside.output, saved], tmp_path / "saved_models"))
    assert both.source_tokenizer.serialize() == pipeline.source_tokenizer.serialize()
    assert not both.model.share_embeddings


def test_another_beam_and_published_bleu(saved_models, tmp_path, monkeypatch, capsys):
    english, german = zip(*sentences()[:20], strict=True)
    (tmp_path / "en").write_text("\n".join(english), encoding="utf-8")
    tokenized = [line.lower().replace(".", " .") for line in german]
    (tmp_path / "de").write_text("\n".join(tokenized), encoding="utf-8")
    files = ["--source", str(tmp_path / "en"), "--reference", str(tmp_path / "de")]
    options = ["--comparable", "--beam-width", "1", "--length-penalty", "0.3"]
    monkeypatch.setattr(
        sys, "argv", ["zoo", "evaluate", str(saved_models["bahdanau"]), *files, *options]
    )
    main()
    scores = json.loads(capsys.readouterr().out)
    assert set(scores) == {"comparable_bleu"}
    assert scores["comparable_bleu"]["score"] > 99.9
    assert "case:lc|tok:moses-de-sacremoses" in scores["comparable_bleu"]["signature"]


LINKS = "0-0 1-3 2-1 3-2"  # of every sentence: the verb comes last


@pytest.fixture(scope="module")
def guided(saved_models, folder):
    """The Transformer, trained further with links."""
    (folder / "links").write_text(f"{LINKS}\n" * 200)
    options = {"guided_alignment": str(folder / "links"), "guided_weight": 1.0, "epochs": 2}
    options["init_from"] = str(saved_models["transformer"])
    further = config("transformer", folder, **options)
    further.output = str(folder / "guided")
    translate.train(further)
    return export_runs([further.output], folder / "saved" / "guided")


@pytest.fixture
def align(folder, monkeypatch, capsys):
    """`zoo align` of some models on all sentences."""
    english, german = (folder / "toy" / f"train.{language}" for language in ("en", "de"))

    def run(*models, source=english, target=german, **options):
        options = [x for name, value in options.items() for x in (f"--{name}", value)]
        files = ["--source", source, "--target", target]
        done = run_zoo_here(monkeypatch, capsys, folder, ["align", *models, *files, *options])
        assert done.stderr == ""
        assert done.returncode == 0
        return done.stdout

    return run


@pytest.mark.slow
def test_guided_attention_looks_where_links_are(saved_models, guided, folder, align):
    (folder / "gold").write_text(f"{LINKS} 3?3\n" * 200)
    free, told = (
        json.loads(align(model, reference=folder / "gold"))["aer"]["score"]
        for model in (saved_models["transformer"], guided)
    )
    assert free > 20  # it was not told, and translates well all the same
    assert told < 5
    assert align(guided).splitlines().count(LINKS) > 190


def test_links_of_two_directions_are_put_together(saved_models, folder, align):
    """As a model of the other direction, one that reads either language serves."""
    files = [folder / "toy" / f"train.{language}" for language in ("en", "de")]
    models = saved_models["transformer"], saved_models["bahdanau"]
    forward = align(models[0]).splitlines()
    backward = align(models[1], source=files[1], target=files[0]).splitlines()
    both = [
        symmetrize(parse_links(one), {(s, t) for t, s in parse_links(other)}, "grow-diag")
        for one, other in zip(forward, backward, strict=True)
    ]
    expected = "".join(f"{format_links(links)}\n" for links in both)
    assert align(*models, method="grow-diag") == expected


def test_links_of_other_texts_are_refused(folder, tmp_path):
    (tmp_path / "links").write_text("0-0\n")
    one = config("bahdanau", folder, guided_alignment=str(tmp_path / "links"))
    one.output = str(tmp_path / "run")
    with pytest.raises(ValueError, match="links must have a line for each of the 200 pairs"):
        translate.train(one)
    assert not (tmp_path / "run").exists()


def test_the_picture_of_a_translation(saved_models, tmp_path, monkeypatch, capsys):
    options = ["Ida hears my boat.", "--output", str(tmp_path / "heat.svg"), "--words"]
    monkeypatch.setattr(sys, "argv", ["zoo", "plot", str(saved_models["bahdanau"]), *options])
    main()
    assert capsys.readouterr().err == ""
    labels = re.findall(r"<!-- (.*?) -->", (tmp_path / "heat.svg").read_text("utf-8"))
    assert labels[:8] == ["Ida", "hears", "my", "boat.", "Ida", "mein", "Boot", "hört."]
