import keras
import numpy as np
import pytest
from keras import ops

from tests.tools import close, golden, mask_of, to_numpy, weight
from zoo import BahdanauAttention, LuongAttention

ALL = {
    "bahdanau": lambda: BahdanauAttention(5),
    "bahdanau_normalized": lambda: BahdanauAttention(5, normalize=True),
    "dot": lambda: LuongAttention("dot"),
    "general": lambda: LuongAttention("general"),
    "concat": lambda: LuongAttention("concat", units=5),
    "scaled_dot": lambda: LuongAttention("scaled_dot"),
    "general_scaled": lambda: LuongAttention("general", scale=True),
}
every_attention = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


# The same numbers as TensorFlow Addons.


def golden_attention(name):
    arrays = golden(f"attention_{name}")
    memory_kernel = weight(arrays, "memory_layer.kernel")
    if name.startswith("bahdanau"):
        attention = BahdanauAttention(6, normalize="normalized" in name)
    else:
        attention = LuongAttention("general", scale="scaled" in name)
    attention.build((None, None, 6), arrays["memory"].shape)
    if name.startswith("bahdanau"):
        attention.query_kernel.assign(weight(arrays, "Attention.kernel"))
        attention.key_kernel.assign(memory_kernel)
        attention.v.assign(weight(arrays, "attention_v"))
        if attention.normalize:
            attention.g.assign(weight(arrays, "attention_g"))
            attention.b.assign(weight(arrays, "attention_b"))
    else:
        attention.kernel.assign(memory_kernel)
        if attention.scale:
            attention.g.assign(weight(arrays, "attention_g"))
    return attention, arrays


@pytest.mark.parametrize("name", ["bahdanau", "bahdanau_normalized", "luong", "luong_scaled"])
def test_weights_and_contexts_are_those_of_tensorflow_addons(name):
    attention, arrays = golden_attention(name)
    mask = mask_of(arrays["lengths"], 7)
    queries = np.stack([arrays["query"], arrays["query2"]], axis=1)  # two queries on one source
    context, weights = attention(
        queries, arrays["memory"], value_mask=mask, return_attention_scores=True
    )
    close(weights[:, 0], arrays["alignments"])
    close(weights[:, 1], arrays["alignments2"])
    close(context[:, 0], arrays["context"])


# The worked exercises of the lecture.


def test_context_is_the_weighted_sum():
    # dot scores of log(0.3) and log(0.7) make the weights 0.3 and 0.7
    value = np.array([[[1.0, 1.0], [2.0, 0.0]]])
    key = np.log([[[0.3], [0.7]]])
    context, weights = LuongAttention("dot")(
        np.ones((1, 1, 1)), value, key, return_attention_scores=True
    )
    close(weights, [[[0.3, 0.7]]])
    close(context, [[[1.70, 0.30]]])


def test_weights_are_the_softmax_of_the_scores():
    value = np.array([[[2.0], [1.0], [0.0]]])
    _, weights = LuongAttention("dot")(np.ones((1, 1, 1)), value, return_attention_scores=True)
    close(weights, [[[0.665, 0.245, 0.090]]], 5e-4)


@pytest.mark.parametrize(("component", "expected"), [(0, 0.149), (1, 0.740)])
def test_additive_score_by_hand(component, expected):
    # tanh(W1 h + W2 s), one component at a time through a unit v; the score of a second position,
    # all zeros, is tanh(W2 s) and the difference shows in the weights.
    w1, w2 = np.array([[0.5, -0.3], [0.2, 0.4]]), np.array([[0.1, 0.2], [-0.3, 0.1]])
    h, s = np.array([1.0, 2.0]), np.array([0.5, 1.0])
    attention = BahdanauAttention(2)
    attention.build((1, 1, 2), (1, 2, 2))
    attention.key_kernel.assign(w1.T)  # rows here, columns in the lecture
    attention.query_kernel.assign(w2.T)
    attention.v.assign(np.eye(2)[component])
    scores = attention.compute_scores(
        ops.convert_to_tensor(s[None, None], "float32"),
        attention.project_keys(ops.convert_to_tensor(h[None, None], "float32")),
    )
    close(scores, [[[expected]]], 5e-4)
    _, weights = attention(s[None, None], np.stack([h, 0 * h])[None], return_attention_scores=True)
    other = np.tanh(w2 @ s)[component]
    expected = np.tanh(w1 @ h + w2 @ s)[component]
    close(weights[0, 0, 0], 1 / (1 + np.exp(other - expected)))


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "concat"])
def test_luong_scores_are_their_formulas(score):
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    attention = LuongAttention(score, units=6 if score == "concat" else None)
    _, weights = attention(query, value, return_attention_scores=True)
    q, h = query[:, :, None, :].astype("float64"), value[:, None, :, :]
    scores = {
        "dot": lambda: (q * h).sum(-1),
        "scaled_dot": lambda: (q * h).sum(-1) / 2,
        "general": lambda: (q * (h @ to_numpy(attention.kernel))).sum(-1),
        "concat": lambda: (
            np.tanh(q @ to_numpy(attention.query_kernel) + h @ to_numpy(attention.key_kernel))
            @ to_numpy(attention.v)
        ),
    }[score]()
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    close(weights, expected)


