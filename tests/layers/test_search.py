"""The rules of search, one by one."""

import itertools
import json

import keras
import numpy as np
import pytest
from keras import ops

from tests.tools import (
    TableDecoder,
    attention_decoder,
    brute_force,
    close,
    compiled,
    log_softmax,
    mask_of,
    random_table,
    randomize,
    to_numpy,
)
from zoo import (
    BeamSearchDecoder,
    Decoder,
    GreedyDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    SamplingDecoder,
)

START, END, A, B = 1, 2, 3, 4


def chain(*steps, vocabulary=5):
    """A decoder from next-token probabilities: each step a dict of last token -> probabilities."""
    table = np.full((1, len(steps), vocabulary, vocabulary), -30.0)
    for step, rows in enumerate(steps):
        for last, probabilities in rows.items():
            for token, probability in probabilities.items():
                table[0, step, last, token] = np.log(probability)
    return TableDecoder(table)


# A story: what a beam is for.


def test_a_beam_finds_what_greedy_misses():
    # A looks better at first, but all that follows A is weak; B ends with certainty.
    decoder = chain({START: {A: 0.6, B: 0.4}}, {A: {A: 0.3, B: 0.3, END: 0.4}, B: {END: 1.0}})
    greedy = GreedyDecoder(decoder, max_length=2)(batch_size=1)
    assert to_numpy(greedy.tokens).tolist() == [[[A, END]]]
    close(greedy.log_probs, [[np.log(0.24)]])
    beam = BeamSearchDecoder(decoder, beam_width=2, max_length=2)(batch_size=1)
    assert to_numpy(beam.tokens).tolist() == [[[B, END], [A, END]]]
    close(beam.log_probs, [[np.log(0.4), np.log(0.24)]])
    assert to_numpy(beam.lengths).tolist() == [[2, 2]]


def test_a_finished_hypothesis_collects_nothing_more():
    # [end] has log-probability -0.598, [A, B, end] has -0.811 in all.
    p = np.exp(-0.598)
    q = np.exp(-0.811) / (1 - p)
    decoder = chain(
        {START: {END: p, A: 1 - p}}, {A: {B: q, A: 1 - q}}, {B: {END: 1.0}, A: {A: 1.0}}
    )
    result = BeamSearchDecoder(decoder, beam_width=2, max_length=3)(batch_size=1)
    assert to_numpy(result.tokens)[0, 0].tolist() == [END, END, END]
    assert to_numpy(result.lengths)[0, 0] == 1
    close(result.scores[0, 0], -0.598)


def test_a_length_penalty_prefers_longer_results():
    p = 0.5
    decoder = chain({START: {END: p, A: 1 - p}}, {A: {B: 0.95, A: 0.05}}, {B: {END: 0.95, A: 0.05}})
    for alpha, first in ((0.0, [END, END, END]), (1.0, [A, B, END])):
        result = BeamSearchDecoder(decoder, 2, max_length=3, length_penalty=alpha)(batch_size=1)
        assert to_numpy(result.tokens)[0, 0].tolist() == first
    log_prob = np.log(0.5 * 0.95 * 0.95)
    close(result.log_probs[0, 0], log_prob)
    close(result.scores[0, 0], log_prob / (8 / 6))


def test_unfinished_results_rank_behind_finished_ones():
    decoder = chain({START: {A: 0.9, END: 0.1}}, {A: {A: 0.9, END: 0.1}})
    result = BeamSearchDecoder(decoder, beam_width=3, max_length=2)(batch_size=1)
    assert to_numpy(result.tokens).tolist() == [[[END, END], [A, END], [A, A]]]
    close(result.log_probs, [[np.log(0.1), np.log(0.09), np.log(0.81)]])


def test_slots_that_cannot_be_filled_are_empty():
    decoder = TableDecoder(random_table(np.random.default_rng(0), time=1, vocabulary=4))
    search = BeamSearchDecoder(decoder, 5, max_length=1, forbidden_ids=[0, 3])
    result = search(batch_size=1)  # only `start` and `end` are left
    assert to_numpy(result.lengths).tolist() == [[1, 1, 0, 0, 0]]
    assert (to_numpy(result.scores)[0, 2:] == -1e9).all()
    assert (to_numpy(result.log_probs)[0, 2:] == -1e9).all()
    assert (to_numpy(result.tokens)[0, 2:] == END).all()


