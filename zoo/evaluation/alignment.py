"""Links between words: from attention weights, from two directions, and how good they are.

A link is a pair of positions from 0, (source word, target word).
"""

import re

import zoo
from zoo.evaluation.words import merge_words

LINK = re.compile(r"(\d+)([-?p])(\d+)")
# Those that touch a link, at its sides and at its corners, in the order of Moses.
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
METHODS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")


def links_of(source_tokens, target_tokens, weights):
    """For each target word, the source word that has most of its weight.

    Arguments are those of `merge_words`, which puts pieces of words together first. A word that
    looks at nothing has no link. Returns a set of pairs (source, target).

    Example:

    ```python
    from zoo.evaluation.alignment import links_of

    pieces = ["\u2581ein", "\u2581Fahr", "rad"], ["\u2581a", "\u2581bi", "cycle"]
    weights = [[0.9, 0.1, 0.0], [0.4, 0.3, 0.3], [0.0, 0.2, 0.8]]
    assert links_of(*pieces, weights) == {(0, 0), (1, 1)}
    ```
    """
    _, _, weights = merge_words(source_tokens, target_tokens, weights)
    return {(int(row.argmax()), t) for t, row in enumerate(weights) if row.size and row.max() > 0}


def symmetrize(forward, backward, method="grow-diag-final-and"):
    """One set of links from those of two directions (Och & Ney 2003, Koehn et al. 2003).

    Where each target word has one source word in the one direction, and each source word one target
    word in the other, the links that both have are mostly right, and those that one has are mostly
    all. "grow-diag" begins with the intersection and takes in links of the union that touch one
    that is there, also at a corner, as long as one of its two words has no link yet. "-final" takes
    in, of the first direction and then of the second, what links a word without a link, and
    "-final-and" what links two such words.

    Arguments:
        forward, backward: sets of (source, target); those of the backward direction are turned
            round already.
        method: "intersection", "union", "grow-diag", "grow-diag-final" or "grow-diag-final-and".

    Example:

    ```python
    from zoo.evaluation.alignment import symmetrize

    forward, backward = {(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1), (3, 3)}
    assert symmetrize(forward, backward, "intersection") == {(0, 0), (1, 1)}
    assert symmetrize(forward, backward, "grow-diag") == {(0, 0), (1, 1), (1, 2)}
    assert symmetrize(forward, backward) == {(0, 0), (1, 1), (1, 2), (3, 3)}
    ```
    """
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {METHODS}. Received: method={method!r}")
    both, either = set(forward) & set(backward), set(forward) | set(backward)
    if method in ("intersection", "union"):
        return both if method == "intersection" else either
    links = set(both)
    sources, targets = {s for s, _ in links}, {t for _, t in links}  # that have a link

    def add(link):
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grows = True
    while grows:
        grows = False
        for s, t in sorted(either):
            for down, right in NEIGHBOURS if (s, t) in links else ():
                link = (s + down, t + right)
                is_free = link[0] not in sources or link[1] not in targets
                if link in either and link not in links and is_free:
                    add(link)
                    grows = True
    if method != "grow-diag":
        enough = all if method == "grow-diag-final-and" else any
        for links_of_one in (forward, backward):
            for s, t in sorted(links_of_one):
                if enough((s not in sources, t not in targets)):
                    add((s, t))
    return links


def alignment_error_rate(found, references):
    """How far links are from those of people, who said which are sure and which possible.

        AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

    with the links A that were found, S that are sure, and P that are possible, to which the sure
    ones belong (Och & Ney 2003); counts are summed over all pairs of texts.

    Arguments:
        found: list of sets of pairs (source, target).
        references: list of pairs (sure, possible), two such sets each.

    Returns a dict of "aer", "precision" (of A in P) and "recall" (of S in A), each {"score": per
    cent, "signature": str}.

    Example:

    ```python
    from zoo.evaluation.alignment import alignment_error_rate

    scores = alignment_error_rate([{(0, 0), (1, 2)}], [({(0, 0), (1, 1)}, {(1, 2)})])
    assert scores["aer"]["score"] == 100 * (1 - (1 + 2) / (2 + 2))
    ```
    """
    if len(found) != len(references) or not found:
        raise ValueError(
            "There must be as many alignments as references, and some. "
            f"Received: {len(found)} and {len(references)}"
        )
    links = sure_links = sure_hits = hits = 0
    for one, (sure, possible) in zip(found, references, strict=True):
        links, sure_links = links + len(one), sure_links + len(sure)
        sure_hits += len(one & sure)
        hits += len(one & (sure | possible))
    signature = f"lines:{len(found)}|sure:{sure_links}|found:{links}|zoo:{zoo.__version__}"
    scores = {
        "aer": 1 - _share(sure_hits + hits, links + sure_links),
        "precision": _share(hits, links),
        "recall": _share(sure_hits, sure_links),
    }
    return {
        name: {"score": 100 * score, "signature": f"{name}|{signature}"}
        for name, score in scores.items()
    }


def _share(part, whole):
    return part / whole if whole else 1.0  # of nothing, nothing is wrong


def parse_links(line):
    """The sure links of a line such as "0-0 1-2", as word aligners write it.

    Example:

    ```python
    from zoo.evaluation.alignment import parse_links, parse_reference

    assert parse_links("0-0 1-2") == {(0, 0), (1, 2)}
    assert parse_reference("0-0 1?2") == ({(0, 0)}, {(1, 2)})
    ```
    """
    sure, possible = parse_reference(line)
    if possible:
        raise ValueError(f"a possible link is no link that was found: {line!r}")
    return sure


def parse_reference(line):
    """The sure and the possible links of a line: "0-0" is sure, "0?0" and "0p0" are possible."""
    links = {"-": set(), "?": set(), "p": set()}
    for word in line.split():
        match = LINK.fullmatch(word)
        if not match:
            raise ValueError(
                "links must be positions from 0, source-target, such as 0-0 1-2. "
                f"Received: {word!r}"
            )
        links[match[2]].add((int(match[1]), int(match[3])))
    return links["-"], links["?"] | links["p"]


def format_links(links):
    """A set of links as a line that `parse_links` reads."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
