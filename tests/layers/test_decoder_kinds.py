"""What holds for every decoder, of whatever kind: the contract, and search against brute force."""

import itertools

import keras
import numpy as np
import pytest

from tests.layers.test_decoder import ConvolutionalDecoder
from tests.layers.test_recurrent_decoder import stepped
from tests.tools import close, compiled, greedy_by_hand, log_softmax, randomize, to_numpy
from zoo import (
    AttentionCell,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    CopyDecoder,
    Ensemble,
    EnsembleEncoder,
    GreedyDecoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentLanguageModel,
    TransformerDecoder,
)

VOCABULARY, END = 4, 2
RNG = np.random.default_rng(0)
MEMORY = RNG.normal(size=(3, 5, 6)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [1, 0, 0, 0, 0]], bool)
SUMMARY = RNG.normal(size=(3, 5)).astype("float32")
ENCODED = {"memory": MEMORY, "memory_mask": MASK, "summary": SUMMARY}
TOKENS = RNG.integers(0, VOCABULARY, size=(3, 6))
IDS = np.array([[3, 1, 3, 2, 1], [0, 2, 3, 0, 2], [1, 0, 0, 0, 0]])  # of the source; some are twice
COPIED = {**ENCODED, "memory": {"memory": MEMORY, "ids": IDS}}


def recurrent(attention, **options):
    cell = AttentionCell(keras.layers.LSTMCell(5), attention, 4, **options)
    return RecurrentDecoder(VOCABULARY, 3, cell)


def transformer(**options):
    return TransformerDecoder(VOCABULARY, dim=8, num_layers=2, num_heads=2, **options)


def ensemble():
    return Ensemble([recurrent(LuongAttention()), transformer(), ConvolutionalDecoder(VOCABULARY)])


def language_model(attention=None, window=None):
    return RecurrentLanguageModel(VOCABULARY, 3, keras.layers.GRUCell(5), attention, window)


