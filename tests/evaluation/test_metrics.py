import itertools
import re

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from zoo.evaluation.metrics import edit_distance, evaluate

words = st.lists(st.sampled_from("ab"), max_size=4).map(tuple)


def reachable(word, steps):
    """All words within so many edits, by trying every edit."""
    found = {word}
    for _ in range(steps):
        for w in list(found):
            for i in range(len(w) + 1):
                found.update((*w[:i], c, *w[i:]) for c in "ab")
            for i in range(len(w)):
                found.add((*w[:i], *w[i + 1 :]))
                found.update((*w[:i], c, *w[i + 1 :]) for c in "ab")
    return found


@given(words, words)
def test_edit_distance_is_the_fewest_edits(one, other):
    steps = next(n for n in itertools.count() if other in reachable(one, n))
    assert edit_distance(one, other) == edit_distance(other, one) == steps


def test_edit_distance_by_hand():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3


def test_a_line_is_right_if_it_equals_any_reference():
    scores = evaluate(
        ["K AE T", "R EH D", " D  AO", ""],
        [["K AE T"], ["R IY D", "R EH D"], ["D AO"], ["AH"]],
        ["wer", "accuracy"],
    )
    assert scores["wer"]["score"] == 25.0
    assert scores["accuracy"]["score"] == 75.0
    assert scores["wer"]["signature"].startswith("wer|lines:4|refs:var|zoo:")


def test_per_takes_the_reference_with_the_lowest_ratio():
    # 1 edit of 4 beats 1 edit of 2; then 2 edits of 2
    scores = evaluate(["A B C", "X Y"], [["A C", "A B C D"], ["P Q"]], ["per"])
    assert scores["per"]["score"] == 100 * (1 + 2) / (4 + 2)


def test_edit_distance_is_of_characters_a_line():
    # "taloissa" is one edit from its form, two from another; "kukka" is right; "" wants four
    references = [["taloissä", "talossaa"], ["kukka"], ["öiden", "öitä"]]
    scores = evaluate(["taloissa", "kukka", ""], references, ["edit_distance"])
    assert scores["edit_distance"]["score"] == (1 + 0 + 4) / 3
    assert scores["edit_distance"]["signature"].startswith("edit_distance|lines:3|refs:var|zoo:")


def test_bleu_and_chrf_are_those_of_sacrebleu():
    hypotheses = ["the cat sat on the mat", "a dog"]
    references = [["the cat sat on a mat", "the cat is on the mat"], ["one dog ran"]]
    scores = evaluate(hypotheses, references, ["bleu", "chrf"])
    streams = [[refs[0] for refs in references], ["the cat is on the mat", None]]
    assert scores["bleu"]["score"] == sacrebleu.corpus_bleu(hypotheses, streams).score
    assert scores["chrf"]["score"] == sacrebleu.corpus_chrf(hypotheses, streams).score
    assert "tok:13a" in scores["bleu"]["signature"]
    assert "|c:mixed|" in f"|{scores['bleu']['signature']}|".replace("case", "c")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [["a"], ["b"]], ["wer"]), "1 and 2"),
        (([], [], ["wer"]), "0 and 0"),
        ((["a"], [[]], ["wer"]), "none for line 1"),
        ((["a"], [["a"]], ["rouge"]), "rouge"),
    ],
)
def test_errors_say_what_was_received(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(*arguments)


def test_rouge_by_hand():
    # "the cat" of "the cat sat"; "b a" in another order; stems of words are the same word.
    references = [["the cat sat"], ["a b", "b c a"], ["Budgets, attached!"], ["x"]]
    scores = evaluate(["the cat", "b a", "budget attached", ""], references, ["rouge1", "rouge2"])
    first, second = 2 * 1 * (2 / 3) / (1 + 2 / 3), 1.0
    assert scores["rouge1"]["score"] == pytest.approx(100 * (first + second + 1 + 0) / 4)
    pairs = 2 * 1 * (1 / 2) / (1 + 1 / 2)
    assert scores["rouge2"]["score"] == pytest.approx(100 * (pairs + 0 + 1 + 0) / 4)
    longest = evaluate(["b a"], [["a b"]], ["rougeL"])["rougeL"]
    assert longest["score"] == pytest.approx(50.0)
    signature = r"rougeL\|stemmer:yes\|rouge-score:[\d.]+\|lines:1\|refs:1\|zoo:"
    assert re.match(signature, longest["signature"])
