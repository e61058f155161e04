import re

import tensorflow as tf

from zoo.text.symbol_tokenizer import SymbolTokenizer

# What is before the features, and the features: words at the end that have a "=" in them.
PARTS = r"(?s)^(.*?)((?:[ \t]+[^ \t]*=[^ \t]*)*)[ \t]*$"


class InflectionTokenizer(SymbolTokenizer):
    """A lemma in characters and, behind a space, features in symbols: "go pos=V,tense=PST" is four.

    Features are the words at the end that have a "=" in them, with commas or spaces between them;
    everything else is the lemma, spaces and commas included. An unknown feature is `unknown_id`, as
    an unknown character is.

    Arguments are those of `SymbolTokenizer`.

    Example:

    ```python
    from zoo.text import InflectionTokenizer

    tokenizer = InflectionTokenizer.train(["go pos=V,tense=PST"])
    assert tokenizer.symbols == ("g", "o", "pos=V", "tense=PST")
    ids = tokenizer.tokenize(["go pos=V,tense=PST", "go go\\tpos=V tense=PST"])
    assert ids.to_list() == [[4, 5, 6, 7], [4, 5, 3, 4, 5, 6, 7]]
    ```
    """

    @staticmethod
    def split(string):
        lemma, features = re.fullmatch(PARTS, string).groups()
        return [*lemma, *SymbolTokenizer.split(features.replace(",", " "))]

    def split_in_graph(self, strings):
        lemma, features = (
            tf.strings.regex_replace(strings, PARTS, part, replace_global=False)
            for part in (r"\1", r"\2")
        )
        characters = tf.strings.unicode_split(lemma, "UTF-8", errors="replace")
        features = tf.strings.split(tf.strings.regex_replace(features, ",", " "))
        return tf.concat([characters, features], axis=1)

    def join(self, ids):
        def separated(tokens):  # "\0" before each feature
            is_feature = tf.strings.regex_full_match(tokens, "(?s).+=.*|.*=.+")
            return tf.where(is_feature, tf.strings.join(["\0", tokens]), tokens)

        tokens = tf.ragged.map_flat_values(lambda ids: separated(self.tokens(ids)), ids)
        joined = tf.strings.reduce_join(tokens, axis=-1)
        joined = tf.strings.regex_replace(joined, "\\x00", " ", replace_global=False)
        return tf.strings.regex_replace(joined, "\\x00", ",")
