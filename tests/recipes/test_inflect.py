"""The recipe of inflection on a language of two rules, from its files to a SavedModel."""

import random

import pytest

from recipes import inflect
from zoo.evaluation.metrics import edit_distance
from zoo.serving import SavedModel
from zoo.training.export_run import export_runs


def inflected(lemma, features):
    """Number is an ending, the past a prefix; a verb has no case."""
    return ("ge" if "tense=PST" in features else "") + lemma + ("t" if "num=PL" in features else "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """toy-train.tsv and toy-dev.tsv; of 30 dev lines, 10 are in train too."""
    folder, rng = tmp_path_factory.mktemp("inflect"), random.Random(0)
    lines = {}
    while len(lines) < 420:
        lemma = "".join(rng.choice("akou ") for _ in range(rng.randint(2, 5))).strip() or "a"
        verb = f"pos=V,tense={rng.choice(['PST', 'PRS'])},num={rng.choice(['SG', 'PL'])}"
        features = rng.choice([verb, f"pos=N,num={rng.choice(['SG', 'PL'])}"])
        lines[f"{lemma}\t{features}\t{inflected(lemma, features)}\n"] = None
    lines = list(lines)
    (folder / "toy-train.tsv").write_text("".join(lines[:400]))
    (folder / "toy-dev.tsv").write_text("".join(lines[390:]))
    return folder


@pytest.mark.parametrize(
    "model", ["recurrent", pytest.param("transformer", marks=pytest.mark.slow)]
)
def test_it_trains_exports_and_inflects(folder, model, capsys):
    config = inflect.Config(
        data=str(folder), language="toy", output=str(folder / model), model=model, units=32,
        dropout=0.0, beam_width=2, num_results=2, max_length=16, epochs=8, batch_tokens=256,
        num_buckets=1, average=1, learning_rate=1e-2, warmup_steps=10,
    )  # fmt: skip
    scores = inflect.train(config)
    assert set(scores) == {"accuracy", "edit_distance"}
    told = capsys.readouterr().out
    assert "train: 400 examples" in told
    assert "on the 20 dev lines that are not in train: accuracy " in told
    served = SavedModel(export_runs([folder / model], folder / "saved" / model))
    lines = [line.split("\t") for line in (folder / "toy-dev.tsv").read_text().splitlines()]
    texts = [f"{lemma} {features}" for lemma, features, _ in lines]
    answers = [text.decode() for text in served("serving_default", text=texts)["text"]]
    edits = [edit_distance(one, form) for one, (*_, form) in zip(answers, lines, strict=True)]
    assert scores["accuracy"]["score"] == pytest.approx(100 * edits.count(0) / 30)
    assert scores["edit_distance"]["score"] == pytest.approx(sum(edits) / 30)
    assert sum(edits) / 30 < 2  # a form has five letters: it has learnt something
    # Lemma and features are what it looks at; a space in a lemma is a part of it.
    looked = served("align", text=["ak ou pos=N,num=PL"])
    assert [token.decode() for token in looked["source_tokens"][0]] == [
        *"ak ou",
        "pos=N",
        "num=PL",
    ]


@pytest.mark.slow
def test_it_learns_the_rules(folder):
    config = inflect.Config(
        data=str(folder), language="toy", output=str(folder / "long"), units=64, beam_width=2,
        num_results=2, max_length=16, dropout=0.1, epochs=40, batch_tokens=256, num_buckets=1,
        learning_rate=5e-3, warmup_steps=20,
    )  # fmt: skip
    assert inflect.train(config)["accuracy"]["score"] >= 95
