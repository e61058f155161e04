"""Text in, text out: the same answers however they are asked for."""

import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.serving.tools import tiny_pipeline
from tests.tools import close
from zoo import GreedyDecoder, RecurrentDecoder, RecurrentEncoder, Seq2Seq
from zoo.serving import Pipeline

WORDS = ["cab", "a", "decade", "bead", "fabled", "x", "facade"]


@pytest.fixture(scope="module")
def pipeline():
    return tiny_pipeline()


def strings(tensor):
    return np.vectorize(lambda text: text.decode(), otypes=[object])(tensor.numpy()).tolist()


def test_an_answer_is_the_search_between_two_tokenizers(pipeline):
    ids = {letter: i for i, letter in enumerate(pipeline.source_tokenizer.symbols, 4)}
    result = pipeline.make_search()(*pipeline.model.encoder(np.array([[ids[c] for c in "bead"]])))
    symbols = dict(enumerate(pipeline.target_tokenizer.symbols, 4))
    expected = [
        " ".join(symbols[i] for i in row[: length - 1 if row[length - 1] == 2 else length])
        for row, length in zip(result.tokens[0].numpy(), result.lengths[0].numpy(), strict=True)
    ]
    answer = pipeline(["bead"])
    assert strings(answer["texts"]) == [expected]
    assert strings(answer["text"]) == expected[:1]
    close(answer["scores"][0], result.scores[0])
    close(answer["score"], answer["scores"][:, 0])


def test_each_text_has_its_own_answer_whatever_comes_with_it(pipeline):
    together = pipeline(WORDS)
    for batch_size in (1, 2, 3):
        again = pipeline(WORDS, batch_size=batch_size)
        assert strings(again["texts"]) == strings(together["texts"])
        close(again["scores"], together["scores"], 1e-4)
    for i, word in enumerate(WORDS):
        assert strings(pipeline([word])["texts"])[0] == strings(together["texts"])[i]


def test_the_halves_of_many_texts_come_back_in_their_order(pipeline):
    texts = [WORDS[i % 7][: 1 + i % 5] for i in range(23)] + [""]
    whole = Pipeline.from_config({**pipeline.get_config(), "split_from": 0})
    whole.model.set_weights(pipeline.model.get_weights())
    together, apart = pipeline(texts), whole(texts)
    assert pipeline.split_from == 16
    assert strings(together["texts"]) == strings(apart["texts"])
    close(together["scores"], apart["scores"], 1e-4)
    assert strings(together["text"])[:7] == strings(pipeline(texts[:7])["text"])


def test_another_search(pipeline):
    wide = pipeline(WORDS, beam_width=6)
    assert wide["texts"].shape == (7, 6)
    assert (wide["score"].numpy() >= pipeline(WORDS)["score"].numpy() - 1e-5).all()
    greedy = pipeline(WORDS, search=GreedyDecoder(pipeline.model.decoder, max_length=12))
    narrow = pipeline(WORDS, beam_width=1, forbidden_ids=())
    assert strings(greedy["texts"]) == strings(narrow["texts"])


def test_special_tokens_are_never_written():
    pipeline = tiny_pipeline()
    bias = pipeline.model.decoder.output_dense.bias.numpy()
    bias[[0, 1, 3]] = 50.0  # padding, start and unknown are all that the model wants to write
    pipeline.model.decoder.output_dense.bias.assign(bias)
    for text in np.ravel(strings(pipeline(WORDS)["texts"])):
        assert set(text.split()) <= set(pipeline.target_tokenizer.symbols)


def test_no_texts_and_empty_texts(pipeline):
    nothing = pipeline([])
    assert nothing["texts"].shape == (0, 3)
    assert nothing["score"].shape == (0,)
    answer = pipeline(["", "cab", ""])
    assert strings(answer["text"])[::2] == ["", ""]
    close(answer["score"][0], 0.0)
    assert strings(answer["texts"])[1] == strings(pipeline(["cab"])["texts"])[0]
    assert np.isfinite(answer["scores"]).all()
    aligned = pipeline.align(tf.constant([""]))
    assert aligned["target_tokens"].shape == (1, 0)
    assert pipeline.align(tf.constant([], tf.string))["alignments"].shape[0] == 0
    close(pipeline.score(tf.constant([""]), tf.constant([""]))["log_prob"], [0.0])
    none = tf.constant([], tf.string)
    assert pipeline.score(none, none)["log_prob"].shape == (0,)


def test_a_long_text_is_read_up_to_its_limit(pipeline):
    word = "abcdefghij" * 1000
    assert strings(pipeline([word])["texts"]) == strings(pipeline([word[:20]])["texts"])


@pytest.mark.parametrize(
    ("call", "message"),
    {
        "one string": (lambda p: p("a"), "`texts` must be a list of strings. Received: texts='a'"),
        "numbers": (lambda p: p([1]), r"Received: texts=\[1\]"),
        "batch_size": (lambda p: p(["a"], batch_size=0), "Received: batch_size=0"),
        "both": (
            lambda p: p(["a"], search=p.make_search(), beam_width=2),
            "`search` has its own settings. Received: .*beam_width",
        ),
    }.values(),
)
def test_errors_say_what_was_received(pipeline, call, message):
    with pytest.raises(ValueError, match=message):
        call(pipeline)


