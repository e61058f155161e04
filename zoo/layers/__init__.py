"""Attention, recurrent cells, encoders, decoders and searches: Keras 3 layers for any backend."""

from zoo.layers.attention_cell import AttentionCell
from zoo.layers.bahdanau_attention import BahdanauAttention
from zoo.layers.beam_search_decoder import BeamSearchDecoder
from zoo.layers.copy_decoder import CopyDecoder, CopyEncoder
from zoo.layers.decoder import Decoder
from zoo.layers.ensemble import Ensemble, EnsembleEncoder
from zoo.layers.greedy_decoder import GreedyDecoder
from zoo.layers.hypotheses import SearchResult
from zoo.layers.image_encoder import ImageEncoder
from zoo.layers.luong_attention import LuongAttention
from zoo.layers.monotonic_attention import BahdanauMonotonicAttention, LuongMonotonicAttention
from zoo.layers.recurrent_decoder import RecurrentDecoder
from zoo.layers.recurrent_encoder import RecurrentEncoder
from zoo.layers.recurrent_language_model import RecurrentLanguageModel
from zoo.layers.residual_rnn_cells import ResidualRNNCells
from zoo.layers.sampling_decoder import SamplingDecoder
from zoo.layers.transformer_decoder import TransformerDecoder
from zoo.layers.transformer_encoder import TransformerEncoder
