"""One table of embeddings for source, target and output gives what three equal tables would."""

import keras
import numpy as np
import pytest

from tests.tools import PLAIN, close, randomize
from zoo import (
    AttentionCell,
    Ensemble,
    EnsembleEncoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    Seq2Seq,
    TokenCrossentropy,
    TransformerDecoder,
    TransformerEncoder,
)

SIZES = {"dim": 8, "num_layers": 1, "num_heads": 2}
SOURCE = np.array([[3, 4, 5], [6, 7, 0]])
TARGET = np.array([[1, 8, 9], [1, 10, 2]])
INPUTS = {"source": SOURCE, "target": TARGET}


def recurrent(tied, shared):
    cell = AttentionCell(keras.layers.GRUCell(6), LuongAttention(), attention_size=4)
    decoder = RecurrentDecoder(11, 4, cell, tie_embeddings=tied)
    return Seq2Seq(RecurrentEncoder(11, 4, 6), decoder, share_embeddings=shared)


def transformer(tied, shared):
    decoder = TransformerDecoder(11, tie_embeddings=tied, **SIZES)
    return Seq2Seq(TransformerEncoder(11, **SIZES), decoder, share_embeddings=shared)


def ensemble(tied, shared):
    members = [make(tied, shared) for make in (recurrent, transformer)]
    encoder = EnsembleEncoder([member.encoder for member in members])
    decoder = Ensemble([member.decoder for member in members])
    return Seq2Seq(encoder, decoder, share_embeddings=shared)


MODELS = {"recurrent": recurrent, "transformer": transformer, "ensemble": ensemble}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def parts(layer):
    """The encoders, or decoders, of a model, one or several."""
    return getattr(layer, "encoders", None) or getattr(layer, "decoders", None) or [layer]


def embedding(part):
    return getattr(part, "embed", part).embedding


def without_tables(decoder):
    tables = ("/embedding/", "/output_dense/", "/output_bias")
    return [w for w in decoder.weights if not any(name in w.path for name in tables)]


def built(make, tied, shared):
    model = make(tied, shared)
    model(INPUTS)
    return randomize(model)


@every_model
def test_it_equals_three_equal_tables(make):
    model, plain = built(make, True, True), built(make, False, False)
    for ours, theirs in zip(parts(model.encoder), parts(plain.encoder), strict=True):
        theirs.set_weights(ours.get_weights())
    for ours, theirs in zip(parts(model.decoder), parts(plain.decoder), strict=True):
        table = embedding(ours).get_weights()[0]
        theirs.output_dense.set_weights([table.T, ours.output_bias])
        embedding(theirs).set_weights([table])
        rest = [without_tables(part) for part in (ours, theirs)]
        for one, other in zip(*rest, strict=True):
            other.assign(one)
    close(model(INPUTS), plain(INPUTS))
    # Of 11 words: two more tables of embeddings or of the output for each member.
    more = sum(2 * embedding(part).count_params() for part in parts(model.encoder))
    assert plain.count_params() - model.count_params() == more


@every_model
def test_it_is_still_one_table_after_saving(make, tmp_path):
    model = built(make, True, True)
    expected = model(INPUTS)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    copied = Seq2Seq.from_config(model.get_config())
    copied(INPUTS)
    copied.set_weights(model.get_weights())
    for again in (loaded, copied):
        close(again(INPUTS), expected)
        assert again.count_params() == model.count_params()
        for ours, theirs in zip(parts(again.encoder), parts(again.decoder), strict=True):
            assert embedding(ours) is embedding(theirs)


@every_model
def test_training_moves_the_table_from_all_sides(make):
    model = built(make, True, True)
    labels = np.array([[8, 9, 2], [10, 2, 0]])
    tables = [embedding(part).get_weights()[0] for part in parts(model.encoder)]
    model.compile(keras.optimizers.SGD(0.5), TokenCrossentropy(), **PLAIN)
    model.fit(INPUTS, labels, epochs=1, verbose=0)
    for part, before in zip(parts(model.encoder), tables, strict=True):
        moved = np.abs(embedding(part).get_weights()[0] - before).max(axis=1)
        assert (moved > 0).all()  # the output layer writes to every row


def test_parts_that_do_not_fit_are_refused():
    encoder = RecurrentEncoder(11, 4, 6)
    with pytest.raises(ValueError, match=r"Received: \(11, 4\) in .* and \(12, 4\)"):
        Seq2Seq(encoder, RecurrentDecoder(12, 4, keras.layers.GRUCell(6)), share_embeddings=True)
    with pytest.raises(ValueError, match="tie_embeddings=True needs .* Received: outputs of 6"):
        RecurrentDecoder(11, 4, keras.layers.GRUCell(6), tie_embeddings=True)
    cell = AttentionCell(keras.layers.GRUCell(6), LuongAttention())
    memory, mask, summary = encoder(SOURCE)
    with pytest.raises(ValueError, match="Received: outputs of 12"):  # [h; context]
        RecurrentDecoder(11, 4, cell, tie_embeddings=True).begin(memory, mask, summary)
    decoder = RecurrentDecoder(11, 4, keras.layers.GRUCell(6))
    Seq2Seq(encoder, decoder)(INPUTS)
    with pytest.raises(ValueError, match="which is built"):
        Seq2Seq(encoder, decoder, share_embeddings=True)