def test_what_a_shell_could_not_decode_is_text_too(pipeline):
    assert pipeline(["ca\udcff"])["text"] == pipeline([b"ca\xff"])["text"]


def test_another_search_for_good(pipeline):
    wide = pipeline.with_search(beam_width=6)
    assert wide(["cab"])["texts"].shape == (1, 6)
    assert strings(wide(WORDS)["texts"]) == strings(pipeline(WORDS, beam_width=6)["texts"])
    assert pipeline.with_search(length_penalty=0.5)(["cab"])["texts"].shape == (1, 3)
    pipeline.search["beam_width"] = 1  # a copy: what is compiled cannot be changed so
    assert pipeline.search["beam_width"] == 4


def test_a_model_without_attention():
    letters, sounds = pipeline_of_tokenizers()
    model = Seq2Seq(
        RecurrentEncoder(letters.vocabulary_size, 8, units=6),
        RecurrentDecoder(sounds.vocabulary_size, 8, keras.layers.GRUCell(6)),
    )
    plain = Pipeline(model, letters, sounds, {"max_length": 8})
    answer = plain(["cab"])
    scored = plain.score(tf.constant(["cab"]), answer["texts"][:, 0])
    close(scored["log_prob"], answer["score"], 1e-4)
    assert plain.align(tf.constant(["cab"]))["alignments"].shape[2] == 0


def pipeline_of_tokenizers():
    pipeline = tiny_pipeline()
    return pipeline.source_tokenizer, pipeline.target_tokenizer


def test_a_search_on_a_machine_with_a_gpu_is_traced_for_any_machine(pipeline, monkeypatch):
    """Keras chooses cuDNN as it traces, by what it sees: here it seems to see a GPU."""
    rnn = sys.modules["keras.src.backend.tensorflow.rnn"]
    monkeypatch.setattr(rnn, "_is_gpu_available", lambda: True)
    decode = tf.function(lambda text: pipeline.decode(text), autograph=False)
    graph = decode.get_concrete_function(tf.TensorSpec((None,), tf.string)).graph
    functions = graph.as_graph_def().library.function
    operations = {node.op for function in functions for node in function.node_def}
    operations |= {operation.type for operation in graph.get_operations()}
    assert not any("Cudnn" in operation for operation in operations)


def test_the_score_of_an_answer_is_the_score_that_search_gave(pipeline):
    answer = pipeline(WORDS)
    lengths = [[len(text.split()) for text in row] for row in strings(answer["texts"])]
    assert np.max(lengths) == 12  # one that did not end
    assert np.min(lengths) < 12
    for i in range(3):
        log_probs = pipeline.score(tf.constant(WORDS), answer["texts"][:, i])["log_prob"]
        close(log_probs, answer["scores"][:, i], 1e-4)


@pytest.mark.parametrize(("texts", "targets"), [(1, 2), (2, 1), (3, 2), (0, 1)])
def test_each_text_needs_a_target(pipeline, texts, targets):
    text = tf.TensorSpec((None,), tf.string)
    score = tf.function(pipeline.score, input_signature=[text, text], autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="text and target must be as many"):
        score(tf.constant(["cab"] * texts, tf.string), tf.constant(["B"] * targets, tf.string))


def test_a_target_longer_than_search_can_write_is_impossible(pipeline):
    log_probs = pipeline.score(tf.constant(["cab"] * 2), tf.constant(["B " * 13, "B " * 10000]))
    assert log_probs["log_prob"].numpy().tolist() == [-1e9, -1e9]
    assert pipeline.score(tf.constant(["cab"]), tf.constant(["B " * 12]))["log_prob"][0] > -1e3


def test_alignments_are_those_of_the_best_answer(pipeline):
    aligned = pipeline.align(tf.constant(["decade", "cab"]))
    assert strings(aligned["source_tokens"]) == [list("decade"), ["c", "a", "b", "", "", ""]]
    text = strings(pipeline(["decade", "cab"])["text"])
    tokens = strings(aligned["target_tokens"])
    assert [" ".join(filter(None, row)) for row in tokens] == text
    weights = aligned["alignments"].numpy()
    assert weights.shape == (2, len(tokens[0]), 6)
    written = np.array([[bool(token) for token in row] for row in tokens], float)
    close(weights.sum(axis=2), written)  # a distribution for each token, nothing for padding
    assert (weights[1, :, 3:] == 0).all()
    # Reading the answer gives what writing it gave.
    forced = pipeline.teacher_forced(tf.constant(["decade", "cab"]), tf.constant(text))
    close(forced["alignments"], weights, 1e-4)
    assert strings(forced["target_tokens"]) == tokens


def test_a_config_says_all_but_the_weights(pipeline):
    config = json.loads(json.dumps(pipeline.get_config()))
    again = Pipeline.from_config(config)
    again.model.set_weights(pipeline.model.get_weights())
    assert strings(again(WORDS)["texts"]) == strings(pipeline(WORDS)["texts"])
    half = Pipeline.from_config(config, "mixed_bfloat16")
    assert half.model.decoder.cell.compute_dtype == "bfloat16"
    assert half.get_config() == config  # what is written down computes in float32


def test_asking_changes_nothing(pipeline):
    before = [variable.numpy() for variable in pipeline.model.variables]  # dropout's states too
    pipeline(WORDS)
    pipeline.score(tf.constant(WORDS), tf.constant(WORDS))
    for variable, value in zip(pipeline.model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