OTHER = np.random.default_rng(1).normal(size=(3, 5, 3)).astype("float32")
# For each kind how to make it, and what an encoder gives it; {} is a language model.
KINDS = {
    "bahdanau": (lambda: recurrent(BahdanauAttention(4), query="previous_state"), ENCODED),
    "luong": (lambda: recurrent(LuongAttention()), ENCODED),
    "monotonic": (lambda: recurrent(BahdanauMonotonicAttention(4)), ENCODED),
    "bottleneck": (lambda: RecurrentDecoder(VOCABULARY, 3, keras.layers.GRUCell(5)), ENCODED),
    "transformer": (transformer, ENCODED),
    "tied": (lambda: transformer(tie_embeddings=True, positions="learned"), ENCODED),
    "convolutional": (lambda: ConvolutionalDecoder(VOCABULARY), {"memory": MEMORY[:, :4]}),
    "ensemble": (
        lambda: Ensemble([recurrent(LuongAttention()), transformer()]),
        # Members with memories of different widths, and only one of them with a mask.
        {
            "memory": [MEMORY, OTHER],
            "memory_mask": [MASK, None],
            "summary": [SUMMARY, None],
        },
    ),
    "ensemble_of_language_models": (
        lambda: Ensemble([language_model(), transformer(cross_attention=False)]),
        {},
    ),
    "copying": (lambda: CopyDecoder(recurrent(LuongAttention())), COPIED),
    "copying_transformer": (lambda: CopyDecoder(transformer(tie_embeddings=True)), COPIED),
    "ensemble_that_copies": (
        lambda: Ensemble([CopyDecoder(recurrent(LuongAttention())), transformer()]),
        {
            "memory": [COPIED["memory"], MEMORY],
            "memory_mask": [MASK, MASK],
            "summary": [SUMMARY, None],
        },
    ),
    "recurrent_language_model": (language_model, {}),
    "attentive_language_model": (lambda: language_model(BahdanauAttention(4)), {}),
    "language_model_with_a_window": (lambda: language_model(LuongAttention(), window=2), {}),
    "transformer_language_model": (lambda: transformer(cross_attention=False), {}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def built(kind):
    make, encoded = KINDS[kind]
    decoder = make()
    decoder(TOKENS, **encoded)
    return randomize(decoder), encoded


@every_kind
def test_call_equals_step(kind):
    decoder, encoded = built(kind)
    logits, weights = decoder(TOKENS, **encoded, return_attention_scores=True)
    expected_logits, expected_weights = stepped(decoder, TOKENS, **encoded)
    close(logits, expected_logits)
    if expected_weights is None:
        assert weights is None
    else:
        close(weights, expected_weights)


@every_kind
def test_a_text_may_be_read_in_chunks(kind):
    decoder, encoded = built(kind)
    expected = decoder(TOKENS, **encoded)
    state, _ = decoder.begin(
        **{"memory": None, "memory_mask": None, "summary": None, **encoded}, batch_size=3
    )
    logits = []
    for start, end in ((0, 2), (2, 3), (3, 6)):
        chunk, state = decoder(TOKENS[:, start:end], **encoded, state=state, return_state=True)
        logits.append(to_numpy(chunk))
    close(np.concatenate(logits, axis=1), expected)


def test_a_fresh_language_model_begins():
    for decoder in (language_model(), language_model(LuongAttention(), window=2)):
        state, source = decoder.begin(batch_size=2)
        logits, _, _ = decoder.step(TOKENS[:2, :1], state, source)
        assert logits.shape == (2, 1, VOCABULARY)


def all_sequences(limit):
    """Every sequence that ends within the limit, or reaches it."""
    for length in range(1, limit + 1):
        for tokens in itertools.product(range(VOCABULARY), repeat=length):
            if END not in tokens[:-1] and (length == limit or tokens[-1] == END):
                yield tokens


@every_kind
def test_a_wide_beam_equals_brute_force(kind):
    decoder, encoded = built(kind)
    limit, alpha = 3, 0.7
    sequences = list(all_sequences(limit))
    search = BeamSearchDecoder(decoder, 70, max_length=limit, length_penalty=alpha)
    result = [to_numpy(x) for x in compiled(lambda: search(**encoded, batch_size=3))()]
    # The log-probability of every sequence by teacher forcing, a whole batch of sources at a time.
    totals, logits_of = [], compiled(lambda tokens: decoder(tokens, **encoded))
    for tokens in sequences:
        given = np.tile((1, *tokens, 0, 0)[:limit], (3, 1))
        log_probs = log_softmax(to_numpy(logits_of(given)))
        totals.append(sum(log_probs[:, t, token] for t, token in enumerate(tokens)))
    for row in range(3):
        scores = [
            total[row] / ((5 + len(tokens)) / 6) ** alpha
            for tokens, total in zip(sequences, totals, strict=True)
        ]
        order = sorted(range(len(sequences)), key=lambda i: (sequences[i][-1] != END, -scores[i]))
        found = [
            tuple(result[0][row, n, : result[1][row, n]].tolist()) for n in range(len(sequences))
        ]
        assert found == [sequences[i] for i in order]
        close(result[2][row, : len(order)], np.array(scores)[order], 1e-4)
        assert (result[1][row, len(order) :] == 0).all()


@every_kind
def test_greedy_is_the_most_probable_token_each_time(kind):
    decoder, encoded = built(kind)
    result = GreedyDecoder(decoder, max_length=5)(**encoded, batch_size=3)
    tokens = greedy_by_hand(decoder, np.ones((3, 1), int), 5, **encoded)
    for row in range(3):
        written = tokens[row, 1:].tolist()
        length = written.index(END) + 1 if END in written else 5
        assert to_numpy(result.lengths)[row, 0] == length
        assert to_numpy(result.tokens)[row, 0, :length].tolist() == written[:length]


# What is particular to some of them.


def test_an_ensemble_of_one_is_its_member():
    member, encoded = built("luong")
    lists = {name: [value] for name, value in encoded.items()}
    logits, weights = Ensemble([member])(TOKENS, **lists, return_attention_scores=True)
    expected_logits, expected_weights = member(TOKENS, **encoded, return_attention_scores=True)
    close(logits, expected_logits)
    close(weights, expected_weights)


def test_an_ensemble_is_the_mean_of_probabilities():
    first, encoded = built("luong")
    second, _ = built("transformer")
    lists = {name: [value, value] for name, value in encoded.items()}
    logits, weights = Ensemble([first, second])(TOKENS, **lists, return_attention_scores=True)
    parts = [d(TOKENS, **encoded, return_attention_scores=True) for d in (first, second)]
    mean = sum(np.exp(log_softmax(to_numpy(x))) for x, _ in parts) / 2
    close(np.exp(log_softmax(to_numpy(logits))), mean)
    close(weights, sum(to_numpy(w) for _, w in parts) / 2)


def test_coverage_counts_the_positions_that_any_member_may_see():
    first, _ = built("luong")
    second, _ = built("transformer")
    masks = [MASK, MASK[::-1].copy()]
    ensemble = Ensemble([first, second])
    encoded = ([MEMORY, MEMORY], masks, [SUMMARY, None])
    search = BeamSearchDecoder(ensemble, 3, max_length=4, coverage_penalty=0.5)
    result = [to_numpy(x) for x in search(*encoded)]
    _, lengths, scores, log_probs, alignments = result
    sums = np.clip(alignments.sum(2), 1e-6, 1)  # (batch, n, source_length)
    counted = np.where((masks[0] | masks[1])[:, None], np.log(sums), 0).sum(-1)
    close(scores, log_probs + 0.5 * counted, 1e-4)
    assert (lengths > 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ensemble([]), "`decoders` must be a list of at least one Decoder"),
        (lambda: Ensemble([keras.layers.Dense(3)]), "`decoders` must be a list"),
        (
            lambda: Ensemble([language_model(), TransformerDecoder(9, 8)]),
            r"`decoders` must write one vocabulary. Received: vocabulary sizes \[4, 9\]",
        ),
        (
            lambda: ensemble()(TOKENS, [MEMORY]),
            "`memory` must be a list with an entry for each of the 3 decoders.*1 entries",
        ),
        (lambda: ensemble()(TOKENS, MEMORY), "`memory` must be a list with an entry"),
        (
            lambda: language_model(BahdanauMonotonicAttention(4)),
            "`attention` must be a BahdanauAttention or a LuongAttention, or None",
        ),
        (
            lambda: language_model(LuongAttention(), window=0),
            "`window` must be an integer of at least 1",
        ),
        (lambda: language_model(window=5), "`window` is how far an attention looks back"),
        (lambda: language_model()(TOKENS, MEMORY), "A language model has no `memory`"),
        (
            lambda: transformer(cross_attention=False)(TOKENS, MEMORY),
            "`memory` is nothing that cross_attention=False looks at",
        ),
        (
            lambda: EnsembleEncoder([keras.layers.Dense(3)])(MEMORY),
            "An encoder must return three things.*1 from Dense",
        ),
        (
            lambda: Ensemble([recurrent(LuongAttention()), transformer()])(
                TOKENS, [MEMORY, MEMORY[:, :4]], None, [SUMMARY, None], True
            ),
            r"sources must be of one length. Received: sources of lengths \[4, 5\]",
        ),
        (lambda: language_model().begin(), "`batch_size` is needed"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@every_kind
def test_a_state_of_something_else_is_refused(kind):
    decoder, encoded = built(kind)
    nothing = {"memory": None, "memory_mask": None, "summary": None}
    begun = decoder.begin(**{**nothing, **encoded}, batch_size=3)
    for state in ({"other": begun[0]}, begun, "state"):
        with pytest.raises(ValueError, match="`state` must be "):
            decoder(TOKENS, **encoded, state=state)
    if not encoded:
        with pytest.raises(ValueError, match="`state` must be .*for this batch"):
            decoder(TOKENS, state=decoder.begin(batch_size=2)[0])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_what_a_cache_has_no_room_for_is_nan(positions):
    decoder = transformer(cross_attention=False, max_length=5, positions=positions)
    decoder(TOKENS[:, :5])
    expected = to_numpy(decoder(TOKENS[:, :5]))
    _, state = decoder(TOKENS[:, :3], return_state=True)
    logits, state = decoder(TOKENS[:, 3:], state=state, return_state=True)
    close(logits[:, :2], expected[:, 3:])
    assert np.isnan(to_numpy(logits)[:, 2:]).all()


def test_weights_on_the_past_are_a_window():
    model = language_model(BahdanauAttention(4), window=3)
    model(TOKENS)
    randomize(model)
    weights = to_numpy(model.past_weights(TOKENS))
    assert weights.shape == (3, 6, 3)
    close(weights[:, 0], np.zeros((3, 3)))  # the first state has no past
    close(weights[:, 1], [[0, 0, 1]] * 3)  # the second has one, its latest
    assert (weights[:, 2, 0] == 0).all()
    close(weights[:, 1:].sum(-1), np.ones((3, 5)))
    assert np.abs(weights[:, 3:] - 1 / 3).max() > 0.01


def test_members_of_an_ensemble_are_told_of_training():
    members = [transformer(cross_attention=False, dropout=0.5) for _ in range(2)]
    both = Ensemble(members)
    plain = to_numpy(both(TOKENS))
    assert np.abs(to_numpy(both(TOKENS, training=True)) - plain).max() > 1e-3
    close(both(TOKENS), plain)


def test_chunks_are_told_of_training():
    for decoder in (
        transformer(cross_attention=False, dropout=0.5),
        RecurrentLanguageModel(VOCABULARY, 3, keras.layers.GRUCell(5), dropout=0.5),
    ):
        state, _ = decoder.begin(batch_size=3)
        plain, _ = decoder(TOKENS, state=state, return_state=True)
        dropped, _ = decoder(TOKENS, state=state, return_state=True, training=True)
        assert np.abs(to_numpy(plain) - to_numpy(dropped)).max() > 1e-3


def test_a_member_without_a_mask_counts_every_position():
    both = Ensemble([transformer(), transformer()])
    assert both.source_mask([MASK, None]) is None
    assert (to_numpy(both.source_mask([MASK, MASK[::-1].copy()])) == (MASK | MASK[::-1])).all()


def test_a_window_sees_no_further():
    # Two texts that differ in the first token only; the cell forgets at once, being a plain lookup.
    model = language_model(LuongAttention("dot"), window=2)
    model(TOKENS)
    randomize(model)
    model.cell.recurrent_kernel.assign(model.cell.recurrent_kernel * 0)
    kernel = to_numpy(model.cell.bias).copy()
    kernel[:, :5] = -30.0  # the update gate: h(t) is the candidate, nothing is carried over
    model.cell.bias.assign(kernel)
    other = TOKENS.copy()
    other[:, 0] = (other[:, 0] + 1) % VOCABULARY
    changed = np.abs(to_numpy(model(TOKENS)) - to_numpy(model(other))).max(axis=(0, 2))
    # The first state of a window has the one before it as its key.
    assert (changed[:4] > 1e-4).all()
    assert (changed[4:] < 1e-6).all()
