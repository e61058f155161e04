"""The kinds of models that recipes for words choose from, made of a few sizes."""

import keras

from zoo.layers import (
    AttentionCell,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    ResidualRNNCells,
    TransformerDecoder,
    TransformerEncoder,
)
from zoo.models.seq2seq import Seq2Seq


def recurrent(source_size, target_size, units, layers, dropout, initial_state="zeros"):
    """LSTM layers that read in both directions, and others that write with Luong's attention.

    Arguments:
        source_size, target_size: ints, of the vocabularies.
        units: int, of each layer, and of each direction.
        layers: int, in the encoder as in the decoder.
        dropout: float, of embeddings and of what each layer hands on.
        initial_state: of the decoder, as `RecurrentDecoder` takes it. From "zeros", attention finds
            its place without the encoder's last state.

    Example:

    ```python
    from zoo.models.kinds import recurrent

    model = recurrent(30, 40, units=16, layers=2, dropout=0.3)
    assert model.decoder.vocabulary_size == 40
    ```
    """
    encoder = RecurrentEncoder(
        source_size,
        units // 2,
        units,
        cell="lstm",
        num_layers=layers,
        bidirectional=True,
        residual=True,
        dropout=dropout,
    )
    cells = [keras.layers.LSTMCell(units) for _ in range(layers)]
    cell = AttentionCell(
        ResidualRNNCells(cells),
        LuongAttention("general"),
        attention_size=units,
        activation="tanh",
    )
    decoder = RecurrentDecoder(target_size, units // 2, cell, initial_state, dropout=dropout)
    return Seq2Seq(encoder, decoder)


def transformer(source_size, target_size, units, layers, dropout):
    """A Transformer of four heads whose inner layers are twice as wide; see `recurrent`.

    Example:

    ```python
    from zoo.models.kinds import transformer

    model = transformer(30, 40, units=16, layers=2, dropout=0.3)
    assert model.encoder.feedforward_dim == 32
    ```
    """
    sizes = {
        "dim": units,
        "num_layers": layers,
        "num_heads": 4,
        "feedforward_dim": 2 * units,
        "dropout": dropout,
    }
    return Seq2Seq(
        TransformerEncoder(source_size, **sizes), TransformerDecoder(target_size, **sizes)
    )
