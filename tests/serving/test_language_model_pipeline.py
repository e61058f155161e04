"""A text goes on as its language model likes, and is scored as it would be by hand."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import zoo
from tests.tools import close, log_softmax, randomize, to_numpy
from zoo import (
    Ensemble,
    LanguageModel,
    LuongAttention,
    RecurrentLanguageModel,
    TransformerDecoder,
)
from zoo.serving import LanguageModelPipeline, SavedModel, check_saved_model, export
from zoo.serving.pipelines import deserialize
from zoo.text import SentencePieceTokenizer, SymbolTokenizer

WORDS = ["<unk>", "a", "barks", "cat", "dog", "sees", "the"]
TEXTS = ["the dog", "", "a cat sees the", "<unk>", "dog dog dog dog dog dog dog", "the zebra"]
END = 2


def make(kind="attention", tokenizer=None, **search):
    tokenizer = tokenizer or SymbolTokenizer(WORDS)
    size, window = tokenizer.vocabulary_size, None
    if kind == "transformer":
        window = 16
        decoder = TransformerDecoder(size, 8, num_layers=1, num_heads=2, cross_attention=False)
    else:
        looks = {"attention": LuongAttention(), "window": 5} if kind == "attention" else {}
        cell = keras.layers.LSTMCell(6, recurrent_dropout=0.3)
        decoder = RecurrentLanguageModel(size, 6, cell, dropout=0.3, **looks)
    search = {"beam_width": 3, "max_length": 12, **search}
    pipeline = LanguageModelPipeline(LanguageModel(decoder), tokenizer, search, 7, window)
    randomize(pipeline.model, scale=0.9)
    bias, more = decoder.output_dense.bias, 6.0 if kind == "transformer" else 2.0
    bias.assign(bias.numpy() + more * (np.arange(bias.shape[0]) == END))  # some lines shall end
    return pipeline


@pytest.fixture(scope="module", params=["attention", "transformer"])
def pipeline(request):
    return make(request.param)


@pytest.fixture(scope="module")
def looking():
    return make("attention")


def strings(tensor):
    return np.vectorize(lambda text: text.decode(), otypes=[object])(to_numpy(tensor)).tolist()


def by_hand(pipeline, text, target):
    """log P(target and the end of its line | text), token by token of the whole."""
    tokenize = pipeline.target_tokenizer.tokenize
    given, wanted = (tokenize([one]).to_list()[0] for one in (text, target))
    room = pipeline.default_search.max_length - len(wanted)
    tokens = [END, *given[len(given) - min(room, len(given)) :], *wanted, END]
    log_probs = log_softmax(to_numpy(pipeline.model({"target": np.array([tokens[:-1]])})))[0]
    last = range(len(tokens) - len(wanted) - 2, len(tokens) - 1)
    return sum(log_probs[t, tokens[t + 1]] for t in last)


def test_a_text_goes_on(pipeline):
    answer = pipeline(TEXTS)
    assert answer["texts"].shape == (6, 3)
    scores = to_numpy(answer["scores"]).tolist()
    for text, row, ranked in zip(TEXTS, strings(answer["texts"]), scores, strict=True):
        assert len(set(row)) == 3
        ends = [len(one.split()) < len(text.split()) + 7 for one in row]
        assert ends == sorted(ends, reverse=True)  # what has not ended comes last
        if all(ends):
            assert ranked == sorted(ranked, reverse=True)
        for one in row:
            assert one.startswith(text)
            written = one.removeprefix(text).split()
            assert len(written) <= 7
            assert set(written) <= set(WORDS) - {"<unk>"}
    assert strings(answer["text"]) == [row[0] for row in strings(answer["texts"])]


def test_the_score_of_a_line_is_that_of_the_search(pipeline):
    """Where the line has ended, and all of the text was read."""
    answer = pipeline(TEXTS[:4])
    texts, scores = np.array(strings(answer["texts"])), to_numpy(answer["scores"])
    ended = 0
    for i, text in enumerate(TEXTS[:4]):
        for one, score in zip(texts[i], scores[i], strict=True):
            if len(one.split()) < len(text.split()) + 7:
                log_prob = pipeline.score(tf.constant([""]), tf.constant([one]))["log_prob"][0]
                assert float(log_prob) == pytest.approx(score, abs=1e-4)
                ended += 1
    assert ended >= 2


def test_scores_are_those_by_hand(pipeline):
    pairs = [("", "the dog barks"), ("the dog", "barks"), ("", ""), ("dog " * 30, "a cat")]
    pairs += [("a " * 9, "cat " * 8), ("the", "zebra <unk>")]
    texts, targets = map(list, zip(*pairs, strict=True))
    log_probs = pipeline.score(tf.constant(texts), tf.constant(targets))["log_prob"]
    close(log_probs, [by_hand(pipeline, *pair) for pair in pairs], 1e-4)
    many = pipeline.score(tf.constant(texts * 7), tf.constant(targets * 7))["log_prob"]
    close(many, np.tile(log_probs, 7), 1e-4)
    too_long = pipeline.score(tf.constant(["a"] * 2), tf.constant(["cat " * 13, "cat " * 9999]))
    assert to_numpy(too_long["log_prob"]).tolist() == [-1e9, -1e9]
    with pytest.raises(tf.errors.InvalidArgumentError, match="text and target must be as many"):
        pipeline.score(tf.constant(["a"]), tf.constant(["a", "b"]))


def test_perplexity_is_told_by_the_word():
    """Pieces of words, and an <unk> that counts as WikiText's do."""
    lines = ["= A dog =", "", "The dog barks at the <unk> dog .", "A <unk> barks back . The end ."]
    tokenizer = SentencePieceTokenizer.train(
        lines, 32, kind="bpe", normalize=False, symbols=["<unk>"]
    )
    pipeline = make("lstm", tokenizer)
    (score,) = pipeline.scores(lines).values()
    tokens = [END]
    for ids in tokenizer.tokenize(lines).to_list():
        tokens += [*ids, END]
    log_probs = log_softmax(to_numpy(pipeline.model({"target": np.array([tokens[:-1]])})))[0]
    nats = -sum(log_probs[t, token] for t, token in enumerate(tokens[1:]))
    words = 4 + 0 + 8 + 8 + 4  # and four ends of lines
    assert score["score"] == pytest.approx(math.exp(nats / words), rel=1e-5)
    count = len(tokens) - 1
    assert (
        score["signature"] == f"perplexity|words:24|tokens:{count}|stateful|zoo:{zoo.__version__}"
    )
    assert "|unknown:1|" in pipeline.scores([*lines, "ß"])["perplexity"]["signature"]
    assert pipeline.scores(lines, stops=lambda: True) is None
    with pytest.raises(ValueError, match="can be perplexity alone. Received: bleu"):
        pipeline.scores(lines, metrics=["bleu"])
    # Rare words have one piece, which is read and never written.
    (unknown,) = tokenizer.tokenize(["<unk>"]).to_list()
    assert set(unknown) < set(pipeline.default_search.forbidden_ids)


