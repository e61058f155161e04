import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.token_positions import POSITIONS, TokenPositions
from zoo.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable("zoo")
class TransformerEncoder(keras.layers.Layer):
    """Reads a sequence of ids by self-attention and leaves a memory behind (Vaswani et al. 2017).

    Each layer normalises what it reads and adds what it finds ("pre-norm"), and the memory is
    normalised once more at the end.

    Arguments:
        vocabulary_size: int.
        dim: int, of embeddings and memory.
        num_layers: int.
        num_heads: int, a divisor of `dim`.
        feedforward_dim: int, by default four times `dim`.
        positions: "sinusoidal", or "learned" up to `max_length`.
        max_length: int.
        dropout: float, applied to embeddings, to attention weights and to what each part adds.

    Call arguments:
        tokens: (batch, source_length) ids; 0 is padding, wherever it stands.

    Returns what a decoder's `call` and a search take:
        memory: (batch, source_length, dim).
        memory_mask: (batch, source_length) bool.
        summary: (batch, dim), the mean of the memory over what is no padding.

    Example:

    ```python
    import numpy as np
    from zoo import TransformerEncoder

    encoder = TransformerEncoder(100, dim=16, num_layers=2, num_heads=4)
    memory, memory_mask, summary = encoder(np.array([[4, 5, 6], [7, 8, 0]]))
    assert memory.shape == (2, 3, 16) and memory_mask.shape == (2, 3) and summary.shape == (2, 16)
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
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = checks.integer("vocabulary_size", vocabulary_size, 1)
        self.dim = checks.integer("dim", dim, 1)
        self.num_layers = checks.integer("num_layers", num_layers, 1)
        self.num_heads = checks.divisor("num_heads", num_heads, "dim", dim)
        self.feedforward_dim = checks.integer("feedforward_dim", feedforward_dim or 4 * dim, 1)
        self.positions = checks.one_of("positions", positions, POSITIONS)
        self.max_length = checks.integer("max_length", max_length, 1)
        self.dropout = checks.rate("dropout", dropout)
        self.embed = TokenPositions(
            vocabulary_size, dim, positions, max_length, dropout, dtype=self.dtype_policy
        )
        self.blocks = [
            TransformerBlock(
                dim,
                num_heads,
                self.feedforward_dim,
                dropout,
                dtype=self.dtype_policy,
                name=f"block_{i}",
            )
            for i in range(num_layers)
        ]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6, dtype=self.dtype_policy)

    def build(self, tokens_shape):
        self.embed.build(tokens_shape)
        for block in self.blocks:
            block.build((None, None, self.dim))
        self.norm.build((None, None, self.dim))
        self.built = True

    def call(self, tokens, training=None):
        checks.shape("tokens", tokens, ("batch", "source_length"))
        self.embed.check_length("tokens", tokens.shape[1])
        mask = ops.not_equal(tokens, 0)  # (batch, source_length)
        x = self.embed(tokens, training=training)
        for block in self.blocks:
            x, _ = block(x, mask[:, None, :], training=training)
        memory = self.norm(x)
        there = ops.cast(mask, memory.dtype)[:, :, None]
        summary = ops.sum(memory * there, axis=1) / ops.maximum(ops.sum(there, axis=1), 1)
        return memory, mask, summary

    def get_config(self):
        names = (
            "vocabulary_size",
            "dim",
            "num_layers",
            "num_heads",
            "feedforward_dim",
            "positions",
            "max_length",
            "dropout",
        )
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
