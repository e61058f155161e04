import keras
import numpy as np
import pytest

from tests.tools import CELLS, close, randomize, to_numpy
from zoo import AttentionCell, LuongAttention, RecurrentDecoder, RecurrentEncoder

SOURCE = np.array([[3, 4, 5, 6], [7, 8, 0, 0], [0, 0, 0, 0]])


def encode(source=SOURCE, **options):
    encoder = RecurrentEncoder(11, 4, **{"units": 5, **options})
    encoder.build(source.shape)
    return randomize(encoder)(source)


@pytest.mark.parametrize("cell", CELLS)
def test_summary_is_the_last_output_of_each_sentence(cell):
    memory, mask, summary = encode(cell=cell)
    assert to_numpy(mask).tolist() == (SOURCE > 0).tolist()
    close(summary[0, :5], memory[0, 3])
    close(summary[1, :5], memory[1, 1])
    close(summary[2], np.zeros(summary.shape[-1]))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_padding_changes_nothing(cell, bidirectional, num_layers):
    options = {"cell": cell, "bidirectional": bidirectional, "num_layers": num_layers}
    memory, _, summary = encode(**options)
    alone, _, alone_summary = encode(SOURCE[1:2, :2], **options)
    close(memory[1:2, :2], alone)
    close(summary[1:2], alone_summary)
    states = 2 if cell == "lstm" else 1
    assert summary.shape[-1] == 5 * states * num_layers * (2 if bidirectional else 1)


def test_training_reads_as_inference_does_at_padding_too():
    encoder = randomize(RecurrentEncoder(np.int64(11), 4, np.int64(5), bidirectional=True))
    for trained, read in zip(encoder(SOURCE, training=True), encoder(SOURCE), strict=True):
        close(trained, read)


def test_backward_states_have_read_everything():
    memory, _, summary = encode(bidirectional=True)
    close(summary[0, 5:], memory[0, 0, 5:])  # backwards, the first position is the last one read


def test_residual_layers_add_their_inputs():
    encoder = RecurrentEncoder(11, 4, 5, num_layers=2, residual=True)
    encoder.build(SOURCE.shape)
    randomize(encoder)
    below, *_ = encoder.rnns[0](encoder.embedding(SOURCE))
    above, *_ = encoder.rnns[1](below)
    close(encoder(SOURCE)[0][0], to_numpy(below + above)[0])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_summary_holds_the_layers_from_the_lowest_to_the_top(bidirectional):
    encoder = RecurrentEncoder(11, 4, 5, cell="lstm", num_layers=2, bidirectional=bidirectional)
    encoder.build(SOURCE.shape)
    randomize(encoder)
    inputs, expected = encoder.embedding(SOURCE[:1]), []
    for rnn in encoder.rnns:
        inputs, *states = rnn(inputs)
        if bidirectional:  # h and c of both directions: [h; h'], [c; c']
            states = [states[0], states[2], states[1], states[3]]
        expected += [to_numpy(state) for state in states]
    close(encoder(SOURCE[:1])[2], np.concatenate(expected, axis=1))


def test_dropout_reaches_embeddings_and_outputs():
    # With nearly everything dropped, the network reads zeros and gives zeros.
    encoder = RecurrentEncoder(11, 4, 5, dropout=1 - 1e-7)
    encoder.build(SOURCE.shape)
    randomize(encoder)
    memory, _, summary = encoder(SOURCE[:1], training=True)
    close(memory, np.zeros((1, 4, 5)))
    _, silent = encoder.rnns[0](np.zeros((1, 4, 4), "float32"))
    close(summary, silent)


def test_dropout_applies_in_training_only():
    encoder = RecurrentEncoder(11, 4, 5, dropout=0.5)
    close(encoder(SOURCE)[0], encoder(SOURCE)[0])
    first, second = encoder(SOURCE, training=True), encoder(SOURCE, training=True)
    assert np.abs(to_numpy(first[0]) - to_numpy(second[0])).max() > 1e-3


@pytest.mark.parametrize("cell", CELLS)
def test_a_decoder_takes_what_an_encoder_gives(cell):
    # the same layers on both sides: each layer of the decoder starts where its twin ended
    cells = [CELLS[cell](5), CELLS[cell](5)]
    encoder = RecurrentEncoder(11, 4, 5, cell=cell, num_layers=2)
    plain = RecurrentDecoder(11, 4, keras.layers.StackedRNNCells(cells), "summary")
    encoded = encoder(SOURCE)
    assert plain(SOURCE, *encoded).shape == (3, 4, 11)
    state, _ = plain.begin(*encoded)
    close(np.concatenate([to_numpy(leaf)[:, 0] for leaf in state["cell"]], 1), encoded[2])
    attending = RecurrentDecoder(11, 4, AttentionCell(CELLS[cell](6), LuongAttention()))
    assert attending(SOURCE, *encoder(SOURCE)).shape == (3, 4, 11)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RecurrentEncoder(11, 4, 5, cell="rnn"), "cell='rnn'"),
        (lambda: RecurrentEncoder(11, 4, 5, num_layers=0), "num_layers=0"),
        (lambda: RecurrentEncoder(11, 4, 5)(np.ones((3,))), r"tokens.shape=\(3,\)"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
