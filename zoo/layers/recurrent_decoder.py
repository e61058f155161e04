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
from zoo.layers.decoder import Decoder, rows_of
from zoo.layers.dense import Dense, tied_logits
from zoo.layers.dropout import Dropout
from zoo.layers.scan import reset_dropout, scan
from zoo.layers.scheduled_sampling import ScheduledSampling, check_probability, serialize

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
        sampling_probability: float, or a schedule of `keras.optimizers.schedules` on the training
            steps: the probability that training shows the decoder the token that it would have
            drawn itself instead of the given one (scheduled sampling, Bengio et al. 2015).
            `PolynomialDecay(0.0, 10_000, 0.25)` rises to 0.25 in 10,000 steps.
        tie_embeddings: bool, whether V is the transposed embeddings (Press & Wolf 2017); the cell
            then gives outputs of `embedding_dim`.

    Call arguments and results are those of `Decoder`.

    Weights: `embedding`, `cell`, `output_dense` (or `output_bias` alone, where tied), `bridge`.

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
        sampling_probability=0.0,
        tie_embeddings=False,
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
        self.sampling_probability = check_probability(sampling_probability)
        self.inner_cell = cell.cell if self.has_attention else cell
        # Logits of rows as small as Keras' would hardly differ at first.
        tied = keras.initializers.RandomNormal(stddev=self.embedding_dim**-0.5)
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size,
            self.embedding_dim,
            embeddings_initializer=tied if tie_embeddings else "uniform",
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)
        self.tie_embeddings = checks.boolean("tie_embeddings", tie_embeddings)
        if not tie_embeddings:
            size, policy = self.vocabulary_size, self.dtype_policy
            self.output_dense = Dense(size, dtype=policy, name="output_dense")
        elif not self.has_attention:  # else the memory may decide
            self._require_width(output_size(cell))
        self.scheduled_sampling = None
        if self.sampling_probability != 0:
            self.scheduled_sampling = ScheduledSampling(self.sampling_probability)
        if self.initial_state == "bridge":
            self.bridge = Dense(
                sum(state_sizes(self.inner_cell)),
                activation="tanh",
                dtype=self.dtype_policy,
                name="bridge",
            )

    def build(self, tokens_shape, memory_shape=None, memory_mask_shape=None, summary_shape=None):
        self._require(memory_shape, summary_shape)
        if not self.embedding.built:  # an encoder may share it
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
        if self.scheduled_sampling:
            self.scheduled_sampling.build()
        self._build_output(output_size(self.cell))
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
        inputs = self._inputs(self.embedding(tokens), source)  # (batch, beam, input_dim)
        outputs, state, weights = self._cell_step(inputs, state, source)
        return self._logits(outputs), state, weights

    def call(
        self,
        tokens,
        memory=None,
        memory_mask=None,
        summary=None,
        return_attention_scores=False,
        training=None,
        state=None,
        return_state=False,
    ):
        encoded = (memory, memory_mask, summary)
        outputs, state, weights = self._read(tokens, encoded, state, training)
        logits = self._logits(self.dropout_layer(outputs, training=training))
        return self.results(logits, weights, state, return_attention_scores, return_state)

    def logits_at(
        self,
        rows,
        tokens,
        memory=None,
        memory_mask=None,
        summary=None,
        training=None,
        return_attention_scores=False,
    ):
        if type(self).call is not RecurrentDecoder.call:  # a subclass has its own way
            encoded = (memory, memory_mask, summary)
            return super().logits_at(rows, tokens, *encoded, training, return_attention_scores)
        outputs, _, weights = self._read(tokens, (memory, memory_mask, summary), None, training)
        logits = self._logits(self.dropout_layer(rows_of(outputs, rows), training=training))
        return self.results(logits, weights, None, return_attention_scores)

    def _read(self, tokens, encoded, state, training):
        """All steps on given tokens: outputs (batch, time, output_size), state, weights."""
        memory, _, summary = encoded
        self.check_tokens(tokens, memory, summary)
        first, source = self.begin(*encoded, batch_size=ops.shape(tokens)[0])
        state = self.checked_state(state, first)
        run = self._sampled_sequence if training and self.scheduled_sampling else self._sequence
        return run(tokens, state, source, training)

    def _cell_step(self, inputs, state, source, noise=None, training=None):
        if self.has_attention:
            return self.cell(inputs, state, source["attention"], noise=noise, training=training)
        outputs, states = run_cell(self.cell, inputs, state["cell"], training)
        return outputs, {"cell": states}, None

    def _sequence(self, tokens, state, source, training):
        """All steps: outputs (batch, time, output_size), state, weights."""
        embedded = self.dropout_layer(self.embedding(tokens), training=training)
        inputs = self._inputs(embedded, source)  # (batch, time, input_dim)
        if self.has_attention:
            return self.cell.sequence(inputs, state, source["attention"], training)
        outputs, _, states = run_sequence(self.cell, inputs, state["cell"], training)
        return outputs, {"cell": states}, None

    def _sampled_sequence(self, tokens, state, source, training):
        """The same, where some of the tokens are those that the decoder itself would write."""
        sampling = self.scheduled_sampling
        batch, time = ops.shape(tokens)[:2]
        tokens = ops.cast(tokens, "int32")
        # What is random is drawn before the loop, and goes through it beside the tokens.
        kept = ops.ones((batch, time, self.embedding_dim), dtype=self.compute_dtype)
        kept = self.dropout_layer(kept, training=training)
        inputs = [tokens[:, :, None], sampling.chances(batch, time), kept]
        if self.has_attention:
            noise = self.cell.draw_noise(tokens, source["attention"], training)
            inputs += [] if noise is None else [noise]
        probability = sampling.next_probability()

        def step(inputs, carried):
            given, chances, kept, *noise = inputs
            token = sampling.choose(given, carried["own"], chances, probability)  # (batch, 1)
            embedded = self.embedding(token) * kept[:, None]
            noise = noise[0][:, None] if noise else None
            outputs, state, weights = self._cell_step(
                self._inputs(embedded, source), carried["state"], source, noise, training
            )
            own = sampling.draw(self._logits(outputs), chances)
            emitted = [x[:, 0] for x in (outputs, weights) if x is not None]
            return emitted, {"own": own, "state": state}

        carried = {"own": tokens[:, 0][:, None], "state": state}  # it starts with what is given
        emitted, carried = scan(step, inputs, carried, training, source)
        reset_dropout(self.cell)
        outputs, weights = emitted if len(emitted) == 2 else (emitted[0], None)
        return outputs, carried["state"], weights

    def _build_output(self, size):
        if not self.tie_embeddings:
            self.output_dense.build((None, None, size))
            return
        self._require_width(size)
        self.output_bias = self.add_weight(
            shape=(self.vocabulary_size,), initializer="zeros", name="output_bias"
        )

    def _require_width(self, size):
        if size != self.embedding_dim:
            raise ValueError(
                "tie_embeddings=True needs a cell whose outputs are as wide as the embeddings, "
                f"{self.embedding_dim} (an AttentionCell has `attention_size` for it). Received: "
                f"outputs of {size}"
            )

    def _logits(self, outputs):
        if not self.tie_embeddings:
            return self.output_dense(outputs)
        return tied_logits(outputs, self.embedding.embeddings, self.output_bias)

    def _inputs(self, embedded, source):
        """What the cell sees: embedded (batch, time or beam, dim), and perhaps the summary."""
        if not self.feed_summary:
            return embedded
        summary = ops.expand_dims(source["summary"], 1)  # (batch, 1, dim)
        summary = ops.broadcast_to(summary, (*ops.shape(embedded)[:2], summary.shape[-1]))
        return ops.concatenate([embedded, summary], axis=-1)

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
            "sampling_probability": serialize(self.sampling_probability),
            "tie_embeddings": self.tie_embeddings,
        }

    @classmethod
    def from_config(cls, config):
        cell = keras.saving.deserialize_keras_object(config["cell"])
        return cls(**{**config, "cell": cell})
