import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.attention import Attention, AttentionSource, project
from zoo.layers.cells import (
    check_cell,
    hidden_size,
    hidden_state,
    output_size,
    run_cell,
    run_sequence,
)
from zoo.layers.scan import reset_dropout, scan

QUERIES = ("output", "previous_state")


@keras.saving.register_keras_serializable("zoo")
class AttentionCell(keras.layers.Layer):
    """One step of a recurrent network with attention inside, in both textbook orders.

    `query="output"` (Luong et al. 2015): the cell runs, then looks.

        h(t)      = cell([input(t); output(t-1)], h(t-1))      (with `input_feeding`)
        output(t) = activation([h(t); context(h(t))] W)

    `query="previous_state"` (Bahdanau et al. 2015): it looks, then the cell runs.

        h(t)      = cell([context(h(t-1)); input(t)], h(t-1))  (with `input_feeding`)
        output(t) = h(t), or with `attention_size` activation([h(t); context] W)

    Without `input_feeding` the cell runs on the input alone, so that nothing it computes depends on
    the attention: a whole sequence then attends at once.

    Arguments:
        cell: any Keras cell: `SimpleRNNCell`, `GRUCell`, `LSTMCell`, `StackedRNNCells` of them,
            `ResidualRNNCells`.
        attention: `BahdanauAttention`, `LuongAttention`, or one of their monotonic forms.
        attention_size: int, the columns of W. Without it there is no W: the output is
            [h; context], or h alone where `query="previous_state"` has fed the context already.
        query: "output" or "previous_state", what looks at the source. The state of a stack is
            that of its top layer.
        input_feeding: bool, whether the cell sees what the attention gave.
        activation: the activation after W, none by default; Luong's is "tanh".

    Call arguments:
        inputs: (batch, beam, input_dim); the beam is 1 in training.
        state: from `initial_state(cell_states, source)` or from the step before; every leaf is
            (batch, beam, size).
        source: from `precompute(memory, memory_mask)`, once per source. It has no beam axis.

    Returns output (batch, beam, output_size), state, weights (batch, beam, source_length).
    `cell.sequence(inputs, state, source)` runs all steps of inputs (batch, time, input_dim).

    Weights: `cell.cell`, `cell.attention`, `cell.output_kernel`.

    Example:

    ```python
    import keras
    from zoo import AttentionCell, BahdanauAttention

    memory = keras.random.normal((2, 7, 6))
    cell = AttentionCell(keras.layers.GRUCell(8), BahdanauAttention(8), query="previous_state")
    source = cell.precompute(memory)
    state = cell.initial_state([keras.ops.zeros((2, 1, 8))], source)
    output, state, weights = cell(keras.random.normal((2, 1, 5)), state, source)
    assert output.shape == (2, 1, 8) and weights.shape == (2, 1, 7)
    ```
    """

    def __init__(
        self,
        cell,
        attention,
        attention_size=None,
        query="output",
        input_feeding=True,
        activation=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_cell(cell)
        if not isinstance(attention, Attention):
            raise ValueError(
                "`attention` must be a layer of zoo, such as BahdanauAttention(256). "
                f"Received: attention={attention!r} of type {type(attention).__name__}"
            )
        if activation is not None and attention_size is None:
            raise ValueError(
                "`activation` follows the product with W: give `attention_size` too. "
                f"Received: activation={activation!r}, attention_size=None"
            )
        self.cell = cell
        self.attention = attention
        if attention_size is not None:
            attention_size = checks.integer("attention_size", attention_size, 1)
        self.attention_size = attention_size
        self.query = checks.one_of("query", query, QUERIES)
        self.input_feeding = checks.boolean("input_feeding", input_feeding)
        self.activation = keras.activations.get(activation)
        # Bahdanau's order has used the context by the time that the cell gives its output.
        self.emits_context = query == "output" or not input_feeding or attention_size is not None

    def build(self, inputs_shape, state_shape=None, source_shape=None):
        value_dim = AttentionSource(*source_shape).values[-1]
        output_dim = output_size(self.cell)
        joined_dim = output_dim + value_dim
        self.output_size = self.attention_size or (joined_dim if self.emits_context else output_dim)
        if self.attention_size is not None:
            self.output_kernel = self.add_weight(
                shape=(joined_dim, self.attention_size), name="output_kernel"
            )
        fed_dim = 0
        if self.input_feeding:
            fed_dim = value_dim if self.query != "output" else self.attention_size or joined_dim
        if not self.cell.built:
            self.cell.build((None, inputs_shape[-1] + fed_dim))
        self.built = True

    def precompute(self, memory, memory_mask=None):
        """The source: the attention's keys, values and mask. Builds the attention if need be."""
        self.build_attention(tuple(memory.shape))
        return self.attention.precompute(memory, memory_mask)

    def build_attention(self, memory_shape):
        """Builds the attention, which by itself cannot know the size of the query."""
        if not self.attention.built:
            is_output = self.query == "output"
            query_dim = output_size(self.cell) if is_output else hidden_size(self.cell)
            self.attention.build((None, None, query_dim), memory_shape)

    def initial_state(self, cell_states, source):
        """The state before the first step; cell_states is flat, each (batch, beam, size)."""
        state = {"cell": list(cell_states)}
        if self.query == "output" and self.input_feeding:
            size = self.attention_size or output_size(self.cell) + source.values.shape[-1]
            rows = ops.shape(cell_states[0])[:2]
            state["fed"] = ops.zeros((*rows, size), dtype=self.compute_dtype)
        if self.attention.is_monotonic:
            state["weights"] = self.attention.initial_weights(source)
        return state

    def call(self, inputs, state, source, noise=None, training=None):
        states = state["cell"]
        carried = {}
        if self.attention.is_monotonic:
            carried = {"previous_weights": state["weights"], "noise": noise}
        if self.query == "output":
            if self.input_feeding:
                inputs = ops.concatenate([inputs, state["fed"]], axis=-1)
            output, states = run_cell(self.cell, inputs, states, training)
            context, weights = self.attention.attend(output, source, **carried)
        else:
            hidden = hidden_state(self.cell, states)
            context, weights = self.attention.attend(hidden, source, **carried)
            if self.input_feeding:
                inputs = ops.concatenate([context, inputs], axis=-1)
            output, states = run_cell(self.cell, inputs, states, training)
        output = self._emit(output, context)
        new_state = {"cell": states}
        if "fed" in state:
            new_state["fed"] = output
        if "weights" in state:
            new_state["weights"] = weights
        return output, new_state, weights

    def sequence(self, inputs, state, source, training=None):
        """All steps at once: inputs (batch, time, dim), a state with beam 1, the source.

        Returns outputs (batch, time, output_size), state, weights (batch, time, source_length).
        """
        if not self.built:  # by no call
            self.build(inputs.shape, source_shape=AttentionSource(None, source.values.shape, None))
        inputs = ops.cast(inputs, self.compute_dtype)
        if self.input_feeding or self.attention.is_monotonic:
            noise = self.draw_noise(inputs, source, training)

            def step(step_inputs, state):
                now = [x[:, None] for x in step_inputs]  # inputs, and perhaps noise
                noise = now[1] if len(now) > 1 else None
                output, state, weights = self(now[0], state, source, noise, training=training)
                return [output[:, 0], weights[:, 0]], state

            with_noise = [inputs] if noise is None else [inputs, noise]
            (outputs, weights), state = scan(step, with_noise, state, training, source)
            reset_dropout(self.cell)
        else:
            before = hidden_state(self.cell, state["cell"])  # (batch, 1, size)
            outputs, hidden, states = run_sequence(self.cell, inputs, state["cell"], training)
            state = {"cell": states}
            if self.query == "output":
                queries = outputs
            else:  # the state before each step looks: (batch, time, dim), one step late
                queries = ops.concatenate([before, hidden[:, :-1]], axis=1)
            context, weights = self.attention.attend(queries, source)
            outputs = self._emit(outputs, context)
        return outputs, state, weights

    def draw_noise(self, inputs, source, training):
        """What a monotonic attention adds in training, for all steps at once, or None.

        JAX cannot draw in a loop over time.
        """
        if not training or not self.attention.is_monotonic:
            return None
        return self.attention.draw_noise((*ops.shape(inputs)[:2], ops.shape(source.values)[1]))

    def _emit(self, output, context):
        output = ops.cast(output, self.compute_dtype)  # the parts may compute in others
        if not self.emits_context:
            return output
        joined = ops.concatenate([output, ops.cast(context, self.compute_dtype)], axis=-1)
        if self.attention_size is None:
            return joined
        return self.activation(project(joined, self.output_kernel))

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "attention": keras.saving.serialize_keras_object(self.attention),
            "attention_size": self.attention_size,
            "query": self.query,
            "input_feeding": self.input_feeding,
            "activation": keras.activations.serialize(self.activation)
            if self.attention_size
            else None,
        }

    @classmethod
    def from_config(cls, config):
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("cell", "attention")
        }
        return cls(**{**config, **parts})