def test_a_large_vocabulary_is_searched_alike_with_few_and_with_many_to_pass_over(monkeypatch):
    table = random_table(np.random.default_rng(1), time=2, vocabulary=2003)
    table[:, :, :, [0, 7]] += 20.0  # the best ones may not be written
    found = []
    for few in (16, 0):
        monkeypatch.setattr("zoo.layers.beam_search_decoder.FEW", few)
        search = BeamSearchDecoder(
            TableDecoder(table), 4, max_length=2, min_length=2, forbidden_ids=[0, 7, 7]
        )
        found.append(search(batch_size=1))
    assert not np.isin(to_numpy(found[0].tokens), [0, 7]).any()
    close(found[0].tokens, found[1].tokens)
    close(found[0].log_probs, found[1].log_probs)
    free = BeamSearchDecoder(TableDecoder(table), 4, max_length=2)(batch_size=1)
    assert np.isin(to_numpy(free.tokens)[0, :, 0], [0, 7]).all()


# Against brute force, where the beam is as wide as the space.

OPTIONS = {
    "plain": {},
    "length_penalty": {"length_penalty": 0.8},
    "min_length": {"min_length": 3},
    "forbidden": {"forbidden_ids": [0]},
    "no_repeat": {"no_repeat_ngram": 1},
    "no_repeat_bigram": {"no_repeat_ngram": 2},
    "prefix": {"prefix": [3, 0]},
    "prefix_with_end": {"prefix": [3, END]},
    "prefix_overrules": {"prefix": [0, 0], "forbidden_ids": [0], "no_repeat_ngram": 1},
    "all": {"length_penalty": 1.2, "min_length": 2, "no_repeat_ngram": 2, "prefix": [3]},
}


def check_against_brute_force(table, options, limits, weights=None, mask=None, width=200):
    sources, time, _, _ = table.shape
    options = dict(options)
    prefix = options.pop("prefix", None)
    decoder = TableDecoder(table, weights)
    search = BeamSearchDecoder(decoder, width, max_length=time, **options)
    result = search(
        memory_mask=mask,
        prefix=None if prefix is None else np.tile(prefix, (sources, 1)),
        max_length=np.asarray(limits),
        batch_size=sources,
    )
    for i in range(sources):
        expected = brute_force(
            table[i],
            limit=limits[i],
            weights=None if weights is None else weights[i],
            mask=None if mask is None else mask[i],
            prefix=prefix or (),
            **options,
        )[:width]
        count = len(expected)
        tokens, lengths = to_numpy(result.tokens)[i], to_numpy(result.lengths)[i]
        assert (lengths[count:] == 0).all()
        assert (lengths[:count] > 0).all()
        close(result.scores[i, :count], [score for _, _, score in expected], 1e-4)
        close(result.log_probs[i, :count], [log_prob for _, log_prob, _ in expected], 1e-4)
        # The same sequences, each with the score that enumeration gave it.
        found = {tuple(t[:n]): k for k, (t, n) in enumerate(zip(tokens, lengths, strict=True)) if n}
        assert set(found) == {sequence for sequence, _, _ in expected}
        for rank, (sequence, _, score) in enumerate(expected):
            close(result.scores[i, found[sequence]], score, 1e-4)
            assert abs(found[sequence] - rank) < 3  # but for ties


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_beam_as_wide_as_the_space_is_brute_force(options):
    table = random_table(np.random.default_rng(3), sources=3, time=4, vocabulary=4)
    check_against_brute_force(table, options, limits=[4, 4, 4])


def test_each_source_may_have_its_own_max_length():
    table = random_table(np.random.default_rng(4), sources=3, time=4, vocabulary=4)
    check_against_brute_force(table, {"length_penalty": 0.7}, limits=[2, 4, 1])


@pytest.mark.parametrize("masked", [False, True])
def test_coverage_penalty(masked):
    rng = np.random.default_rng(5)
    table = random_table(rng, sources=2, time=3, vocabulary=4)
    mask = mask_of([5, 2], 5)
    weights = rng.uniform(size=(2, 3, 5)) * (mask[:, None] if masked else 1)
    weights[1, :, 1] = 0  # a position that nothing looks at counts as 1e-6
    check_against_brute_force(
        table,
        {"coverage_penalty": 0.4, "length_penalty": 0.6},
        limits=[3, 3],
        weights=weights / weights.sum(-1, keepdims=True),
        mask=mask if masked else None,
    )


