"""Links against examples worked by hand, and against the definitions taken literally."""

import itertools

import numpy as np
import pytest

from zoo.evaluation.alignment import (
    METHODS,
    alignment_error_rate,
    format_links,
    links_of,
    parse_links,
    parse_reference,
    symmetrize,
)


def test_links_are_of_words():
    pieces = (
        ["\u2581Der", "\u2581Mann", "\u2581fähr", "t"],
        ["\u2581The", "\u2581man", "\u2581r", "ides"],
    )
    weights = [
        [0.9, 0.1, 0.0, 0.0],
        [0.3, 0.4, 0.3, 0.0],
        [0.0, 0.6, 0.4, 0.0],  # of "r" alone, "Mann" has most
        [0.0, 0.1, 0.4, 0.5],
    ]
    assert links_of(*pieces, weights) == {(0, 0), (1, 1), (2, 2)}


def test_a_word_that_looks_nowhere_has_no_link():
    assert links_of(["a", "b"], ["x", "y"], [[0.2, 0.8], [0.0, 0.0]]) == {(1, 0)}
    assert links_of([], ["x"], np.zeros((1, 0))) == set()
    assert links_of(["a"], [], np.zeros((0, 1))) == set()


#     t 0 1 2 3 4          F forward only, B backward only, X both
# s 0   X . . . .
#   1   . F . . .          touches (0, 0) at a corner, both of its words are free
#   2   . . B . .          touches (1, 1) at a corner, once that is in
#   3   . . . . F          touches nothing, both of its words are free
#   4   B . . . .          touches nothing, and only its source is free
BY_HAND = "0-0 1-1 3-4", "0-0 2-2 4-0"


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("intersection", "0-0"),
        ("union", "0-0 1-1 2-2 3-4 4-0"),
        ("grow-diag", "0-0 1-1 2-2"),
        ("grow-diag-final", "0-0 1-1 2-2 3-4 4-0"),
        ("grow-diag-final-and", "0-0 1-1 2-2 3-4"),
    ],
)
def test_two_directions_by_hand(method, expected):
    forward, backward = map(parse_links, BY_HAND)
    assert format_links(symmetrize(forward, backward, method)) == expected


def test_a_link_between_words_that_are_taken_does_not_grow():
    forward, backward = parse_links("0-0 1-1 0-1"), parse_links("0-0 1-1")
    assert symmetrize(forward, backward, "grow-diag") == {(0, 0), (1, 1)}


def literally(forward, backward, method, size):
    """Koehn's pseudocode on matrices: nothing but loops over all cells."""
    either = np.zeros((size, size), bool)
    links = np.zeros((size, size), bool)
    for s, t in itertools.product(range(size), repeat=2):
        either[s, t] = (s, t) in forward or (s, t) in backward
        links[s, t] = (s, t) in forward and (s, t) in backward
    steps = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    while True:
        before = links.sum()
        for s, t in itertools.product(range(size), repeat=2):
            for a, b in steps if links[s, t] else ():
                x, y = s + a, t + b
                inside = 0 <= x < size and 0 <= y < size
                if inside and either[x, y] and not (links[x].any() and links[:, y].any()):
                    links[x, y] = True
        if links.sum() == before:
            break
    for direction in (forward, backward) if method != "grow-diag" else ():
        for s, t in itertools.product(range(size), repeat=2):
            new = [not links[s].any(), not links[:, t].any()]
            if (s, t) in direction and (any(new) if method == "grow-diag-final" else all(new)):
                links[s, t] = True
    return {tuple(cell) for cell in np.argwhere(links).tolist()}


@pytest.mark.parametrize("method", METHODS[2:])
def test_random_links_grow_as_the_pseudocode_says(method):
    rng = np.random.default_rng(0)
    for size in (2, 3, 5, 8):
        for _ in range(60):
            forward = {(int(rng.integers(size)), t) for t in range(size) if rng.random() < 0.8}
            backward = {(s, int(rng.integers(size))) for s in range(size) if rng.random() < 0.8}
            expected = literally(forward, backward, method, size)
            assert symmetrize(forward, backward, method) == expected


def test_the_error_rate_by_hand():
    # 3 of A; 2 of them sure, 1 more possible; 1 that is neither; S has 3.
    found = [parse_links("0-0 1-1"), parse_links("0-0 2-2")]
    references = [parse_reference("0-0 1?1"), parse_reference("0-0 1-1")]
    scores = alignment_error_rate(found, references)
    assert scores["aer"]["score"] == pytest.approx(100 * (1 - (2 + 3) / (4 + 3)))
    assert scores["precision"]["score"] == pytest.approx(100 * 3 / 4)
    assert scores["recall"]["score"] == pytest.approx(100 * 2 / 3)
    assert scores["aer"]["signature"].startswith("aer|lines:2|sure:3|found:4|zoo:")


def test_what_is_sure_is_possible_too_and_nothing_is_wrong_with_nothing():
    sure = parse_reference("0-0 1-1")
    assert alignment_error_rate([sure[0]], [sure])["aer"]["score"] == 0
    assert alignment_error_rate([{(5, 5)}], [sure])["aer"]["score"] == 100
    assert alignment_error_rate([set()], [(set(), set())])["aer"]["score"] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parse_links("0-0 1:2"), "source-target, such as 0-0 1-2. Received: '1:2'"),
        (lambda: parse_links("0-0 1?2"), "a possible link"),
        (lambda: symmetrize(set(), set(), "grow"), "Received: method='grow'"),
        (lambda: alignment_error_rate([set()], []), "Received: 1 and 0"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        call()
