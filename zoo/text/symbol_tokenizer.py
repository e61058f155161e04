import collections
import re

import tensorflow as tf

from zoo.text.tokenizer import Tokenizer, valid_utf8


class SymbolTokenizer(Tokenizer):
    """Symbols between spaces, such as phonemes: "K AE T" is three.

    Arguments:
        symbols: the strings to know, in the order of their ids, the first of which is 4. All others
            are `unknown_id`, and are written as U+FFFD.
        lowercase: bool, whether to fold upper to lower case on the way in.

    Example:

    ```python
    from zoo.text import SymbolTokenizer

    tokenizer = SymbolTokenizer.train(["K AE T", "T AE K"])
    ids = tokenizer.tokenize(["K AE T"])
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"K AE T"]
    ```
    """

    separator = " "

    def __init__(self, symbols, lowercase=False):
        super().__init__()
        self.symbols = tuple(symbols)
        if not self.symbols:
            raise ValueError("`symbols` must be one at least. Received: none")
        repeated = [s for s, n in collections.Counter(self.symbols).items() if n > 1]
        if repeated:
            raise ValueError(f"`symbols` must differ from each other. Received twice: {repeated}")
        self.lowercase = lowercase
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(self.symbols, tf.string),
                tf.range(len(self.symbols), dtype=tf.int32) + len(self.special_tokens),
            ),
            self.unknown_id,
        )

    @classmethod
    def train(cls, strings, lowercase=False):
        """The tokenizer that knows all symbols of some strings (an iterable of str)."""
        symbols = set()
        for string in strings:
            symbols.update(cls.split(string.lower() if lowercase else string))
        return cls(sorted(symbols), lowercase)

    @staticmethod
    def split(string):
        return re.findall(r"[^ \t\n\v\f\r]+", string)  # at what the graph splits at, and no more

    def split_in_graph(self, strings):
        return tf.strings.split(strings)

    @property
    def vocabulary_size(self):
        return len(self.special_tokens) + len(self.symbols)

    def tokenize(self, strings):
        strings = valid_utf8(tf.convert_to_tensor(strings, tf.string))
        if self.lowercase:
            strings = tf.strings.lower(strings, encoding="utf-8")
        return tf.ragged.map_flat_values(self.table.lookup, self.split_in_graph(strings))

    def tokens(self, ids):
        return tf.gather(tf.constant((*self.special_tokens, *self.symbols)), ids)

    def join(self, ids):
        tokens = tf.ragged.map_flat_values(self.tokens, ids)
        return tf.strings.reduce_join(tokens, axis=-1, separator=self.separator)

    def get_config(self):
        return {"symbols": list(self.symbols), "lowercase": self.lowercase}


class CharacterTokenizer(SymbolTokenizer):
    """Characters: the code points of Unicode, spaces among them.

    Arguments are those of `SymbolTokenizer`.

    Example:

    ```python
    from zoo.text import CharacterTokenizer

    tokenizer = CharacterTokenizer.train(["cat", "dog"], lowercase=True)
    assert tokenizer.tokenize(["Toga"]).to_list() == [[9, 8, 7, 4]]
    ```
    """

    separator = ""

    @staticmethod
    def split(string):
        return list(string)

    def split_in_graph(self, strings):
        return tf.strings.unicode_split(strings, "UTF-8", errors="replace")
