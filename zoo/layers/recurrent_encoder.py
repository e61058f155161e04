import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.cells import run_layer
from zoo.layers.dropout import Dropout
from zoo.layers.products import defers_gradients, has_gpu
from zoo.layers.scan import for_training_only

RNNS = {
    "simple_rnn": keras.layers.SimpleRNN,
    "gru": keras.layers.GRU,
    "lstm": keras.layers.LSTM,
}


@keras.saving.register_keras_serializable("zoo")
class RecurrentEncoder(keras.layers.Layer):
    """Reads a sequence of ids with a recurrent network and leaves a memory behind.

    Arguments:
        vocabulary_size: int.
        embedding_dim: int.
        units: int, the units of each layer (of each direction).
        cell: "simple_rnn", "gru" or "lstm".
        num_layers: int.
        bidirectional: bool, whether each layer also reads backwards; the outputs of both directions
            are concatenated.
        residual: bool, whether each layer above the first adds its input to its output.
        dropout: float, applied to the embeddings and to the output of each layer.
        recurrent_dropout: float, applied to each layer's state on its way to the next step, the
            same units all along a sequence (Gal & Ghahramani 2016).

    Call arguments:
        tokens: (batch, source_length) ids; 0 is padding, wherever it stands. (On a GPU Keras
            trains with cuDNN, which wants padding on the right only.)

    Returns what a decoder's `call` and a search take:
        memory: (batch, source_length, dim), the outputs of the top layer; dim is `units`, doubled
            if bidirectional.
        memory_mask: (batch, source_length) bool.
        summary: (batch, size), the final states of all layers side by side: with one GRU layer
            `dim` wide; an LSTM has two states a layer, h and c.

    Example:

    ```python
    import numpy as np
    from zoo import RecurrentEncoder

    encoder = RecurrentEncoder(100, 16, units=8, cell="lstm", bidirectional=True)
    memory, memory_mask, summary = encoder(np.array([[4, 5, 6], [7, 8, 0]]))
    assert memory.shape == (2, 3, 16) and memory_mask.shape == (2, 3) and summary.shape == (2, 32)
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        units,
        cell="gru",
        num_layers=1,
        bidirectional=False,
        residual=False,
        dropout=0.0,
        recurrent_dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = checks.integer("vocabulary_size", vocabulary_size, 1)
        self.embedding_dim = checks.integer("embedding_dim", embedding_dim, 1)
        self.units = checks.integer("units", units, 1)
        self.cell = checks.one_of("cell", cell, tuple(RNNS))
        self.num_layers = checks.integer("num_layers", num_layers, 1)
        self.bidirectional = checks.boolean("bidirectional", bidirectional)
        self.residual = checks.boolean("residual", residual)
        self.dropout = checks.rate("dropout", dropout)
        self.recurrent_dropout = checks.rate("recurrent_dropout", recurrent_dropout)
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size, self.embedding_dim, dtype=self.dtype_policy, name="embedding"
        )
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.rnns = [self._rnn(f"rnn_{i}") for i in range(self.num_layers)]

    def _rnn(self, name):
        rnn = RNNS[self.cell](
            self.units,
            recurrent_dropout=self.recurrent_dropout,
            return_sequences=True,
            return_state=True,
            dtype=self.dtype_policy,
            name=name,
        )
        if not self.bidirectional:
            return rnn
        return keras.layers.Bidirectional(rnn, dtype=self.dtype_policy, name=f"{name}_both")

    def build(self, tokens_shape):
        if not self.embedding.built:  # a decoder may share it
            self.embedding.build(tokens_shape)
        shape = (*tokens_shape, self.embedding_dim)
        for rnn in self.rnns:
            rnn.build(shape)
            shape = (*tokens_shape, self.units * (2 if self.bidirectional else 1))
        self.built = True

    def call(self, tokens, training=None):
        checks.shape("tokens", tokens, ("batch", "source_length"))
        mask = ops.not_equal(tokens, 0)  # (batch, source_length)
        # cuDNN reads a token at least in every row: in an empty one the first, which is padding.
        first = ops.equal(ops.arange(ops.shape(tokens)[1]), 0)
        empty = ops.logical_not(ops.any(mask, axis=1, keepdims=True))  # (batch, 1)
        read = ops.logical_or(mask, ops.logical_and(first, empty))
        memory = self.dropout_layer(self.embedding(tokens), training=training)
        finals = []
        for i, rnn in enumerate(self.rnns):
            outputs, states = self._read(rnn, memory, read, training)
            if self.bidirectional:  # forward states, then backward states
                half = len(states) // 2
                pairs = zip(states[:half], states[half:], strict=True)
                states = [ops.concatenate(pair, axis=-1) for pair in pairs]
            finals += [ops.where(empty, 0, state) for state in states]
            outputs = self.dropout_layer(outputs, training=training)
            memory = memory + outputs if self.residual and i > 0 else outputs
        summary = ops.concatenate(finals, axis=-1) if len(finals) > 1 else finals[0]
        return memory, mask, summary

    def _read(self, rnn, inputs, mask, training):
        """One layer: outputs (batch, source_length, dim), its final states."""
        if not defers_gradients(training) or (has_gpu() and not self.recurrent_dropout):
            # (a GPU has cuDNN, which knows no recurrent dropout)
            with for_training_only(training, rnn):
                outputs, *states = rnn(inputs, mask=mask, training=training)
            return outputs, states
        if not self.bidirectional:
            return run_layer(rnn.cell, inputs, mask, training)
        forward, states = run_layer(rnn.forward_layer.cell, inputs, mask, training)
        back = ops.flip(inputs, axis=1), ops.flip(mask, axis=1)
        backward, more = run_layer(rnn.backward_layer.cell, *back, training)
        outputs = ops.concatenate([forward, ops.flip(backward, axis=1)], axis=-1)
        outputs = ops.where(mask[:, :, None], outputs, 0)  # as Keras' layer has it
        return outputs, [*states, *more]

    def get_config(self):
        names = (
            "vocabulary_size",
            "embedding_dim",
            "units",
            "cell",
            "num_layers",
            "bidirectional",
            "residual",
            "dropout",
            "recurrent_dropout",
        )
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
