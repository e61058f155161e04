"""The Transformer: cached steps are its uncached self, and its parts are the paper's formulas."""

import keras
import numpy as np
import pytest

from tests.layers.test_recurrent_decoder import check_call_equals_step, inputs, stepped
from tests.tools import close, log_softmax, randomize, to_numpy
from zoo import BeamSearchDecoder, GreedyDecoder, Seq2Seq, TransformerDecoder, TransformerEncoder

OPTIONS = {
    "plain": {},
    "one_head": {"num_heads": 1},
    "learned": {"positions": "learned", "max_length": 9},
    "tied": {"tie_embeddings": True},
    "first_layer": {"alignment_layer": 0},
}


def decoder_of(layers=2, **options):
    options = {"num_heads": 2, "feedforward_dim": 12, **options}
    return TransformerDecoder(11, dim=8, num_layers=layers, **options)


def encoder_of(**options):
    options = {"num_layers": 2, "num_heads": 2, "feedforward_dim": 12, **options}
    return TransformerEncoder(11, dim=8, **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_cached_steps_equal_the_uncached_forward(options):
    check_call_equals_step(decoder_of(**options), **inputs())


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_language_model_has_no_memory(positions):
    decoder = decoder_of(cross_attention=False, positions=positions)
    tokens = inputs()["tokens"]
    decoder(tokens)
    randomize(decoder)
    logits, weights = decoder(tokens, return_attention_scores=True)
    close(logits, stepped(decoder, tokens)[0])
    assert weights is None
    result = BeamSearchDecoder(decoder, beam_width=3, max_length=5)(batch_size=2)
    assert result.tokens.shape == (2, 3, 5)


def test_a_position_sees_nothing_of_what_follows():
    decoder = randomize_built(decoder_of())
    given = inputs()
    before = to_numpy(decoder(**given))
    given["tokens"] = given["tokens"].copy()
    given["tokens"][:, 4:] = (given["tokens"][:, 4:] + 1) % 11
    after = to_numpy(decoder(**given))
    close(after[:, :4], before[:, :4])
    assert (np.abs(after[:, 4:] - before[:, 4:]).max(axis=(0, 2)) > 1e-3).all()


def randomize_built(decoder):
    decoder(**inputs())
    return randomize(decoder)


def layer_norm(x, layer):
    gamma, beta = (to_numpy(w) for w in layer.weights)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * gamma + beta


def dense(x, layer):
    return x @ to_numpy(layer.kernel) + to_numpy(layer.bias)


def attention(layer, query, memory, mask):
    """Head by head, as in the paper; mask (queries, length)."""
    q, k, v = (
        dense(x, part)
        for x, part in zip(
            (query, memory, memory),
            (layer.query_dense, layer.key_dense, layer.value_dense),
            strict=True,
        )
    )
    heads, size = [], layer.head_dim
    for i in range(layer.num_heads):
        part = slice(i * size, (i + 1) * size)
        scores = np.where(mask, q[:, part] @ k[:, part].T / np.sqrt(size), -np.inf)
        heads.append(np.exp(log_softmax(scores)) @ v[:, part])
    return dense(np.concatenate(heads, axis=-1), layer.output_dense)


def test_it_is_the_formula_of_the_paper():
    """One sentence through encoder and decoder, written out in numpy."""
    encoder, decoder = encoder_of(), decoder_of(layers=2)
    source, target = np.array([[4, 9, 3, 7]]), np.array([[1, 5, 6]])
    decoder(target, *encoder(source))
    randomize(encoder, 1, 0.4)
    randomize(decoder, 2, 0.4)

    def embed(layer, tokens):
        x = to_numpy(layer.embedding.embeddings)[tokens] * np.sqrt(8)
        for t in range(len(tokens)):
            for i in range(4):
                angle = t / 10000 ** (2 * i / 8)
                x[t, i] += np.sin(angle)
                x[t, 4 + i] += np.cos(angle)
        return x

    def feedforward(x, block):
        y = np.maximum(dense(layer_norm(x, block.feedforward_norm), block.inner_dense), 0)
        return x + dense(y, block.outer_dense)

    x = embed(encoder.embed, source[0])
    for block in encoder.blocks:
        y = layer_norm(x, block.self_norm)
        x = x + attention(block.self_attention, y, y, np.ones((4, 4), bool))
        x = feedforward(x, block)
    memory = layer_norm(x, encoder.norm)
    close(encoder(source)[0][0], memory, 1e-4)
    close(encoder(source)[2][0], memory.mean(axis=0), 1e-4)

    x = embed(decoder.embed, target[0])
    for block in decoder.blocks:
        y = layer_norm(x, block.self_norm)
        x = x + attention(block.self_attention, y, y, np.tril(np.ones((3, 3), bool)))
        y = layer_norm(x, block.cross_norm)
        x = x + attention(block.cross_attention, y, memory, np.ones((3, 4), bool))
        x = feedforward(x, block)
    expected = dense(layer_norm(x, decoder.norm), decoder.output_dense)
    close(decoder(target, *encoder(source))[0], expected, 1e-4)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_padding_changes_nothing(positions):
    encoder = encoder_of(positions=positions)
    encoder(np.array([[4, 5, 6]]))
    randomize(encoder)
    memory, mask, summary = encoder(np.array([[4, 5, 6, 0, 0], [7, 8, 9, 4, 5]]))
    alone = encoder(np.array([[4, 5, 6]]))
    close(memory[:1, :3], alone[0])
    close(summary[:1], alone[2])
    assert to_numpy(mask).tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert np.isfinite(to_numpy(encoder(np.zeros((1, 3), int))[0])).all()  # nothing but padding


def test_weights_are_those_of_the_stated_layer():
    given = inputs()
    shown = {}
    for layer in (0, 1, -1):
        decoder = randomize_built(decoder_of(alignment_layer=layer))
        shown[layer] = to_numpy(decoder(**given, return_attention_scores=True)[1])
    np.testing.assert_array_equal(shown[1], shown[-1])
    assert np.abs(shown[0] - shown[1]).max() > 0.01
    rows = given["memory_mask"].any(axis=1)
    close(shown[0][rows].sum(axis=-1), np.ones((rows.sum(), 6)))
    assert (shown[0][~rows] == 0).all()


def test_search_agrees_with_teacher_forcing_and_greedy_with_a_beam_of_one():
    decoder = randomize_built(decoder_of())
    given = inputs()
    encoded = (given["memory"][:2], given["memory_mask"][:2], given["summary"][:2])
    result = BeamSearchDecoder(decoder, beam_width=4, max_length=6)(*encoded)
    tokens, lengths = to_numpy(result.tokens), to_numpy(result.lengths)
    for n in range(4):
        starts = np.ones((2, 1), int)
        forced = np.concatenate([starts, tokens[:, n, :-1]], axis=1)
        logits, weights = decoder(forced, *encoded, return_attention_scores=True)
        log_probs = log_softmax(to_numpy(logits))
        for row in range(2):
            steps = np.arange(lengths[row, n])
            expected = log_probs[row, steps, tokens[row, n, steps]].sum()
            close(result.log_probs[row, n], expected, 1e-4)
            written = slice(lengths[row, n])
            close(result.alignments[row, n][written], weights[row][written], 1e-4)
    greedy = GreedyDecoder(decoder, max_length=6)(*encoded)
    beam = BeamSearchDecoder(decoder, beam_width=1, max_length=6)(*encoded)
    np.testing.assert_array_equal(to_numpy(greedy.tokens), to_numpy(beam.tokens))


def in_training(decoder):
    """How far two runs with dropout are apart, and the sums of attention weights in one."""
    given = inputs()  # the last source of which is empty
    close(decoder(**given), decoder(**given))
    one, weights = decoder(**given, training=True, return_attention_scores=True)
    other = decoder(**given, training=True)
    return np.abs(to_numpy(one) - to_numpy(other)).max(), to_numpy(weights).sum(-1)


@pytest.mark.parametrize("rates", [{"dropout": 0.5}, {"inner_dropout": 0.5}], ids=str)
def test_dropout_applies_in_training_only(rates):
    apart, sums = in_training(randomize_built(decoder_of(**rates)))
    assert apart > 0.1
    close(
        sums, np.broadcast_to([[1.0], [1.0], [0.0]], sums.shape)
    )  # what is looked at is told as it was before


def test_inner_dropout_stays_inside_the_parts():
    for rates, differs in (({"inner_dropout": 0.5}, False), ({"dropout": 0.5}, True)):
        decoder = randomize_built(decoder_of(**rates))
        for layer in decoder._flatten_layers():
            if layer.name in ("output", "outer"):  # through which all of a part goes
                layer.kernel.assign(np.zeros(layer.kernel.shape))
        assert (in_training(decoder)[0] > 1e-3) == differs


def test_inner_dropout_is_as_dropout_by_default():
    assert decoder_of(dropout=0.2).inner_dropout == 0.2
    assert encoder_of(dropout=0.2, inner_dropout=0.0).get_config()["inner_dropout"] == 0.0
    with pytest.raises(ValueError, match="`inner_dropout`"):
        encoder_of(inner_dropout=1.5)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_it_saves_and_loads(options, tmp_path):
    options = {key: value for key, value in options.items() if key != "alignment_layer"}
    shared = {k: v for k, v in options.items() if k != "tie_embeddings"}
    model = Seq2Seq(encoder_of(**shared), decoder_of(**options))
    batch = {"source": np.array([[4, 5, 6, 0]]), "target": np.array([[1, 7, 8]])}
    expected = model(batch)
    model.save(tmp_path / "model.keras")
    close(keras.saving.load_model(tmp_path / "model.keras")(batch), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    {
        "heads": (lambda: decoder_of(num_heads=3), "`num_heads` must divide dim=8. Received: num"),
        "layer": (lambda: decoder_of(alignment_layer=2), "must be one of the 2 layers"),
        "positions": (lambda: encoder_of(positions="none"), "Received: positions='none'"),
        "memory": (lambda: decoder_of()(np.ones((1, 2), int)), "Received: memory=None"),
        "length": (
            lambda: encoder_of(positions="learned", max_length=2)(np.ones((1, 3), int)),
            "Learned positions end at max_length=2. Received: tokens of length 3",
        ),
        "search": (
            lambda: GreedyDecoder(
                decoder_of(positions="learned", max_length=2, cross_attention=False), max_length=3
            )(batch_size=1),
            "Received: max_length of length 3",
        ),
        "batch_size": (lambda: decoder_of(cross_attention=False).begin(), "`batch_size` is needed"),
    }.values(),
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()