def test_what_is_given_stays_as_it_is(looking):
    texts = ["  the\tdog \n", "The DOG", "the dog" + " a" * 40, "caf\u00e9", "the\ncat"]
    kept = ["  the\tdog", "The DOG", "the dog" + " a" * 40, "caf\u00e9", "the\ncat"]
    rows = strings(looking(texts)["texts"])
    assert all(one.startswith(text) for text, row in zip(kept, rows, strict=True) for one in row)
    # Only the last tokens of a long one are read, of which five are as many as fit.
    short = strings(looking(["a " * 5])["texts"])[0]
    written = [one.removeprefix("a" + " a" * 4) for one in short]
    assert rows[2] == [kept[2] + one for one in written]
    assert strings(looking(["the \n dog"])["texts"])[0][0].endswith(
        strings(looking(["the dog"])["texts"])[0][0].removeprefix("the dog")
    )


def test_rows_do_not_depend_on_each_other(pipeline):
    together = pipeline(TEXTS * 4)  # enough for two halves
    for i, text in enumerate(TEXTS):
        alone = pipeline([text])
        assert strings(alone["texts"])[0] == strings(together["texts"])[i]
        close(alone["scores"][0], together["scores"][i], 1e-4)
    assert pipeline([])["texts"].shape == (0, 3)


