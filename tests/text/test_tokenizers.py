import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from zoo import text
from zoo.text import (
    CharacterTokenizer,
    InflectionTokenizer,
    SentencePieceTokenizer,
    SymbolTokenizer,
    sentencepiece_tokenizer,
)

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "naïve café, Ünïcödé",
    unicodedata.normalize("NFD", "é ü ñ"),  # combining marks
    "שלום עולם",  # right to left
    "مرحبا بالعالم",
    "👩‍👩‍👧 🏳️‍🌈 👍🏽",  # joined and modified emoji
    "東京は夜の七時",
]
BYTES = [
    b"",
    b"\xff\xfe",
    b"caf\xc3",
    b"\x00a\x00",
    b"\xed\xa0\x80",
    b"a" * 10000,
    b" \t\n ",
    b"\xc0\xaf",
]
TOKENIZERS = {
    "character": lambda: CharacterTokenizer.train(LINES),
    "inflection": lambda: InflectionTokenizer.train(LINES),
    "symbol": lambda: SymbolTokenizer.train(LINES),
    "unigram": lambda: SentencePieceTokenizer.train(LINES, 68, "unigram"),
    "bpe": lambda: SentencePieceTokenizer.train(LINES, 100, "bpe"),
}
every_tokenizer = pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)


def detokenized(tokenizer, strings):
    ids = tokenizer.tokenize(strings)
    return [s.decode() for s in tokenizer.detokenize(ids).numpy()]


@every_tokenizer
def test_round_trip(make):
    tokenizer = make()
    # SentencePiece normalises by NFKC: compare up to that.
    back = detokenized(tokenizer, LINES)
    if isinstance(tokenizer, SymbolTokenizer):
        assert back == LINES
    else:
        assert back == [unicodedata.normalize("NFKC", line) for line in LINES]


@every_tokenizer
def test_any_bytes_give_valid_utf8(make):
    tokenizer = make()
    rng = np.random.default_rng()
    random = [rng.bytes(rng.integers(0, 50)) for _ in range(200)]
    for string in tokenizer.detokenize(tokenizer.tokenize(BYTES + random)).numpy():
        string.decode("utf-8")
    assert tokenizer.tokenize(tf.zeros((0,), tf.string)).shape[0] == 0


@every_tokenizer
def test_any_ids_give_valid_utf8(make):
    tokenizer = make()
    ids = np.random.default_rng().integers(-3, tokenizer.vocabulary_size + 3, size=(50, 4, 9))
    strings = tokenizer.detokenize(ids)
    assert strings.shape == (50, 4)
    for string in strings.numpy().ravel():
        string.decode("utf-8")


@every_tokenizer
def test_nothing_after_the_end_is_written(make):
    tokenizer = make()
    ids = tokenizer.tokenize(LINES[:1]).to_list()[0]
    assert min(ids) >= 4
    assert max(ids) < tokenizer.vocabulary_size
    rows = [[1, *ids, 2, *ids], [1, *ids, 2, 0, 0]]
    rows = tf.ragged.constant(rows).to_tensor()
    assert [s.decode() for s in tokenizer.detokenize(rows).numpy()] == [LINES[0]] * 2


@every_tokenizer
def test_save_and_load(make, tmp_path):
    tokenizer = make()
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = text.load(tmp_path / "tokenizer.json")
    assert type(loaded) is type(tokenizer)
    assert loaded.vocabulary_size == tokenizer.vocabulary_size
    assert loaded.tokenize(LINES).to_list() == tokenizer.tokenize(LINES).to_list()


@every_tokenizer
def test_travels_in_a_saved_model(make, tmp_path):
    module = tf.Module()
    module.tokenizer = make()
    module.run = tf.function(
        lambda strings: module.tokenizer.detokenize(module.tokenizer.tokenize(strings)),
        input_signature=[tf.TensorSpec((None,), tf.string)],
    )
    expected = module.run(LINES).numpy().tolist()
    tf.saved_model.save(module, tmp_path / "model")
    assert tf.saved_model.load(tmp_path / "model").run(LINES).numpy().tolist() == expected


@every_tokenizer
def test_tokens_are_shown(make):
    tokenizer = make()
    ids = tokenizer.tokenize(LINES[:1]).to_tensor()
    shown = [s.decode() for s in tokenizer.tokens(ids).numpy()[0]]
    assert len(shown) == ids.shape[1]
    assert "".join(shown).replace("▁", "").replace(" ", "") == LINES[0].replace(" ", "")
    assert [s.decode() for s in tokenizer.tokens([0, 1, 2, 3]).numpy()] == [
        "",
        "<s>",
        "</s>",
        "\ufffd",
    ]


