"""The names that `import zoo` gives, from where they are."""

# ruff: noqa: F401

from zoo.evaluation import TokenAccuracy
from zoo.layers import (
    AttentionCell,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    CopyDecoder,
    CopyEncoder,
    Decoder,
    Ensemble,
    EnsembleEncoder,
    GreedyDecoder,
    ImageEncoder,
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
from zoo.models import LanguageModel, Seq2Seq
from zoo.training import TokenCrossentropy