# Greedy.


def test_greedy_is_the_most_probable_token_at_each_step():
    table = random_table(np.random.default_rng(6), sources=20, time=6, vocabulary=7)
    result = GreedyDecoder(TableDecoder(table), max_length=6)(batch_size=20)
    for i in range(20):
        last, tokens, log_prob = START, [], 0.0
        while len(tokens) < 6 and last != END:
            row = log_softmax(table[i, len(tokens), last])
            last = int(row.argmax())
            tokens.append(last)
            log_prob += row[last]
        assert to_numpy(result.tokens)[i, 0, : len(tokens)].tolist() == tokens
        assert to_numpy(result.lengths)[i, 0] == len(tokens)
        close(result.log_probs[i, 0], log_prob, 1e-4)


@pytest.mark.parametrize("make", [BeamSearchDecoder, GreedyDecoder])
def test_beam_1_is_greedy_on_a_real_decoder(make):
    decoder, inputs = real_decoder()
    options = {"beam_width": 1} if make is BeamSearchDecoder else {}
    result = make(decoder, max_length=9, **options)(**inputs)
    # Greedy by hand, through teacher forcing on what has been written so far.
    tokens = np.full((3, 1), START)
    for _ in range(9):
        logits = to_numpy(decoder(tokens, **inputs))[:, -1]
        following = np.where((tokens == END).any(1), END, logits.argmax(-1))
        tokens = np.concatenate([tokens, following[:, None]], axis=1)
    assert to_numpy(result.tokens)[:, 0].tolist() == tokens[:, 1:].tolist()


# Invariants, on a real decoder.


