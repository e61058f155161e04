import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.attention import AttentionSource
from zoo.layers.attention_cell import AttentionCell
from zoo.layers.cells import (
    check_cell,
    hidden_indices,
    output_size,
    run_cell,
    run_sequence,
    state_sizes,
)
from zoo.layers.decoder import Decoder

INITIAL_STATES = ("bridge", "summary", "zeros")


@keras.saving.register_keras_serializable("zoo")
class RecurrentDecoder(Decoder):
    """Writes a sequence with a recurrent network, with attention or without it.

        input(t)  = embedding(token(t-1)), or [embedding; summary] with `feed_summary`
        output(t) = cell(input(t), state(t-1))
        P(t)      = softmax(output(t) V + b)

    With an `AttentionCell` this is the decoder of Bahdanau et al. 2015 or Luong et al. 2015. With a
    plain cell all that it knows of the source is the summary: the bottleneck of Sutskever et al.
    2014 (`initial_state="summary"`) and Cho et al. 2014 (`feed_summary=True`).

    Arguments:
        vocabulary_size: int.
        embedding_dim: int.
        cell: an `AttentionCell`, or any Keras cell.
        initial_state: "bridge", a learned tanh layer on the summary; "summary", the encoder's final
            state itself: as wide as all states of the cell together (split among them in order:
            the summary of a `RecurrentEncoder` of the same layers), or as wide as one hidden state
            (every layer starts from it, an LSTM's c from zero); "zeros".
        feed_summary: bool, whether every step sees the summary too.
        dropout: float, applied to the embeddings and to the outputs.

    Call arguments and results are those of `Decoder`.

    Weights: `embedding`, `cell`, `output_dense`, and `bridge`.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import AttentionCell, LuongAttention, RecurrentDecoder, RecurrentEncoder

    encoder = RecurrentEncoder(100, 16, units=8)
    cell = AttentionCell(keras.layers.GRUCell(8), LuongAttention(), 8, activation="tanh")
    decoder = RecurrentDecoder(50, 16, cell)
    source, target = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 9, 10, 11], [1, 12, 13, 2]])
    logits, weights = decoder(target, *encoder(source), return_attention_scores=True)
    assert logits.shape == (2, 4, 50) and weights.shape == (2, 4, 3)
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        cell,
        initial_state="bridge",
        feed_summary=False,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.has_attention = isinstance(cell, AttentionCell)
        if not self.has_attention:
            check_cell(cell)
        self.vocabulary_size = checks.integer("vocabulary_size", vocabulary_size, 1)
        self.embedding_dim = checks.integer("embedding_dim", embedding_dim, 1)
        self.cell = cell
        self.initial_state = checks.one_of("initial_state", initial_state, INITIAL_STATES)
        self.feed_summary = checks.boolean("feed_summary", feed_summary)
        self.dropout = checks.rate("dropout", dropout)
        self.inner_cell = cell.cell if self.has_attention else cell
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_dim, dtype=self.dtype_policy, name="embedding"
        )
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.output_dense = keras.layers.Dense(
            vocabulary_size, dtype=self.dtype_policy, name="output_dense"
        )
        if self.initial_state == "bridge":
            self.bridge = keras.layers.Dense(
                sum(state_sizes(self.inner_cell)),
                activation="tanh",
                dtype=self.dtype_policy,
                name="bridge",
            )

    def build(self, tokens_shape, memory_shape=None, memory_mask_shape=None, summary_shape=None):
        self._require(memory_shape, summary_shape)
        self.embedding.build(tokens_shape)
        input_dim = self.embedding_dim + (summary_shape[-1] if self.feed_summary else 0)
        if not self.cell.built:
            if self.has_attention:
                self.cell.build_attention(memory_shape)
                source_shape = AttentionSource(None, memory_shape, None)
                self.cell.build((None, None, input_dim), source_shape=source_shape)
            else:
                self.cell.build((None, input_dim))
        if self.initial_state == "bridge":
            self.bridge.build(summary_shape)
        self.output_dense.build((None, None, output_size(self.cell)))
        self.built = True

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        self._require(memory, summary)
        if not self.built:
            shapes = [None if x is None else tuple(x.shape) for x in (memory, summary)]
            self.build((None, None), memory_shape=shapes[0], summary_shape=shapes[1])
        source = {}
        if self.has_attention:
            source["attention"] = self.cell.attention.precompute(memory, memory_mask)
        if self.feed_summary:
            source["summary"] = ops.cast(summary, self.compute_dtype)
        if batch_size is None:
            batch_size = self.batch_size_of(memory, summary)
        states = [ops.expand_dims(x, 1) for x in self._initial_states(summary, batch_size)]
        if self.has_attention:
            return self.cell.initial_state(states, source["attention"]), source
        return {"cell": states}, source

    def step(self, tokens, state, source):
        inputs = self._inputs(tokens, source)  # (batch, beam, input_dim)
        if self.has_attention:
            outputs, state, weights = self.cell(inputs, state, source["attention"])
        else:
            outputs, states = run_cell(self.cell, inputs, state["cell"])
            state, weights = {"cell": states}, None
        return self.output_dense(outputs), state, weights

    def call(
        self,
        tokens,
        memory=None,
        memory_mask=None,
        summary=None,
        return_attention_scores=False,
        training=None,
    ):
        self.check_tokens(tokens, memory, summary)
        batch_size = ops.shape(tokens)[0]
        state, source = self.begin(memory, memory_mask, summary, batch_size=batch_size)
        inputs = self._inputs(tokens, source, training)  # (batch, time, input_dim)
        if self.has_attention:
            source = source["attention"]
            outputs, _, weights = self.cell.sequence(inputs, state, source, training)
        else:
            outputs, _, _ = run_sequence(self.cell, inputs, state["cell"], training)
            weights = None
        logits = self.output_dense(self.dropout_layer(outputs, training=training))
        return (logits, weights) if return_attention_scores else logits

    def _inputs(self, tokens, source, training=False):
        inputs = self.dropout_layer(self.embedding(tokens), training=training)
        if not self.feed_summary:
            return inputs
        summary = ops.expand_dims(source["summary"], 1)  # (batch, 1, dim)
        summary = ops.broadcast_to(summary, (*ops.shape(tokens), summary.shape[-1]))
        return ops.concatenate([inputs, summary], axis=-1)

    def _initial_states(self, summary, batch_size):
        """The states before the first step, a flat list of (batch, size)."""
        sizes = state_sizes(self.inner_cell)
        dtype = self.cell.compute_dtype  # a cell may have a policy of its own
        if self.initial_state == "zeros":
            return [ops.zeros((batch_size, size), dtype=dtype) for size in sizes]
        if self.initial_state == "bridge":
            summary = self.bridge(summary)
        summary = ops.cast(summary, dtype)
        if summary.shape[-1] == sum(sizes):
            ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
            return [summary[:, end - size : end] for size, end in zip(sizes, ends, strict=True)]
        hidden = hidden_indices(self.inner_cell)
        if any(sizes[i] != summary.shape[-1] for i in hidden):
            raise ValueError(
                "initial_state='summary' needs a summary as wide as all states of the cell "
                f"together, {sum(sizes)}, or as wide as each hidden state. Received: "
                f"summary.shape={tuple(summary.shape)} for states of {sizes}"
            )
        zeros = ops.zeros_like(summary)
        return [summary if i in hidden else zeros for i in range(len(sizes))]

    def _require(self, memory, summary):
        """Checks that the encoder's results (or their shapes) are there, each a single one."""
        for name, value in (("memory", memory), ("summary", summary)):
            if isinstance(value, (tuple, list, dict)) and any(
                not (size is None or isinstance(size, int)) for size in value
            ):
                raise ValueError(
                    f"`{name}` must be one tensor. Pass an encoder's results with a star, "
                    "decoder(tokens, *encoder(source)) or search(*encoder(source)), and several "
                    f"states side by side in one. Received: {name} of type {type(value).__name__}"
                )
        if self.has_attention and memory is None:
            raise ValueError(
                "`memory` is what the AttentionCell looks at: pass the encoder's results, "
                "decoder(tokens, *encoder(source)). Received: memory=None"
            )
        if (self.feed_summary or self.initial_state != "zeros") and summary is None:
            raise ValueError(
                f"initial_state={self.initial_state!r} and feed_summary={self.feed_summary} need "
                "`summary`, the third of an encoder's results (memory, memory_mask, summary); "
                "initial_state='zeros' needs none. Received: summary=None"
            )

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "cell": keras.saving.serialize_keras_object(self.cell),
            "initial_state": self.initial_state,
            "feed_summary": self.feed_summary,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config):
        cell = keras.saving.deserialize_keras_object(config["cell"])
        return cls(**{**config, "cell": cell})
