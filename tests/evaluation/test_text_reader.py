"""The perplexity of a text in chunks and parts, beside a plain computation over all of it."""

import keras
import numpy as np
import pytest

from tests.tools import log_softmax, randomize, to_numpy
from zoo import LuongAttention, RecurrentLanguageModel, TransformerDecoder
from zoo.evaluation import text_reader
from zoo.evaluation.text_reader import TextReader

SIZE, START = 11, 2
TEXT = np.random.default_rng(0).integers(2, SIZE, size=150)

DECODERS = {
    "lstm": lambda: RecurrentLanguageModel(SIZE, 6, keras.layers.LSTMCell(5)),
    "attention": lambda: RecurrentLanguageModel(
        SIZE, 5, keras.layers.LSTMCell(5), LuongAttention(), window=9, tie_embeddings=True
    ),
    "transformer": lambda: TransformerDecoder(
        SIZE, 8, num_layers=2, num_heads=2, cross_attention=False, max_length=300
    ),
}


@pytest.fixture(params=DECODERS)
def decoder(request):
    decoder = DECODERS[request.param]()
    decoder(np.array([[START, 3]]))
    return randomize(decoder, scale=0.5)


def plain_nats(decoder, text):
    """All at once: the sum of -log P of each token behind those before it."""
    inputs = np.concatenate([[START], text[:-1]])[None]
    log_probs = log_softmax(to_numpy(decoder(inputs)))[0]
    return -log_probs[np.arange(len(text)), text]


def test_chunks_are_the_whole(decoder, monkeypatch):
    monkeypatch.setattr(text_reader, "CHUNK", 16)
    window = 256 if isinstance(decoder, TransformerDecoder) else None
    nats = TextReader(decoder, window).nats(TEXT)
    assert nats == pytest.approx(plain_nats(decoder, TEXT).sum(), rel=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_parts_that_read_all_before_are_the_whole(kind, monkeypatch):
    decoder = DECODERS[kind]()
    decoder(np.array([[START, 3]]))
    randomize(decoder, scale=1.0)
    for name, value in {"PART": 40, "CONTEXT": 200, "CHUNK": 16, "LOGITS": 3 * 16}.items():
        monkeypatch.setattr(text_reader, name, value)  # four parts, three at once
    whole = plain_nats(decoder, TEXT).sum()
    assert TextReader(decoder).nats(TEXT) == pytest.approx(whole, rel=1e-5)
    monkeypatch.setattr(text_reader, "CONTEXT", 0)  # all is forgotten
    assert abs(TextReader(decoder).nats(TEXT) - whole) > 0.1


def test_a_window_slides_by_half_of_itself():
    decoder = DECODERS["transformer"]()
    decoder(np.array([[START, 3]]))
    randomize(decoder, scale=0.5)
    expected = 0.0
    for i in range(0, len(TEXT), 8):
        first = max(0, i - 8)
        # A window begins with what stands before the first of its tokens.
        inputs = np.concatenate([[START], TEXT])[first : i + 8][: len(TEXT) - first][None]
        log_probs = log_softmax(to_numpy(decoder(inputs)))[0]
        expected -= sum(log_probs[t - first, TEXT[t]] for t in range(i, min(i + 8, len(TEXT))))
    assert TextReader(decoder, window=16).nats(TEXT) == pytest.approx(expected, rel=1e-5)


def test_short_texts_and_none(decoder):
    window = 16 if isinstance(decoder, TransformerDecoder) else None
    reader = TextReader(decoder, window)
    assert reader.nats([]) == 0.0
    assert reader.nats(TEXT[:1]) == pytest.approx(plain_nats(decoder, TEXT[:1]).sum(), rel=1e-5)
    assert reader.nats(TEXT, stops=lambda: True) is None