def real_decoder(batch=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    decoder = attention_decoder(**{"attention_size": 5, **options})
    inputs = {
        "memory": rng.normal(size=(batch, 7, 5)).astype("float32"),
        "memory_mask": mask_of(([7, 4, 2] * batch)[:batch], 7),
        "summary": rng.normal(size=(batch, 5)).astype("float32"),
    }
    decoder(np.ones((batch, 2), "int32"), **inputs)
    return randomize(decoder, seed, scale=0.9), inputs


def same(result, expected, tolerance=1e-4):
    assert to_numpy(result.tokens).tolist() == to_numpy(expected.tokens).tolist()
    assert to_numpy(result.lengths).tolist() == to_numpy(expected.lengths).tolist()
    for name in ("scores", "log_probs", "alignments"):
        close(getattr(result, name), getattr(expected, name), tolerance)


RULES = {"beam_width": 4, "max_length": 10, "length_penalty": 0.6, "coverage_penalty": 0.2}


def test_log_probs_and_alignments_are_those_of_teacher_forcing():
    decoder, inputs = real_decoder()
    result = BeamSearchDecoder(decoder, **RULES)(**inputs)
    tokens, lengths = to_numpy(result.tokens), to_numpy(result.lengths)
    for k in range(4):
        given = np.concatenate([np.full((3, 1), START), tokens[:, k, :-1]], axis=1)
        logits, weights = decoder(given, **inputs, return_attention_scores=True)
        picked = np.take_along_axis(log_softmax(to_numpy(logits)), tokens[:, k, :, None], -1)
        written = np.arange(10) < lengths[:, k, None]
        close(result.log_probs[:, k], (picked[..., 0] * written).sum(1), 1e-4)
        expected = to_numpy(weights) * written[..., None]
        close(result.alignments[:, k], expected)


def test_padding_changes_nothing():
    decoder, inputs = real_decoder()
    search = BeamSearchDecoder(decoder, **RULES)
    expected = search(**inputs)
    rng = np.random.default_rng(1)
    more = rng.normal(size=(3, 4, 5)).astype("float32")
    padded = {
        "memory": np.concatenate([inputs["memory"], more], axis=1),
        "memory_mask": np.pad(inputs["memory_mask"], ((0, 0), (0, 4))),
        "summary": inputs["summary"],
    }
    result = search(**padded)
    assert (to_numpy(result.alignments)[..., 7:] == 0).all()
    same(result._replace(alignments=result.alignments[..., :7]), expected)


def test_padding_may_stand_anywhere():
    decoder, inputs = real_decoder()
    search = BeamSearchDecoder(decoder, **RULES)
    expected = search(**inputs)
    order = np.array([3, 6, 0, 5, 1, 4, 2])  # mixes positions and padding
    mixed = {
        "memory": inputs["memory"][:, order],
        "memory_mask": inputs["memory_mask"][:, order],
        "summary": inputs["summary"],
    }
    result = search(**mixed)
    back = to_numpy(result.alignments)[..., np.argsort(order)]
    same(result._replace(alignments=back), expected)


def test_the_mask_of_the_memory_arrives_by_itself():
    embedding = keras.layers.Embedding(10, 5, mask_zero=True)
    decoder = attention_decoder(initial_state="zeros")
    search = GreedyDecoder(decoder, max_length=4)
    result = search(embedding(np.array([[3, 4, 0], [5, 0, 0]])))
    alignments = to_numpy(result.alignments)
    assert (alignments[0, 0, :, 2] == 0).all()
    assert (alignments[1, 0, :, 1:] == 0).all()
    close(alignments[1, 0, 0], [1, 0, 0])


def test_coverage_wants_one_mask():
    decoder = TableDecoder(random_table(np.random.default_rng(0)), np.ones((1, 4, 2)) / 2)
    search = BeamSearchDecoder(decoder, 2, max_length=4, coverage_penalty=0.1)
    memory, mask = np.zeros((1, 1, 1)), np.array([[True, False]])
    expected = search(memory, mask)
    same(search(memory, {"states": mask, "ids": None}), expected)
    with pytest.raises(ValueError, match="Received: 2 masks"):
        search(memory, [mask, mask])


def test_batch_mates_change_nothing():
    decoder, inputs = real_decoder(batch=6)
    search = BeamSearchDecoder(decoder, **RULES)
    together = search(**inputs)
    order = np.random.default_rng(2).permutation(6)
    same(
        search(**{name: value[order] for name, value in inputs.items()}),
        type(together)(*(to_numpy(leaf)[order] for leaf in together)),
    )
    for i in range(6):
        alone = search(**{name: value[i : i + 1] for name, value in inputs.items()})
        same(alone, type(together)(*(leaf[i : i + 1] for leaf in together)))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_runs_in_the_graph_as_it_runs_eagerly(jit_compile):
    decoder, inputs = real_decoder()
    search = BeamSearchDecoder(decoder, no_repeat_ngram=2, min_length=3, **RULES)
    prefix, limits = np.array([[3, 4], [5, -1], [-1, -1]]), np.array([10, 6, 8])
    expected = search(**inputs, prefix=prefix, max_length=limits)
    run = compiled(search, jit_compile=jit_compile)
    same(run(**inputs, prefix=prefix, max_length=limits), expected)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.function")
def test_shapes_need_not_be_known_to_the_graph():
    import tensorflow as tf

    decoder, inputs = real_decoder()
    search = BeamSearchDecoder(decoder, **RULES)
    run = tf.function(
        lambda memory, memory_mask, summary, prefix: search(memory, memory_mask, summary, prefix),
        input_signature=[
            tf.TensorSpec((None, None, 5)),
            tf.TensorSpec((None, None), tf.bool),
            tf.TensorSpec((None, 5)),
            tf.TensorSpec((None, None), tf.int32),
        ],
    )
    for prefix in (np.zeros((3, 0), "int32"), np.array([[3, 4], [5, -1], [-1, -1]], "int32")):
        expected = search(**inputs, prefix=prefix if prefix.size else None)
        same(run(*inputs.values(), prefix), expected)
    empty = run(*(value[:0] for value in inputs.values()), np.zeros((0, 0), "int32"))
    assert empty.tokens.shape == (0, 4, 10)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.function")
def test_no_retracing_while_shapes_repeat():
    import tensorflow as tf

    decoder, inputs = real_decoder()
    run = tf.function(BeamSearchDecoder(decoder, **RULES), jit_compile=True)
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    for _ in range(3):
        run(**tensors)
    assert run.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_log_probs_are_float32_in_mixed_precision(dtype):
    keras.config.set_dtype_policy(dtype)
    try:
        decoder, inputs = real_decoder()
        result = BeamSearchDecoder(decoder, **RULES)(**inputs)
    finally:
        keras.config.set_dtype_policy("float32")
    for name in ("scores", "log_probs", "alignments"):
        assert keras.backend.standardize_dtype(getattr(result, name).dtype) == "float32"
    reference, _ = real_decoder()
    reference.set_weights(decoder.get_weights())
    expected = BeamSearchDecoder(reference, **RULES)(**inputs)
    close(result.log_probs[:, 0], expected.log_probs[:, 0], 0.05)


def test_num_results_are_the_first_of_all():
    decoder, inputs = real_decoder()
    every = BeamSearchDecoder(decoder, **RULES)(**inputs)
    some = BeamSearchDecoder(decoder, num_results=2, **RULES)(**inputs)
    same(some, type(every)(*(leaf[:, :2] for leaf in every)))


def test_the_search_stops_when_nothing_can_improve():
    # After one step [end] has log 0.9; whatever goes on has log 0.1 at most.
    steps = []

    class Counting(TableDecoder):
        def step(self, tokens, state, source):
            steps.append(state)
            return super().step(tokens, state, source)

    table = np.log(np.tile([0.03, 0.03, 0.9, 0.04], (1, 50, 4, 1)))
    search = BeamSearchDecoder(Counting(table), 3, max_length=50, num_results=1)
    search(batch_size=1)  # builds the decoder, which takes some steps too
    steps.clear()
    result = search(batch_size=1)
    assert to_numpy(result.lengths).tolist() == [[1]]
    if keras.backend.backend() != "jax":  # it traces the step instead of running it
        assert len(steps) == 1


def test_search_builds_its_decoder():
    decoder = attention_decoder()
    assert not decoder.built
    memory = np.zeros((2, 3, 5), "float32")
    BeamSearchDecoder(decoder, 2, max_length=3)(memory, None, np.zeros((2, 4), "float32"))
    assert decoder.built
    assert len(decoder.weights) > 5


def test_a_state_of_plain_numbers_is_made_of_tensors():
    class Plain(TableDecoder):
        def begin(self, *args, **kwargs):
            _, source = super().begin(*args, **kwargs)
            return 0, source

    table = random_table(np.random.default_rng(0))
    expected = BeamSearchDecoder(TableDecoder(table), 3, max_length=4)(batch_size=1)
    same(BeamSearchDecoder(Plain(table), 3, max_length=4)(batch_size=1), expected)


def test_configurations_are_plain():
    search = BeamSearchDecoder(
        attention_decoder(),
        beam_width=np.int32(2),
        max_length=4,
        start_id=np.int64(1),
        forbidden_ids=np.array([0]),
    )
    config = search.get_config()
    del config["decoder"], config["dtype"]
    assert json.loads(json.dumps(config)) == config


def test_impossible_logits_give_finite_results():
    table = random_table(np.random.default_rng(0), sources=3)
    table[0, :, :, 3] = -np.inf
    table[1, 2] = np.nan
    result = BeamSearchDecoder(TableDecoder(table), 3, max_length=4)(batch_size=3)
    assert np.isfinite(to_numpy(result.scores)).all()
    assert not (to_numpy(result.tokens)[0] == 3).any()


# Errors.


class Broken(TableDecoder):
    def __init__(self, change):
        super().__init__(random_table(np.random.default_rng(0)))
        self.change = change

    def step(self, tokens, state, source):
        return self.change(*super().step(tokens, state, source))


def search_table(**options):
    options = {"max_length": 4, **options}
    return BeamSearchDecoder(TableDecoder(random_table(np.random.default_rng(0))), **options)


def run_broken(change):
    return BeamSearchDecoder(Broken(change), 2, max_length=4)(batch_size=1)


class FlatState(TableDecoder):
    def begin(self, *args, **kwargs):
        return ops.zeros((1,)), {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: search_table(beam_width=0), "beam_width=0"),
        (lambda: search_table(num_results=6), "num_results=6"),
        (lambda: search_table(max_length=0), "max_length=0"),
        (lambda: search_table(min_length=5), "min_length=5"),
        (lambda: search_table(length_penalty=-1), "length_penalty=-1"),
        (lambda: search_table(coverage_penalty=-1), "coverage_penalty=-1"),
        (lambda: search_table(no_repeat_ngram=-1), "no_repeat_ngram=-1"),
        (lambda: search_table(start_id=4)(batch_size=1), "start_id=4"),
        (lambda: search_table(end_id=-1)(batch_size=1), "end_id=-1"),
        (lambda: search_table(forbidden_ids=[9])(batch_size=1), r"forbidden_ids=\(9,\)"),
        (
            lambda: BeamSearchDecoder(RecurrentDecoder(4, 2, keras.layers.GRUCell(2)), end_id=4),
            "vocabulary of 4 tokens. Received: end_id=4",
        ),
        (lambda: search_table(coverage_penalty=0.1)(batch_size=1), "coverage_penalty=0.1"),
        (lambda: search_table()(), "batch_size"),
        (lambda: search_table()(batch_size=1, prefix=[3, 4]), r"prefix.shape=\(2,\)"),
        (
            lambda: search_table()(batch_size=1, max_length=np.ones((1, 1), int)),
            r"max_length.shape=\(1, 1\)",
        ),
        (lambda: BeamSearchDecoder(keras.layers.Dense(3)), "zoo.Decoder"),
        (lambda: run_broken(lambda logits, state, weights: logits), "logits, state, weights"),
        (
            lambda: run_broken(lambda logits, state, weights: (logits[:, 0], state, weights)),
            r"logits.shape=\(\w+, 4\)",
        ),
        (
            lambda: run_broken(lambda logits, state, weights: (logits, [state], weights)),
            r"was given, int32\[\]. Received: \[int32\[\]\]",
        ),
        (
            lambda: run_broken(
                lambda logits, state, weights: (logits, ops.cast(state, "float32"), weights)
            ),
            r"was given, int32\[\]. Received: float32\[\]",
        ),
        (lambda: run_broken(lambda logits, state, weights: (None, state, weights)), "`logits`"),
        (lambda: search_table(beam_width="3"), "beam_width='3'"),
        (lambda: search_table(beam_width=2.5), "beam_width=2.5"),
        (lambda: search_table(max_length=None), "max_length=None"),
        (lambda: search_table(length_penalty=float("nan")), "length_penalty=nan"),
        (lambda: GreedyDecoder(Decoder(), beam_width=3), "'beam_width': 3"),
        (
            lambda: search_table()(batch_size=1, prefix=np.zeros((2, 1), int)),
            r"\(batch=1, length\). Received: prefix.shape=\(2, 1\)",
        ),
        (
            lambda: search_table()(batch_size=1, prefix=np.zeros((1, 1))),
            "prefix.dtype=float",
        ),
        (lambda: search_table()(batch_size=1, max_length=2.5), "max_length.dtype=float32"),
        (lambda: search_table()(batch_size=1, max_length=5), "max_length=5"),
        (lambda: search_table()(batch_size=1, max_length=0), "max_length=0"),
        (
            lambda: run_broken(lambda logits, state, weights: (logits, state, logits[0])),
            r"weights.shape=\(\w+, 4\)",
        ),
        (
            lambda: BeamSearchDecoder(FlatState(np.zeros((1, 4, 4, 4))))(batch_size=1),
            r"leaf of shape \(1,\)",
        ),
        (lambda: BeamSearchDecoder(Decoder())(batch_size=1), "implement `begin`"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises((ValueError, NotImplementedError), match=message):
        call()


@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize("make", [BeamSearchDecoder, GreedyDecoder, SamplingDecoder])
def test_log_probs_do_not_depend_on_how_large_all_logits_are(make, penalty):
    time, rng = 40, np.random.default_rng(0)
    table = np.float32(random_table(rng, time=time, vocabulary=50, scale=3.0) + 10_000)
    weights = rng.dirichlet(np.ones(3), size=(1, time))
    decoder = TableDecoder(table, weights if penalty else None)
    options = {"coverage_penalty": penalty} if make is BeamSearchDecoder else {}
    search = make(decoder, max_length=time, min_length=time, **options)
    result = search(np.zeros((1, 1, 1), "int32"))
    tokens = to_numpy(result.tokens)[0, 0]
    exact = log_softmax(table.astype("float64"))[0]
    log_prob = sum(exact[i, a, b] for i, (a, b) in enumerate(itertools.pairwise([START, *tokens])))
    np.testing.assert_allclose(to_numpy(result.log_probs)[0, 0], log_prob, rtol=0, atol=5e-4)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras' max and take of nothing have no shape"
)
@pytest.mark.parametrize("make", [BeamSearchDecoder, GreedyDecoder, SamplingDecoder])
def test_no_sources_have_no_results(make):
    encoder, decoder = RecurrentEncoder(9, 4, 5), attention_decoder()
    source = np.array([[4, 5, 6]])
    decoder(source, *encoder(source))
    result = make(decoder, max_length=4)(*encoder(source[:0]))
    assert result.tokens.shape == (0, result.tokens.shape[1], 4)
    assert result.alignments.shape == (*result.tokens.shape, 3)
