"""The names that `import zoo` gives, from where they are."""

# ruff: noqa: F401

from zoo.evaluation import TokenAccuracy
from zoo.layers import (
    AttentionCell,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    Decoder,
    Ensemble,
    EnsembleEncoder,
    GreedyDecoder,
    LuongAttention,
    LuongMonotonicAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentLanguageModel,
    ResidualRNNCells,
    SamplingDecoder,
    SearchResult,
    TransformerDecoder,
    TransformerEncoder,
)
from zoo.models import Seq2Seq
from zoo.training import TokenCrossentropy
