"""Strings to ids and back, inside the graph."""

import json
import pathlib

from zoo.text.inflection_tokenizer import InflectionTokenizer
from zoo.text.sentencepiece_tokenizer import SentencePieceTokenizer
from zoo.text.symbol_tokenizer import CharacterTokenizer, SymbolTokenizer
from zoo.text.tokenizer import Tokenizer

CLASSES = (CharacterTokenizer, SymbolTokenizer, InflectionTokenizer, SentencePieceTokenizer)
TOKENIZERS = {cls.__name__: cls for cls in CLASSES}


def deserialize(config):
    """The tokenizer that `tokenizer.serialize()` described."""
    config = dict(config)
    return TOKENIZERS[config.pop("class")].from_config(config)


def load(path):
    """The tokenizer that `tokenizer.save(path)` wrote."""
    return deserialize(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