def test_where_it_looked_back(looking):
    result = looking.align(tf.constant(TEXTS))
    text = strings(looking(TEXTS)["text"])
    sources, targets = strings(result["source_tokens"]), strings(result["target_tokens"])
    weights, decoder = to_numpy(result["alignments"]), looking.model.decoder
    for i, line in enumerate(text):
        words = [word.replace("zebra", "\ufffd") for word in line.split()][-12:]
        if i != 4:  # of which the beginning is not read
            assert [token for token in targets[i] if token] == words
            assert [token for token in sources[i] if token] == ["</s>", *words][: len(words)]
        tokens = [looking.target_tokenizer.tokenize([w]).to_list()[0][0] for w in sources[i] if w]
        if not tokens:  # an empty line goes on with nothing
            assert not weights[i].any()
            continue
        tokens[0] = END
        past = to_numpy(decoder.past_weights(np.array([tokens])))[0]  # (time, window)
        expected = np.zeros(weights[i].shape)
        for t, row in enumerate(past):
            for j, weight in enumerate(row):
                if t - 5 + j >= 0:
                    expected[t, t - 5 + j] = weight
        close(weights[i], expected, 1e-4)
        sums = weights[i].sum(axis=1)
        close(sums[1 : len(tokens)], np.ones(len(tokens) - 1))
        assert sums[0] == 0
        assert (sums[len(tokens) :] == 0).all()
    forced = looking.teacher_forced(tf.constant(["the", ""]), tf.constant(["dog", "the dog"]))
    assert strings(forced["target_tokens"]) == [["the", "dog"]] * 2
    close(forced["alignments"][0], forced["alignments"][1])
    nothing = looking.align(tf.constant([], tf.string))
    assert nothing["alignments"].shape[0] == 0


def test_samples(looking):
    drawn = looking.make_sampling(temperature=0.9, top_p=0.9, seed=3, num_results=5)
    rows = strings(looking(["the dog", "a"], search=drawn)["texts"])
    assert len(rows[0]) == 5
    assert all(one.startswith("the dog") for one in rows[0])
    assert all("<unk>" not in one for row in rows for one in row)
    again = looking.make_sampling(temperature=0.9, top_p=0.9, seed=3, num_results=5)
    assert strings(looking(["the dog", "a"], search=again)["texts"]) == rows
    cold = looking.make_sampling(temperature=1e-3, seed=3)
    greedy = looking(["the dog", "a"], beam_width=1)
    assert strings(looking(["the dog", "a"], search=cold)["text"]) == strings(greedy["text"])


def test_a_config_says_all_but_the_weights(pipeline):
    config = json.loads(json.dumps(pipeline.get_config()))
    again = deserialize(config)
    again.model.set_weights(pipeline.model.get_weights())
    assert again.get_config() == config
    assert strings(again(TEXTS)["texts"]) == strings(pipeline(TEXTS)["texts"])
    close(again.scores(TEXTS)["perplexity"]["score"], pipeline.scores(TEXTS)["perplexity"]["score"])
    wide = pipeline.with_search(beam_width=4)
    assert wide(["the"])["texts"].shape == (1, 4)


def test_an_ensemble_of_the_same_reads_as_one(looking):
    decoder = looking.model.decoder
    both = looking.with_model(LanguageModel(Ensemble([decoder, decoder])))
    expected = looking.scores(TEXTS)["perplexity"]["score"]
    assert both.scores(TEXTS)["perplexity"]["score"] == pytest.approx(expected, rel=1e-5)
    assert "align" not in both.signatures  # whose past would it be?


def test_no_room_for_a_text_is_told():
    with pytest.raises(
        ValueError, match="`max_written` must be below .* max_written=7, max_length=7"
    ):
        make(max_length=7)


@pytest.mark.parametrize("kind", ["attention", "transformer"])
def test_a_saved_model_is_what_a_server_takes(kind, tmp_path):
    pipeline = make(kind)
    folder = export(pipeline, tmp_path / "model", {"recipe": "test"}, TEXTS, float16=True)
    lines = list(check_saved_model(folder))
    assert not [line for line in lines if not line.is_good]
    listed = "align, score, serving_default" if kind == "attention" else "score, serving_default"
    assert ("signatures", listed) in [(line.group, line.text) for line in lines]
    again, served = zoo.load(folder), SavedModel(folder)
    answer = served("serving_default", text=TEXTS)
    assert strings(answer["texts"]) == strings(again(TEXTS)["texts"])
    log_probs = served("score", text=[""] * 6, target=TEXTS)["log_prob"]
    close(log_probs, again.score(tf.constant([""] * 6), tf.constant(TEXTS))["log_prob"], 1e-4)
    card = (folder / "README.md").read_text()
    assert ("- `align`" in card) == (kind == "attention")
    if kind != "attention":
        with pytest.raises(ValueError, match=r"has no signature align, but score, serving_default"):
            served("align", text=["a"])
