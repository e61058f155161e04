"""Losses on attention weights say what their formulas say, in the one loop of training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.serving.tools import tiny_pipeline
from tests.tools import close
from tests.training.test_trainer import BATCH
from zoo import RecurrentDecoder, RecurrentEncoder, Seq2Seq
from zoo.data import Batches
from zoo.text import CharacterTokenizer, SentencePieceTokenizer
from zoo.training.attention_losses import (
    CoverageLoss,
    GuidedAlignment,
    read_links,
    require_weights,
)
from zoo.training.settings import Settings
from zoo.training.trainer import Trainer

SPEC = dict.fromkeys(["source", "target", "links"], tf.TensorSpec((None, None), tf.int32))
TARGET = np.array([[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]])
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4))


def test_coverage_by_hand():
    expected = 0.0
    for row, length in enumerate((4, 2)):
        before = np.zeros(3)
        for t in range(length):
            expected += np.minimum(WEIGHTS[row, t], before).sum()
            before += WEIGHTS[row, t]
    close(CoverageLoss(1.0)(tf.constant(WEIGHTS), {"target": TARGET}), expected)


def links_of(*lists):
    """A column of links (source, target), as a batch has it."""
    guide = GuidedAlignment(lists, 1.0)
    letters = CharacterTokenizer("abcdefgh")
    texts = [["abcdefgh"] * len(lists)] * 2
    ids = [letters.tokenize(side).to_list() for side in texts]
    codes = guide.lists((letters, letters), texts, ids)
    return tf.ragged.constant(codes, dtype=tf.int32).to_tensor()


def test_guidance_by_hand():
    # The first token of the first target is linked with two positions, the third with one.
    links = links_of([(0, 0), (2, 0), (1, 2)], [(2, 1)])
    loss = GuidedAlignment(None, 1.0)(tf.constant(WEIGHTS), {"target": TARGET, "links": links})
    first = (np.log(WEIGHTS[0, 0, 0]) + np.log(WEIGHTS[0, 0, 2])) / 2
    close(loss, -(first + np.log(WEIGHTS[0, 2, 1]) + np.log(WEIGHTS[1, 1, 2])), 1e-4)
    # Of a source that was cut off the links into what is left count.
    links = links_of([(0, 0), (2, 0), (7, 0), (1, 2), (6, 1)], [(2, 1)])
    close(GuidedAlignment(None, 1.0)(tf.constant(WEIGHTS), {"links": links}), loss, 1e-6)


def test_pieces_have_the_links_of_their_words():
    lines = ["ab cd ab cd abcd", "cd ab abab cdcd"]
    tokenizer = SentencePieceTokenizer.train(lines, 12)
    texts = ["abcd ab", "cd abab"]
    sides = [[text] for text in texts]
    ids = [tokenizer.tokenize(side).to_list() for side in sides]
    pieces = [tokenizer.tokens(tf.constant(one[0])).numpy().tolist() for one in ids]
    words = [
        np.cumsum([piece.decode().startswith("\u2581") for piece in one]) - 1 for one in pieces
    ]
    assert [word.max() for word in words] == [1, 1]
    assert max(map(len, pieces)) > 2  # some word has several pieces
    guide = GuidedAlignment([[(0, 1), (1, 0)]], 1.0)
    ((*codes,),) = guide.lists((tokenizer, tokenizer), sides, ids)
    linked = {((code - 1) % 2**15, (code - 1) // 2**15) for code in codes}
    crossed = {(i, t) for i, s in enumerate(words[0]) for t, w in enumerate(words[1]) if s != w}
    assert linked == crossed


def test_words_that_are_not_those_of_spaces_have_no_links(capsys):
    tokenizer = SentencePieceTokenizer.train(["ab cd ab cd abcd", "cd ab abab cdcd"], 12)
    sides = ["ab\u00b4cd ab", "ab cd"], ["cd ab", "cd ab"]  # the accent is read as a space and it
    ids = [tokenizer.tokenize(side).to_list() for side in sides]
    guide = GuidedAlignment([[(1, 1)], [(1, 1)]], 1.0, "given")
    for _ in range(2):
        wrong, right = guide.lists((tokenizer, tokenizer), sides, ids)
        assert not wrong
        assert right
    assert capsys.readouterr().out.count("given: the links of 1 pairs are left out") == 1


def column(batch, *lists):
    return {**batch, "links": links_of(*lists).numpy()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"jit": True}, marks=pytest.mark.slow),
        pytest.param({"consistency": 1.0}, marks=pytest.mark.slow),
        pytest.param({"consistency": 1.0, "jit": True}, marks=pytest.mark.slow),
    ],
)
def test_the_trainer_adds_them_up(settings):
    losses = [GuidedAlignment(None, 0.5), CoverageLoss(2.0)]
    batch = column(BATCH, [(0, 1), (1, 0)], [(3, 3)], [])
    settings = Settings(output="nowhere", warmup_steps=0, **settings)
    model = tiny_pipeline(dropout=0.0).model
    inputs = {"source": BATCH["source"], "target": BATCH["target"][:, :-1]}
    _, weights = model(inputs, return_attention_scores=True)
    plain = Trainer(tiny_pipeline(dropout=0.0).model, settings, 10)
    one = Trainer(model, settings, 10, spec=SPEC, attention_losses=losses)
    more = sum(loss.weight * float(loss(weights, batch)) for loss in losses)
    assert more > 1
    (total, tokens, *_), (expected, *_) = one.step(batch), plain.step(BATCH)
    close(total, float(expected) + more, 1e-4)
    assert float(tokens) == 7


def test_guidance_goes_through_pieces_and_turns():
    """Weights after steps are the same, whatever the batch is cut into."""
    batch = column(BATCH, [(0, 1), (1, 0)], [(3, 3)], [])
    weights = []
    for sizes in ({}, {"batch_tokens": 4, "effective_batch_tokens": 8}):
        settings = Settings(output="nowhere", warmup_steps=0, learning_rate=0.01, **sizes)
        model = tiny_pipeline(dropout=0.0).model
        one = Trainer(model, settings, 10, spec=SPEC, attention_losses=[GuidedAlignment(None, 0.5)])
        for _ in range(3):
            one.step(batch)
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        close(a, b, 1e-4)


def test_a_guided_model_looks_where_it_is_told():
    batch = column(BATCH, [(1, 0), (0, 1)], [(3, 0), (2, 1), (1, 2)], [])
    settings = Settings(output="nowhere", warmup_steps=0, learning_rate=0.02)
    model = tiny_pipeline(dropout=0.0).model
    one = Trainer(model, settings, 100, spec=SPEC, attention_losses=[GuidedAlignment(None, 1.0)])
    for _ in range(60):
        one.step(batch)
    inputs = {"source": BATCH["source"], "target": BATCH["target"][:, :-1]}
    _, weights = model(inputs, return_attention_scores=True)
    assert weights[0, :2].numpy().argmax(-1).tolist() == [1, 0]
    assert weights[1, :3].numpy().argmax(-1).tolist() == [3, 2, 1]


def test_links_of_a_file(tmp_path):
    path = tmp_path / "links"
    path.write_text("0-0 1-2\n\n2-1\n")
    assert read_links(path) == [[(0, 0), (1, 2)], [], [(2, 1)]]
    path.write_text("0-0\n0:1\n")
    with pytest.raises(ValueError, match="links:2: links must be positions"):
        read_links(path)


def test_links_that_cannot_be_are_refused():
    letters = CharacterTokenizer("abc")
    texts = ["ab", "abc"], ["a", "cb"]
    given = texts, [letters.tokenize(side).to_list() for side in texts]
    with pytest.raises(ValueError, match="given:2 must link words .* of 3 and 2 words.* 3-0"):
        GuidedAlignment([[(1, 0)], [(3, 0)]], 1.0, "given").lists((letters, letters), *given)
    with pytest.raises(ValueError, match="a line for each of the 2 pairs.* Received: 1 lines"):
        GuidedAlignment([[]], 1.0).lists((letters, letters), *given)


def test_a_model_without_attention_is_refused():
    require_weights(tiny_pipeline().model)
    decoder = RecurrentDecoder(9, 4, keras.layers.GRUCell(5))
    with pytest.raises(ValueError, match="gives attention weights. Received: RecurrentDecoder"):
        require_weights(Seq2Seq(RecurrentEncoder(9, 4, 5), decoder))


def test_columns_of_batches():
    rng = np.random.default_rng(0)
    sources = [rng.integers(4, 20, size=n).tolist() for n in rng.integers(1, 20, size=200)]
    numbers = {tuple(source): [i + 1] * (i % 50) for i, source in enumerate(sources)}
    batches = Batches(
        sources, sources, batch_tokens=128, num_buckets=3,
        columns={"links": [numbers[tuple(source)] for source in sources]},
    )  # fmt: skip
    seen, widths = 0, set()
    for batch in batches.epoch(1).as_numpy_iterator():
        widths.add((batch["source"].shape[1], batch["links"].shape[1]))
        for source, links in zip(batch["source"], batch["links"], strict=True):
            expected = numbers.get(tuple(source[source > 0].tolist()), [])
            assert links[links > 0].tolist() == expected
            seen += source[0] > 0
    assert seen == 200
    assert len(widths) <= 3 < len(batches)  # a shape for each bucket
    plain = Batches(sources, sources, batch_tokens=128, num_buckets=3)
    assert plain.fingerprint != batches.fingerprint
