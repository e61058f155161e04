import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.transformer_stack import TransformerStack


@keras.saving.register_keras_serializable("zoo")
class TransformerEncoder(TransformerStack, keras.layers.Layer):
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
        dropout: float, applied to embeddings and to what each part of a layer adds.
        inner_dropout: float, applied to attention weights and inside the feed-forward parts; by
            default as `dropout`.

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
        inner_dropout=None,
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
            inner_dropout,
        )

    def build(self, tokens_shape):
        self.build_stack(tokens_shape)
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
