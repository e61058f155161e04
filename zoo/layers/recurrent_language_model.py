import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.attention import Attention, AttentionSource, project
from zoo.layers.cells import check_cell, output_size, run_sequence
from zoo.layers.recurrent_decoder import RecurrentDecoder


@keras.saving.register_keras_serializable("zoo")
class RecurrentLanguageModel(RecurrentDecoder):
    """A recurrent decoder without memory, which may look back at its own past.

        h(t) = cell(embedding(token(t-1)), h(t-1))
        P(t) = softmax(h(t) V + b), or with an attention
        P(t) = softmax(tanh([h(t); context(h(t-window) .. h(t-1))] W) V + b)

    The attention has the past as a cache (Grave et al. 2017; with keys and values apart, as Daniluk
    et al. 2017): a state h(s) of the `window` before is found by what was there before it, its key
    is h(s-1). Where the text was once as it is now, h(t) sees what came then. W begins as [1; 0],
    the model without attention, which it is no slower to learn than.

    Arguments:
        vocabulary_size: int.
        embedding_dim: int.
        cell: any Keras cell, such as `GRUCell`, or a stack.
        attention: a `BahdanauAttention` or `LuongAttention`, or None.
        window: int, how many states back the attention looks, by default 64.
        dropout: float, applied to the embeddings and to the outputs.
        sampling_probability: float or schedule, as in `RecurrentDecoder`.

    Call arguments and results are those of `Decoder`, without memory. A long text is read in
    chunks: `logits, state = model(chunk, state=state, return_state=True)`. Where a text looks back
    is `model.past_weights(tokens)`.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import LuongAttention, RecurrentLanguageModel, SamplingDecoder

    model = RecurrentLanguageModel(50, 16, keras.layers.GRUCell(8), LuongAttention(), window=20)
    logits = model(np.array([[1, 9, 10, 11], [1, 12, 13, 2]]))
    assert logits.shape == (2, 4, 50)
    result = SamplingDecoder(model, num_results=3, max_length=10)(batch_size=1)
    assert result.tokens.shape == (1, 3, 10)
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        embedding_dim,
        cell,
        attention=None,
        window=None,
        dropout=0.0,
        sampling_probability=0.0,
        **kwargs,
    ):
        check_cell(cell)
        super().__init__(
            vocabulary_size,
            embedding_dim,
            cell,
            initial_state="zeros",
            dropout=dropout,
            sampling_probability=sampling_probability,
            **kwargs,
        )
        if attention is not None and (
            not isinstance(attention, Attention) or attention.is_monotonic
        ):
            raise ValueError(
                "`attention` must be a BahdanauAttention or a LuongAttention, or None; a monotonic "
                f"one cannot look back. Received: attention={attention!r}"
            )
        if attention is None and window is not None:
            raise ValueError(
                f"`window` is how far an attention looks back: give `attention` too. "
                f"Received: window={window}, attention=None"
            )
        self.attention = attention
        if attention is not None:
            window = checks.integer("window", 64 if window is None else window, 1)
        self.window = window

    def build(self, tokens_shape, memory_shape=None, memory_mask_shape=None, summary_shape=None):
        if self.attention is not None:
            size = output_size(self.cell)
            if not self.attention.built:
                self.attention.build((None, None, size), (None, None, size))
            self.attention_kernel = self.add_weight(
                shape=(2 * size, size), initializer=_state_alone, name="attention_kernel"
            )
        super().build(tokens_shape)

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        if memory is not None:
            raise ValueError(
                "A language model has no `memory`; a prompt goes into a search as `prefix`. "
                f"Received: memory of type {type(memory).__name__}"
            )
        state, source = super().begin(summary=summary, batch_size=batch_size)
        if self.attention is not None:
            batch_size = ops.shape(state["cell"][0])[0]
            nothing = ops.zeros((batch_size, self.window, output_size(self.cell)))
            there = ops.zeros((batch_size, self.window), dtype="bool")
            past = self.attention.precompute(nothing, there)._asdict()
            state["past"] = {name: x[:, None] for name, x in past.items()}
        return state, source

    def past_weights(self, tokens):
        """Where each state of texts (batch, time) looks back: (batch, time, window).

        The latest of the states that it looks at is the last of the window.
        """
        if self.attention is None:
            raise ValueError("`past_weights` are those of an attention. Received: attention=None")
        state, _ = self.begin(batch_size=ops.shape(tokens)[0])
        outputs, _, _ = run_sequence(self.cell, self.embedding(tokens), state["cell"])
        weights = self._look_back(outputs[:, None], state["past"])[2]
        batch, time = ops.shape(weights)[:2]
        window = ops.arange(time)[:, None] + ops.arange(self.window)
        window = ops.broadcast_to(window, (batch, time, self.window))
        return ops.take_along_axis(weights, window, axis=-1)

    def past_alignments(self, tokens):
        """The same weights by where they are in the texts: (batch, time, time), 0 elsewhere.

        Row t is where the state that has read token t looks, among those that had read the others.
        """
        weights = self.past_weights(tokens)
        batch, time = ops.shape(weights)[:2]
        places = ops.arange(time) - ops.arange(time)[:, None] + self.window  # (time, time)
        there = ops.logical_and(places >= 0, places < self.window)
        places = ops.broadcast_to(ops.clip(places, 0, self.window - 1), (batch, time, time))
        return ops.where(there, ops.take_along_axis(weights, places, axis=-1), 0.0)

    def _cell_step(self, inputs, state, source, noise=None, training=None):
        cell = {"cell": state["cell"]}
        outputs, after, _ = super()._cell_step(inputs, cell, source, None, training)
        if self.attention is None:
            return outputs, after, None
        outputs, past, _ = self._look_back(outputs[:, :, None], state["past"])
        return outputs, {**after, "past": past}, None

    def _sequence(self, tokens, state, source, training):
        cell = {"cell": state["cell"]}
        outputs, after, _ = super()._sequence(tokens, cell, source, training)
        if self.attention is None:
            return outputs, after, None
        outputs, past, _ = self._look_back(outputs[:, None], state["past"])
        return outputs, {**after, "past": past}, None

    def _look_back(self, hidden, past):
        """hidden (batch, beam, time, size), of which beam or time is 1, and the past of before.

        Returns outputs (batch, beam * time, size), the past, and weights (batch * beam, time,
        window + time) on the past and what is new.
        """
        batch, beam, time = ops.shape(hidden)[:3]
        rows = ops.reshape(hidden, (-1, time, hidden.shape[-1]))  # each with a past of its own
        before = [past[name] for name in AttentionSource._fields]  # a backend may reorder dicts
        before = [ops.reshape(x, (batch * beam, *x.shape[2:])) for x in before]
        # The key of a state is the one before it; its values are the states themselves.
        last = ops.cast(before[AttentionSource._fields.index("values")][:, -1:], rows.dtype)
        keys = ops.concatenate([last, rows[:, :-1]], axis=1)
        now = self.attention.precompute(rows, key=keys)
        joined = [ops.concatenate(pair, axis=1) for pair in zip(before, now, strict=True)]
        # State t stands at window + t of what is joined, and sees t to window + t - 1.
        places = ops.arange(self.window + time) - ops.arange(time)[:, None]
        seen = ops.logical_and(places >= 0, places < self.window)  # (time, window + time)
        seen = ops.broadcast_to(seen, (batch * beam, time, self.window + time))
        context, weights = self.attention.attend(rows, AttentionSource(*joined), seen)
        outputs = ops.concatenate([rows, context], axis=-1)
        outputs = ops.tanh(project(outputs, self.attention_kernel))
        outputs = ops.reshape(outputs, (batch, beam * time, outputs.shape[-1]))
        past = {
            name: ops.reshape(x[:, time:], (batch, beam, *past[name].shape[2:]))
            for name, x in zip(AttentionSource._fields, joined, strict=True)
        }
        return outputs, past, weights

    def get_config(self):
        config = super().get_config()
        del config["initial_state"], config["feed_summary"]
        attention = self.attention and keras.saving.serialize_keras_object(self.attention)
        return {**config, "attention": attention, "window": self.window}

    @classmethod
    def from_config(cls, config):
        attention = config["attention"]
        if attention is not None:
            attention = keras.saving.deserialize_keras_object(attention)
        return super().from_config({**config, "attention": attention})


def _state_alone(shape, dtype=None):
    """A kernel for [h; context] that gives h."""
    eye = ops.eye(shape[1], dtype=dtype)
    return ops.concatenate([eye, ops.zeros_like(eye)], axis=0)