def test_symbols_and_characters_by_hand():
    symbols = SymbolTokenizer(["AA", "K", "T"])
    assert symbols.tokenize(["K  AA T", "K X", ""]).to_list() == [[5, 4, 6], [5, 3], []]
    assert symbols.detokenize([[5, 3, 6]]).numpy().tolist() == ["K \ufffd T".encode()]
    characters = CharacterTokenizer(["a", "b", "é"], lowercase=True)
    assert characters.tokenize(["BaÉ", "c"]).to_list() == [[5, 4, 6], [3]]
    assert characters.detokenize([[5, 4, 6]]).numpy().tolist() == ["baé".encode()]


@every_tokenizer
def test_nothing_is_nothing(make):
    tokenizer = make()
    assert detokenized(tokenizer, []) == []
    assert tokenizer.tokens(tf.zeros((2, 0), tf.int64)).shape == (2, 0)


def test_symbols_are_learnt_where_the_graph_finds_them():
    text = "K\u00a0AE\u2028\x85\x1cT\u3000K T\r\vAE"
    tokenizer = SymbolTokenizer.train([text])
    assert SymbolTokenizer.unknown_id not in tokenizer.tokenize([text]).values.numpy()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SymbolTokenizer([]), "must be one at least"),
        (lambda: SymbolTokenizer(["a", "b", "a"]), r"Received twice: \['a'\]"),
        (lambda: SentencePieceTokenizer.train(LINES, 90, "wordpiece"), "kind='wordpiece'"),
        (lambda: SentencePieceTokenizer.train(["a b"], 5000), "5000 pieces"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_pieces_of_more_text_than_memory_holds(monkeypatch):
    """A part of it is read, from all places; the letters of the rest are unknown."""
    monkeypatch.setattr(sentencepiece_tokenizer, "MOST_TO_TRAIN_ON", 60)
    lines = [chr(ord("a") + i) * 10 for i in range(24)]  # 240 characters
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=12, kind="bpe")
    known = [tokenizer.unknown_id not in ids for ids in tokenizer.tokenize(lines).to_list()]
    assert sum(known) == 6
    assert any(known[:12])
    assert any(known[12:])
    again = SentencePieceTokenizer.train(lines, vocabulary_size=12, kind="bpe")
    assert again.model == tokenizer.model


def test_other_pieces_of_the_same_text():
    words = [
        "the",
        "a",
        "some",
        "old",
        "new",
        "tired",
        "cat",
        "dog",
        "horse",
        "sat",
        "stood",
        "slept",
        "near",
        "behind",
        "mat",
        "house",
    ]
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(words, size=7)) for _ in range(50)]
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=36)
    usual = tokenizer.tokenize(lines).to_list()
    samples = [tokenizer.sample(lines, 0.2, seed) for seed in range(20)]
    for sample in samples:
        read = tokenizer.detokenize(tf.ragged.constant(sample).to_tensor()).numpy()
        assert [line.decode() for line in read] == lines
    assert samples[3] == tokenizer.sample(lines, 0.2, 3)  # whatever was drawn before
    assert samples[3] != samples[4]

    def different(smoothness):
        drawn = [tokenizer.sample(lines, smoothness, seed) for seed in range(20)]
        return np.mean([a != b for one in drawn for a, b in zip(one, usual, strict=True)])

    assert different(2.0) < 0.05 < 0.5 < different(0.05)  # by the power of its probability


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("go pos=V,tense=PST", "g|o|pos=V|tense=PST"),
        ("New York pos=N,case=IN+ESS", "N|e|w| |Y|o|r|k|pos=N|case=IN+ESS"),
        ("áʼą́\tmood={SBJV/COND},per=1", "á|ʼ|ą|\u0301|mood={SBJV/COND}|per=1"),  # as in the data
        ("go pos=V, tense=PST  ", "g|o|pos=V|tense=PST"),  # as people type
        ("go pos=V tense=PST", "g|o|pos=V|tense=PST"),
        ("a, b pos=V", "a|,| |b|pos=V"),
        ("no features", "n|o| |f|e|a|t|u|r|e|s"),
        ("go pos=V\r", "g|o|pos=V"),
        ("x=1 go", "x|=|1| |g|o"),  # in front they are none
        ("", ""),
    ],
)
def test_a_lemma_and_its_features(text, tokens):
    tokens = tokens.split("|") if tokens else []
    tokenizer = InflectionTokenizer.train([text, "-"])
    assert tokenizer.symbols == tuple(sorted({"-", *tokens}))
    ids = tokenizer.tokenize([text])  # in the graph
    assert [token.decode() for token in tokenizer.tokens(ids[0]).numpy()] == tokens


def test_a_feature_that_is_unknown_leaves_the_others():
    tokenizer = InflectionTokenizer.train(["go pos=V,tense=PST"])
    ids = tokenizer.tokenize(["go pos=V,mood=IND,tense=PST"])
    assert tokenizer.tokens(ids).numpy().tolist() == [
        [b"g", b"o", b"pos=V", "\ufffd".encode(), b"tense=PST"]
    ]
    assert tokenizer.detokenize(tokenizer.tokenize(["go pos=V tense=PST"])).numpy().tolist() == [
        b"go pos=V,tense=PST"
    ]