def test_the_learned_factor_multiplies_the_score():
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    scaled = LuongAttention("dot", scale=True)
    scaled.build(query.shape, value.shape)
    scaled.g.assign(0.5)
    _, weights = scaled(query, value, return_attention_scores=True)
    _, expected = LuongAttention("scaled_dot")(query, value, return_attention_scores=True)
    close(weights, expected)


# Masks.


@every_attention
def test_masked_positions_count_for_nothing(make):
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    mask = np.array([[True, False, True, True, False], [True] * 5])
    attention = make()
    context, weights = attention(query, value, value_mask=mask, return_attention_scores=True)
    assert (to_numpy(weights)[0][:, [1, 4]] == 0).all()
    close(to_numpy(weights).sum(-1), np.ones((2, 3)))
    short = attention(query[:1], value[:1, [0, 2, 3]])
    close(context[:1], short)


@every_attention
def test_a_fully_masked_row_gives_zeros(make):
    mask = np.array([[False] * 5, [True] * 5])
    context, weights = make()(
        normal(2, 3, 4), normal(2, 5, 4), value_mask=mask, return_attention_scores=True
    )
    assert (to_numpy(weights)[0] == 0).all()
    assert (to_numpy(context)[0] == 0).all()
    assert np.isfinite(to_numpy(context)).all()


def test_attention_mask_is_per_query():
    causal = np.tril(np.ones((1, 4, 4), bool))
    value = normal(1, 4, 3)
    _, weights = LuongAttention("dot")(
        value, value, attention_mask=causal, return_attention_scores=True
    )
    weights = to_numpy(weights)[0]
    assert (weights[~causal[0]] == 0).all()
    close(weights.sum(-1), np.ones(4))
    close(weights[0], [1, 0, 0, 0])


def test_the_mask_of_an_embedding_arrives_by_itself():
    embedding = keras.layers.Embedding(10, 4, mask_zero=True)
    ids = np.array([[3, 4, 0], [5, 0, 0]])
    _, weights = BahdanauAttention(5)(normal(2, 1, 4), embedding(ids), return_attention_scores=True)
    assert ((to_numpy(weights)[:, 0] > 0) == (ids > 0)).all()


def test_keys_may_differ_from_values():
    query, value, key = normal(2, 3, 4), normal(2, 5, 6), normal(2, 5, 7, seed=2)
    attention = BahdanauAttention(8)
    context, weights = attention(query, value, key, return_attention_scores=True)
    assert attention.key_kernel.shape == (7, 8)
    close(context, to_numpy(weights) @ value)


# Two-step use, precision, state.


@every_attention
def test_attend_on_a_precomputed_source_equals_call(make):
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    mask = mask_of([5, 3], 5)
    attention = make()
    context, weights = attention(query, value, value_mask=mask, return_attention_scores=True)
    source = attention.precompute(value, mask)
    for i in range(3):
        one_context, one_weights = attention.attend(query[:, i : i + 1], source)
        close(one_context[:, 0], to_numpy(context)[:, i])
        close(one_weights[:, 0], to_numpy(weights)[:, i])


