import base64
import concurrent.futures
import io
import random
import tempfile

import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text

from zoo.text.tokenizer import Tokenizer, valid_utf8

MOST_TO_TRAIN_ON = 50_000_000  # characters


class SentencePieceTokenizer(Tokenizer):
    """Subwords of SentencePiece (Kudo & Richardson 2018), by unigram language model or BPE.

    Arguments:
        model: bytes, a SentencePiece model with the ids of padding, start, end and unknown at 0
            to 3, such as `train` makes.

    Example:

    ```python
    from zoo.text import SentencePieceTokenizer

    lines = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog"]
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=30, kind="bpe")
    ids = tokenizer.tokenize(["a dog on the mat"])
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"a dog on the mat"]
    ```
    """

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.processor = tf_text.SentencepieceTokenizer(model=model, out_type=tf.int32)
        self.vocabulary_size = int(self.processor.vocab_size())

    @classmethod
    def train(
        cls,
        strings,
        vocabulary_size,
        kind="unigram",
        character_coverage=1.0,
        normalize=True,
        symbols=(),
    ):
        """Trains on strings (an iterable of str). kind is "unigram" or "bpe".

        With normalize=False a character stays what it is, where NFKC has a plainer one; `symbols`
        are words that are one piece each. Of strings with more than 50 million characters about so
        many are read, drawn at random and the same each time, so that the training fits into
        memory; a character that only others have is unknown.
        """
        if kind not in ("unigram", "bpe"):
            raise ValueError(f"`kind` must be 'unigram' or 'bpe'. Received: kind={kind!r}")
        strings = list(strings)
        share = MOST_TO_TRAIN_ON / max(1, sum(map(len, strings)))
        if share < 1:
            strings = random.Random(0).sample(strings, max(1, int(share * len(strings))))
        model, others = io.BytesIO(), {}
        if symbols:  # as the pieces that begin with a space
            others["user_defined_symbols"] = ["\u2581" + symbol for symbol in symbols]
        try:
            with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
                if not normalize:  # but for a tab, which is a space
                    rules.write("9\t20\n")
                    rules.flush()
                    others["normalization_rule_tsv"] = rules.name
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(strings),
                    model_writer=model,
                    vocab_size=vocabulary_size,
                    model_type=kind,
                    character_coverage=character_coverage,
                    pad_id=cls.pad_id,
                    bos_id=cls.start_id,
                    eos_id=cls.end_id,
                    unk_id=cls.unknown_id,
                    minloglevel=2,
                    max_sentence_length=2**20,  # longer ones are left out
                    **others,
                )
        except RuntimeError as error:
            raise ValueError(
                f"SentencePiece cannot make {vocabulary_size} pieces of this text: {error}"
            ) from error
        return cls(model.getvalue())

    def tokenize(self, strings):
        strings = tf.convert_to_tensor(strings, tf.string)
        return self.processor.tokenize(valid_utf8(strings))

    def sample(self, strings, smoothness, seed):
        """Other ways to write strings (a list of str) in pieces, drawn by their probability.

        That is subword regularisation (Kudo 2018): the smaller `smoothness` above 0, the more ways
        are alike, and the shorter are the pieces. Only a model of kind "unigram" knows
        probabilities. Returns a list of lists of ids, the same for the same seed.
        """
        settings = {"enable_sampling": True, "alpha": smoothness, "nbest_size": -1}

        def draw():
            processor = sentencepiece.SentencePieceProcessor(model_proto=self.model)
            return processor.encode(strings, out_type=int, num_threads=1, **settings)

        # In a thread of its own, whose generator begins with the seed.
        sentencepiece.set_random_generator_seed(seed)
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            return thread.submit(draw).result()

    def tokens(self, ids):
        ids = tf.cast(ids, tf.int32)
        pieces = self.processor.id_to_string(ids)
        for i, token in enumerate(self.special_tokens):
            pieces = tf.where(ids == i, token, pieces)
        return pieces

    def join(self, ids):
        return valid_utf8(self.processor.detokenize(ids))

    def get_config(self):
        return {"model": base64.b64encode(self.model).decode("ascii")}

    @classmethod
    def from_config(cls, config):
        return cls(base64.b64decode(config["model"]))
