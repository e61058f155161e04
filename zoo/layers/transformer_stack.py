from zoo.layers import checks
from zoo.layers.layer_normalization import LayerNormalization
from zoo.layers.token_positions import POSITIONS, TokenPositions
from zoo.layers.transformer_block import TransformerBlock

SETTINGS = (
    "vocabulary_size",
    "dim",
    "num_layers",
    "num_heads",
    "feedforward_dim",
    "positions",
    "max_length",
    "dropout",
    "inner_dropout",
)


class TransformerStack:
    """What encoder and decoder of a Transformer are both made of: `embed`, `blocks`, `norm`.

    A layer inherits from this first, and calls `add_stack` in its constructor and `build_stack` in
    its `build`.
    """

    def add_stack(
        self,
        vocabulary_size,
        dim,
        num_layers,
        num_heads,
        feedforward_dim,
        positions,
        max_length,
        dropout,
        inner_dropout,
        cross_attention=False,
    ):
        self.vocabulary_size = checks.integer("vocabulary_size", vocabulary_size, 1)
        self.dim = checks.integer("dim", dim, 1)
        self.num_layers = checks.integer("num_layers", num_layers, 1)
        self.num_heads = checks.divisor("num_heads", num_heads, "dim", dim)
        self.feedforward_dim = checks.integer("feedforward_dim", feedforward_dim or 4 * dim, 1)
        self.positions = checks.one_of("positions", positions, POSITIONS)
        self.max_length = checks.integer("max_length", max_length, 1)
        self.dropout = checks.rate("dropout", dropout)
        inner_dropout = dropout if inner_dropout is None else inner_dropout
        self.inner_dropout = checks.rate("inner_dropout", inner_dropout)
        policy = self.dtype_policy
        sizes = (self.vocabulary_size, self.dim, self.positions, self.max_length, self.dropout)
        self.embed = TokenPositions(*sizes, dtype=policy, name="embed")
        sizes = (self.dim, self.num_heads, self.feedforward_dim, self.dropout)
        self.blocks = [
            TransformerBlock(
                *sizes, cross_attention, self.inner_dropout, dtype=policy, name=f"block_{i}"
            )
            for i in range(self.num_layers)
        ]
        self.norm = LayerNormalization(epsilon=1e-6, dtype=policy, name="norm")

    def build_stack(self, tokens_shape, memory_dim=None):
        self.embed.build(tokens_shape)
        for block in self.blocks:
            block.build((None, None, self.dim), memory_dim)
        self.norm.build((None, None, self.dim))

    def get_config(self):
        return {**super().get_config(), **{name: getattr(self, name) for name in SETTINGS}}
