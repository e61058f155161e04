import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.decoder import Decoder
from zoo.layers.transformer_stack import TransformerStack


@keras.saving.register_keras_serializable("zoo")
class TransformerDecoder(TransformerStack, Decoder):
    """Writes a sequence by attention to what it has written and to a memory (Vaswani et al. 2017).

    Training sees all positions at once. A search goes step by step: keys and values of what was
    written are the state, those of the memory are the source, projected once.

    Arguments:
        vocabulary_size: int.
        dim: int, of embeddings and layers.
        num_layers: int.
        num_heads: int, a divisor of `dim`.
        feedforward_dim: int, by default four times `dim`.
        positions: "sinusoidal", or "learned" up to `max_length`.
        max_length: int, the longest sequence; a search makes room for its own `max_length`.
        dropout: float, applied to embeddings, to attention weights and to what each part adds.
        cross_attention: bool; without it there is no memory: a language model.
        tie_embeddings: bool, whether the output layer uses the embeddings (Press & Wolf 2017).
        alignment_layer: int, the layer whose attention to the memory, averaged over its heads, is
            what the decoder gives as its weights; -1 is the last.

    Call arguments and results are those of `Decoder`.

    Example:

    ```python
    import numpy as np
    from zoo import BeamSearchDecoder, TransformerDecoder, TransformerEncoder

    encoder = TransformerEncoder(100, dim=16, num_layers=2, num_heads=4)
    decoder = TransformerDecoder(50, dim=16, num_layers=2, num_heads=4)
    source, target = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 9, 10, 11], [1, 12, 13, 2]])
    logits, weights = decoder(target, *encoder(source), return_attention_scores=True)
    assert logits.shape == (2, 4, 50) and weights.shape == (2, 4, 3)
    result = BeamSearchDecoder(decoder, beam_width=3, max_length=8)(*encoder(source))
    assert result.alignments.shape == (2, 3, 8, 3)
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        dim,
        num_layers=4,
        num_heads=4,
        feedforward_dim=None,
        positions="sinusoidal",
        max_length=512,
        dropout=0.0,
        cross_attention=True,
        tie_embeddings=False,
        alignment_layer=-1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.add_stack(
            vocabulary_size,
            dim,
            num_layers,
            num_heads,
            feedforward_dim,
            positions,
            max_length,
            dropout,
            cross_attention,
        )
        self.cross_attention = checks.boolean("cross_attention", cross_attention)
        self.tie_embeddings = checks.boolean("tie_embeddings", tie_embeddings)
        if alignment_layer not in range(-num_layers, num_layers):
            raise ValueError(
                f"`alignment_layer` must be one of the {num_layers} layers. "
                f"Received: alignment_layer={alignment_layer}"
            )
        self.alignment_layer = alignment_layer
        if not tie_embeddings:
            self.output_dense = keras.layers.Dense(
                vocabulary_size, dtype=self.dtype_policy, name="output_dense"
            )

    def build(self, tokens_shape, memory_shape=None, memory_mask_shape=None, summary_shape=None):
        self._require(memory_shape)
        self.build_stack(tokens_shape, memory_shape[-1] if self.cross_attention else None)
        if self.tie_embeddings:
            self.output_bias = self.add_weight(
                shape=(self.vocabulary_size,), initializer="zeros", name="output_bias"
            )
        else:
            self.output_dense.build((None, None, self.dim))
        self.built = True

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        self._require(memory)
        if not self.built:
            self.build((None, None), None if memory is None else tuple(memory.shape))
        if batch_size is None:
            batch_size = self.batch_size_of(memory, summary)
        length = max_length or self.max_length
        self.embed.check_length("max_length", length)
        empty = ops.zeros((batch_size, 1, length, self.dim), dtype=self.compute_dtype)
        state = {
            "position": ops.convert_to_tensor(0, dtype="int32"),
            "written": [{"keys": empty, "values": empty} for _ in self.blocks],
        }
        return state, self._source(memory, memory_mask)

    def step(self, tokens, state, source):
        position = state["position"]
        batch, beam = ops.shape(tokens)[0], tokens.shape[1]
        rows = ops.reshape(tokens, (-1, 1))  # (batch * beam, 1)
        x = ops.reshape(self.embed(rows, start=position), (batch, beam, self.dim))
        length = state["written"][0]["keys"].shape[2]
        seen = ops.arange(length) <= position  # (length,)
        now = ops.equal(ops.arange(length), position)[:, None]  # (length, 1)
        written, all_weights = [], []
        for block, cache, memory in zip(self.blocks, state["written"], source, strict=True):

            def attend_self(y, block=block, cache=cache):
                new = dict(zip(("keys", "values"), block.self_attention.project(y), strict=True))
                # (batch, beam, 1, dim) into (batch, beam, length, dim)
                cache = {k: ops.where(now, new[k][:, :, None], cache[k]) for k in cache}
                written.append(cache)
                # Each hypothesis attends to itself alone: it is a row of its own here.
                flat = [ops.reshape(cache[k], (-1, length, self.dim)) for k in ("keys", "values")]
                query = ops.reshape(y, (-1, 1, self.dim))
                y, _ = block.self_attention.attend(query, *flat, seen[None, None, :])
                return ops.reshape(y, (batch, beam, self.dim))

            x, weights = block.run(x, attend_self, memory)
            all_weights.append(weights)
        state = {"position": position + 1, "written": written}
        return self._logits(x), state, self._alignment(all_weights)

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
        self.embed.check_length("tokens", tokens.shape[1])
        where = ops.arange(ops.shape(tokens)[1])
        causal = (where[:, None] >= where)[None]  # (1, time, time)
        x = self.embed(tokens, training=training)
        all_weights = []
        for block, source in zip(self.blocks, self._source(memory, memory_mask), strict=True):
            x, weights = block(x, causal, source, training=training)
            all_weights.append(weights)
        logits = self._logits(x)
        return (logits, self._alignment(all_weights)) if return_attention_scores else logits

    def _source(self, memory, memory_mask):
        """For each layer (keys, values, mask) of the memory, or None."""
        if not self.cross_attention:
            return [None for _ in self.blocks]
        memory = ops.cast(memory, self.compute_dtype)
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory)[:2], dtype="bool")
        mask = ops.cast(memory_mask, "bool")[:, None, :]  # (batch, 1, source_length)
        return [(*block.cross_attention.project(memory), mask) for block in self.blocks]

    def _alignment(self, all_weights):
        weights = all_weights[self.alignment_layer]  # (batch, heads, time or beam, source_length)
        return None if weights is None else ops.mean(weights, axis=1)

    def _logits(self, x):
        x = self.norm(x)
        if not self.tie_embeddings:
            return self.output_dense(x)
        table = ops.cast(self.embed.embedding.embeddings, x.dtype)  # (vocabulary, dim)
        return ops.matmul(x, ops.transpose(table)) + ops.cast(self.output_bias, x.dtype)

    def _require(self, memory):
        if self.cross_attention and memory is None:
            raise ValueError(
                "`memory` is what the decoder looks at: pass the encoder's results, "
                "decoder(tokens, *encoder(source)), or say cross_attention=False for a language "
                "model. Received: memory=None"
            )

    def get_config(self):
        names = ("cross_attention", "tie_embeddings", "alignment_layer")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
