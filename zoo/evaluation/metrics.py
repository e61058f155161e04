"""How good hypotheses are, beside one or more references each."""

from importlib import metadata

import sacrebleu
from rouge_score import rouge_scorer
from sacremoses import MosesPunctNormalizer, MosesTokenizer

import zoo


def evaluate(hypotheses, references, metrics):
    """Scores hypotheses by several metrics.

    Arguments:
        hypotheses: list of str.
        references: list of lists of str: all that would be right.
        metrics: names out of `METRICS`:
            "wer": per cent of lines that equal no reference.
            "accuracy": 100 - wer.
            "per": per cent of edits (insertions, deletions, substitutions) over symbols between
                spaces, against the reference with the lowest ratio, summed over lines.
            "edit_distance": edits of characters, those to the nearest reference, a line.
            "bleu", "chrf": sacreBLEU's, on detokenised text.
            "rouge1", "rouge2", "rougeL": per cent of words, of pairs of words, of words in the
                longest common subsequence (Lin 2004): F1 of each line, beside its nearest
                reference, in the mean. Those of the package rouge-score: stems of words in lower
                case, of letters from a to z and digits alone.

    Returns {metric: {"score": float, "signature": str}}. Two scores compare only if their
    signatures agree.

    Example:

    ```python
    from zoo.evaluation.metrics import evaluate

    scores = evaluate(["K AE T", "D AO"], [["K AE T"], ["D AO G", "D AA G"]], ["wer", "per"])
    assert scores["wer"]["score"] == 50.0
    assert scores["per"]["score"] == 100 * 1 / 6
    ```
    """
    if len(hypotheses) != len(references) or not hypotheses:
        raise ValueError(
            "There must be as many hypotheses as references, and some. "
            f"Received: {len(hypotheses)} and {len(references)}"
        )
    empty = next((i for i, refs in enumerate(references, 1) if not refs), None)
    if empty is not None:
        raise ValueError(f"Each line needs a reference. Received: none for line {empty}")
    unknown = [metric for metric in metrics if metric not in METRICS]
    if unknown:
        raise ValueError(f"`metrics` must be out of {sorted(METRICS)}. Received: {unknown}")
    return {metric: METRICS[metric](hypotheses, references) for metric in metrics}


def comparable_bleu(hypotheses, references, language):
    """BLEU as published tables have it: of words in lower case, split by Moses' tokenizer.

    Arguments:
        hypotheses: list of str, as a model gives them: they are normalised, lower-cased and
            tokenised here.
        references: list of lists of str, which are so already ("lc.norm.tok").
        language: str such as "de", of all of them.

    Returns {"score": float, "signature": str}.

    Example:

    ```python
    from zoo.evaluation.metrics import comparable_bleu

    references = [["ein mann fährt auf einem fahrrad ."]]
    assert comparable_bleu(["Ein Mann fährt auf einem Fahrrad."], references, "de")["score"] > 99.9
    ```
    """
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    lowered = [normalizer.normalize(hypothesis).lower() for hypothesis in hypotheses]
    tokens = [tokenizer.tokenize(hypothesis, return_str=True) for hypothesis in lowered]
    bleu = sacrebleu.BLEU(tokenize="none", force=True)  # force: it is meant to be tokenised
    result = _sacrebleu(bleu)(tokens, references)
    how = f"case:lc|tok:moses-{language}-sacremoses-{metadata.version('sacremoses')}"
    signature = result["signature"].replace("case:mixed", how).replace("|tok:none", "")
    return {"score": result["score"], "signature": signature}


def edit_distance(one, other):
    """The least number of insertions, deletions and substitutions between two sequences."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def _wer(hypotheses, references):
    wrong = sum(
        h.split() not in [r.split() for r in refs] for h, refs in _zip(hypotheses, references)
    )
    return _result(100 * wrong / len(hypotheses), "wer", references)


def _accuracy(hypotheses, references):
    return _result(100 - _wer(hypotheses, references)["score"], "accuracy", references)


def _per(hypotheses, references):
    edits = symbols = 0
    for hypothesis, refs in _zip(hypotheses, references):
        hypothesis, refs = hypothesis.split(), [reference.split() for reference in refs]
        counts = [(edit_distance(hypothesis, reference), len(reference)) for reference in refs]
        best = min(counts, key=lambda count: count[0] / max(count[1], 1))
        edits, symbols = edits + best[0], symbols + best[1]
    return _result(100 * edits / max(symbols, 1), "per", references)


def _edit_distance(hypotheses, references):
    pairs = _zip(hypotheses, references)
    edits = sum(min(edit_distance(h, reference) for reference in refs) for h, refs in pairs)
    return _result(edits / len(hypotheses), "edit_distance", references)


def _sacrebleu(metric):
    def score(hypotheses, references):
        most = max(len(refs) for refs in references)
        streams = [[refs[i] if i < len(refs) else None for refs in references] for i in range(most)]
        score = metric.corpus_score(hypotheses, streams).score
        return {"score": score, "signature": str(metric.get_signature())}

    return score


def _rouge(name):
    def score(hypotheses, references):
        scorer = rouge_scorer.RougeScorer([name], use_stemmer=True)
        total = sum(
            max(scorer.score(reference, hypothesis)[name].fmeasure for reference in refs)
            for hypothesis, refs in _zip(hypotheses, references)
        )
        how = f"stemmer:yes|rouge-score:{metadata.version('rouge-score')}"
        return _result(100 * total / len(hypotheses), f"{name}|{how}", references)

    return score


def _zip(hypotheses, references):
    return zip(hypotheses, references, strict=True)


def _result(score, name, references):
    counts = {len(refs) for refs in references}
    count = counts.pop() if len(counts) == 1 else "var"
    signature = f"{name}|lines:{len(references)}|refs:{count}|zoo:{zoo.__version__}"
    return {"score": score, "signature": signature}


METRICS = {
    "wer": _wer,
    "accuracy": _accuracy,
    "per": _per,
    "edit_distance": _edit_distance,
    "bleu": _sacrebleu(sacrebleu.BLEU()),
    "chrf": _sacrebleu(sacrebleu.CHRF()),
    "rouge1": _rouge("rouge1"),
    "rouge2": _rouge("rouge2"),
    "rougeL": _rouge("rougeL"),
}

LOWER_IS_BETTER = ("wer", "per", "edit_distance", "perplexity")