@every_attention
def test_nothing_is_kept_between_calls(make):
    attention = make()
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    first = to_numpy(attention(query, value))
    before = set(vars(attention))
    attention(normal(7, 2, 4), normal(7, 9, 4))
    assert set(vars(attention)) == before
    close(attention(query, value), first, 1e-7)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_the_softmax_is_float32_in_mixed_precision(dtype):
    # Scores of 90000 and 60000: two that float16 cannot hold. The weights are (1, 0, 0).
    value = np.array([[[300.0], [200.0], [260.0]]])
    for score in ("dot", "scaled_dot"):
        context, weights = LuongAttention(score, dtype=dtype)(
            np.full((1, 1, 1), 300.0), value, return_attention_scores=True
        )
        assert keras.backend.standardize_dtype(context.dtype) == dtype.removeprefix("mixed_")
        close(ops.cast(weights, "float32"), [[[1, 0, 0]]])


def test_close_scores_are_told_apart_in_mixed_precision():
    # 1024 and 1024.25: one number in float16, two in float32.
    value = np.array([[[32.0, 0.0], [32.0, 0.5]]])
    query = np.array([[[32.0, 0.5]]])
    _, weights = LuongAttention("dot", dtype="mixed_float16")(
        query, value, return_attention_scores=True
    )
    close(ops.cast(weights, "float32"), [[[1 / (1 + np.exp(0.25)), 1 / (1 + np.exp(-0.25))]]], 1e-3)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@every_attention
def test_precompute_and_attend_cast_by_themselves(make, dtype):
    query, value = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    reference = make()
    _, expected = reference(query, value, return_attention_scores=True)
    keras.config.set_dtype_policy(dtype)
    try:
        attention = make()
        attention.build(query.shape, value.shape)
    finally:
        keras.config.set_dtype_policy("float32")
    attention.set_weights(reference.get_weights())
    context, weights = attention.attend(query, attention.precompute(value))
    assert keras.backend.standardize_dtype(context.dtype) == dtype.removeprefix("mixed_")
    close(ops.cast(weights, "float32"), expected, 0.03)


# Errors.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LuongAttention("cosine"), "score='cosine'"),
        (lambda: LuongAttention("dot", units=4), "units=4"),
        (lambda: BahdanauAttention(0), "units=0"),
        (
            lambda: LuongAttention("dot")(normal(2, 3, 4), normal(2, 5, 6)),
            "query_dim=4, key_dim=6",
        ),
        (lambda: BahdanauAttention(4)(normal(2, 4), normal(2, 5, 6)), r"query.shape=\(2, 4\)"),
        (lambda: BahdanauAttention(4)(normal(2, 3, 4), normal(2, 6)), r"value.shape=\(2, 6\)"),
        (
            lambda: BahdanauAttention(4)(normal(2, 3, 4), normal(2, 5, 6), normal(2, 4, 6)),
            r"source_length=5, key_dim=6\). Received: key.shape=\(2, 4, 6\)",
        ),
        (
            lambda: BahdanauAttention(4)(
                normal(2, 3, 4), normal(2, 5, 6), value_mask=np.ones((2, 1, 5), bool)
            ),
            r"value_mask.shape=\(2, 1, 5\)",
        ),
        (
            lambda: BahdanauAttention(4)(
                normal(2, 3, 4), normal(2, 5, 6), attention_mask=np.ones((2, 5), bool)
            ),
            r"attention_mask.shape=\(2, 5\)",
        ),
        (lambda: BahdanauAttention(4).precompute(normal(2, 5, 6)), "not built"),
        (lambda: BahdanauAttention(4).attend(normal(2, 3, 4), None), "not built"),
        (lambda: BahdanauAttention(4, normal(2, 5, 6)), "memory is an argument of the call"),
        (lambda: LuongAttention(scale="no"), "scale of type str"),
        (lambda: BahdanauAttention(4)(normal(2, 3, 4), normal(1, 5, 6)), r"\(batch=1, queries"),
        # lengths, where a mask belongs, in three disguises
        (
            lambda: BahdanauAttention(4)(
                normal(2, 3, 4), normal(2, 5, 6), value_mask=np.array([5, 3])
            ),
            r"value_mask.shape=\(2,\)",
        ),
        (
            lambda: BahdanauAttention(4)(
                normal(2, 3, 4), normal(2, 5, 6), value_mask=np.array([[5], [3]])
            ),
            r"source_length=5\). Received: value_mask.shape=\(2, 1\)",
        ),
        (
            lambda: BahdanauAttention(4)(
                normal(2, 3, 4), normal(2, 5, 6), value_mask=np.zeros((2, 5))
            ),
            "value_mask.dtype=float32",
        ),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
