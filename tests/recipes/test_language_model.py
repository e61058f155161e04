"""The recipe of language models on sentences of a small grammar, from files to a SavedModel."""

import json
import math
import random

import keras
import numpy as np
import pytest

import zoo
from recipes import language_model
from tests.tools import log_softmax, run_zoo_here, to_numpy
from tests.training.tools import assert_weights_same, metrics
from zoo.data import Windows
from zoo.serving import SavedModel
from zoo.training.export_run import export_runs


def sentences(count, seed):
    """The dogs bark, the dog barks: what is said of whom agrees in number."""
    rng = random.Random(seed)
    for i in range(count):
        if i % 7 == 0:
            yield " \n"  # as WikiText has it
            continue
        noun, verb = rng.choice(["dog", "cat", "<unk>"]), rng.choice(["bark", "sleep"])
        many = rng.random() < 0.5
        noun, verb = (f"{noun}s", verb) if many else (noun, f"{verb}s")
        yield f" the {noun} {rng.choice(['', 'often ', 'never '])}{verb} . \n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("language_model")
    (folder / "wiki.train.tokens").write_text("".join(sentences(300, seed=1)))
    (folder / "valid.txt").write_text("".join(sentences(40, seed=2)))
    return folder


@pytest.fixture
def zoo_here(monkeypatch, capsys, tmp_path):
    return lambda *arguments: run_zoo_here(monkeypatch, capsys, tmp_path, arguments)


def config(folder, name, **options):
    settings = {"vocabulary_size": 28, "units": 16, "layers": 1, "dropout": 0.1, "window": 8}
    settings |= {"max_length": 16, "max_written": 8, "beam_width": 2, "num_results": 2}
    settings |= {"batch_tokens": 256, "learning_rate": 2e-2, "warmup_steps": 10, "epochs": 2}
    settings |= {"average": 1, "save_minutes": 0.0}
    return language_model.Config(
        data=str(folder), output=str(folder / name), **{**settings, **options}
    )


def plain_perplexity(pipeline, text):
    """Of a whole text at once, per word between spaces and per end of a line."""
    lines = text.removesuffix("\n").split("\n")
    end, tokens = 2, [2]
    for line in lines:
        tokens += [*pipeline.target_tokenizer.tokenize([line.strip()]).to_list()[0], end]
    logits = pipeline.model({"target": np.array([tokens[:-1]])})
    log_probs = log_softmax(to_numpy(logits))[0]
    nats = -sum(log_probs[t, token] for t, token in enumerate(tokens[1:]))
    return math.exp(nats / (len(text.split()) + len(lines)))


def test_it_trains_exports_and_writes(folder, zoo_here):
    scores = language_model.train(config(folder, "run"))
    score = scores["perplexity"]["score"]
    assert [line["epoch"] for line in metrics(folder / "run")] == [1, 2]
    assert score < 150  # a piece at random would be 28, and a word is several
    saved = export_runs([folder / "run"], folder / "saved" / "lm")
    pipeline, text = zoo.load(saved), (folder / "valid.txt").read_text()
    assert plain_perplexity(pipeline, text) == pytest.approx(score, rel=1e-4)
    told = zoo_here("evaluate", saved, "--source", folder / "valid.txt")
    assert json.loads(told.stdout)["perplexity"]["score"] == pytest.approx(score, rel=1e-5)
    served = SavedModel(saved)
    answer = served("serving_default", text=["the dog", "the"])["texts"]
    assert all(one.startswith(b"the dog") and b"<unk>" not in one for one in answer[0])
    drawn = zoo_here("predict", saved, "the dog", "--temperature", 0.9, "--seed", 1, "--n-best", 3)
    lines = [line.split("\t") for line in drawn.stdout.splitlines()]
    assert len(lines) == 3
    assert all(line[0] == "the dog" and line[2].startswith("the dog") for line in lines)
    drawing = zoo_here("plot", saved, "the dogs", "--output", folder / "past.png")
    assert (drawing.returncode, (folder / "past.png").exists()) == (0, True)
    for arguments, message in [
        (["--reference", folder / "valid.txt"], "is a language model: it has a perplexity on the"),
        (["--metric", "bleu"], "is a language model"),
    ]:
        refused = zoo_here("evaluate", saved, "--source", folder / "valid.txt", *arguments)
        assert (refused.returncode, message in refused.stderr) == (2, True)


@pytest.mark.slow
def test_a_stopped_run_ends_as_it_would_have(folder, monkeypatch):
    """Stopped in the middle of the second epoch, whose windows begin elsewhere."""
    settings = {"model": "lstm", "max_length": 12, "recurrent_dropout": 0.1}
    language_model.train(config(folder, "whole", **settings))
    epoch = Windows.epoch

    def stopped(self, number, first=0):
        for i, batch in enumerate(epoch(self, number, first)):
            if number == 1 and i == 3:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(Windows, "epoch", stopped)
    with pytest.raises(KeyboardInterrupt):
        language_model.train(config(folder, "stopped", **settings))
    monkeypatch.undo()
    keras.backend.clear_session()
    language_model.train(config(folder, "stopped", **settings))
    assert_weights_same(folder / "stopped", folder / "whole")
    assert len(metrics(folder / "stopped")) == 2
    for ours, theirs in zip(metrics(folder / "stopped"), metrics(folder / "whole"), strict=True):
        assert ours["perplexity"] == pytest.approx(theirs["perplexity"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "attention", "transformer"])
def test_all_kinds_learn_the_grammar(folder, model):
    options = {"model": model, "units": 32, "epochs": 12, "learning_rate": 1e-2}
    scores = language_model.train(config(folder, model, **options))
    assert scores["perplexity"]["score"] < 4  # the grammar's own is about 2.5
