"""Attention-based sequence-to-sequence models for Keras 3 and TensorFlow."""

from zoo.evaluation import TokenAccuracy
from zoo.layers import (
    AttentionCell,
    BahdanauAttention,
    BeamSearchDecoder,
    Decoder,
    GreedyDecoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    ResidualRNNCells,
    SearchResult,
)
from zoo.models import Seq2Seq
from zoo.training import TokenCrossentropy

__version__ = "0.1.0"
