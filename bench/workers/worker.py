"""What all workers share: the work, and how the driver tells them to do it.

A worker is a program of one library, run by the Python of that library's environment:

    PYTHON bench/workers/NAME_worker.py '{"job": "train", "model": "bahdanau", ...}'

It builds what the spec asks for and says "ready"; then, for each line "run" on its input, it does
the work once and prints a line of JSON. Nothing here needs more than numpy.
"""

import concurrent.futures
import json
import os
import resource
import sys
import time

import numpy as np

VOCABULARY = 8000
THREADS = int(os.environ["OMP_NUM_THREADS"])  # of every library
PAD, START, END, UNKNOWN = 0, 1, 2, 3  # ids below 4 are no words


def sentences(count, seed=0):
    """Ids of pairs (source, target) as long as those of Multi30k, words drawn by Zipf's law.

    Its captions have 13 tokens on average with a deviation of 4, and the two lengths of a pair
    correlate with 0.87.
    """
    random = np.random.RandomState(seed)
    pairs = []
    for _ in range(count):
        a, b = random.normal(size=2)
        lengths = 13 + 4 * a, 13 + 4 * (0.87 * a + 0.49 * b)
        ids = [random.zipf(1.2, size=int(np.clip(n, 4, 32))) for n in lengths]
        pairs.append([4 + (x - 1) % (VOCABULARY - 4) for x in ids])
    return pairs


def pad(rows):
    padded = np.full((len(rows), max(map(len, rows))), PAD, "int32")
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def training_batches(spec):
    """Pairs of padded ids, targets with START and END, in batches of like length."""
    pairs = sorted(sentences(spec["batch"] * spec["batches"]), key=lambda pair: len(pair[0]))
    batches = []
    for i in range(0, len(pairs), spec["batch"]):
        chunk = pairs[i : i + spec["batch"]]
        targets = [[START, *target, END] for _, target in chunk]
        batches.append((pad([source for source, _ in chunk]), pad(targets)))
    return batches


def target_tokens(batches):
    return int(sum((target[:, 1:] != PAD).sum() for _, target in batches))


def texts(spec):
    """Lists of `batch` source texts, of like length: words are "w4", "w5", ..."""
    count = spec["batch"] * spec["batches"]
    pairs = sorted(sentences(count, seed=1), key=lambda pair: len(pair[0]))
    rows = [" ".join(f"w{i}" for i in source) for source, _ in pairs]
    return [rows[i : i + spec["batch"]] for i in range(0, count, spec["batch"])]


def searching(spec, search):
    """The work of `search(lines) -> texts` on all batches, `clients` of them at a time."""
    batches = texts(spec)
    pool = concurrent.futures.ThreadPoolExecutor(spec["clients"])

    def one(lines):
        began = time.perf_counter()
        found = search(lines)
        return time.perf_counter() - began, found

    def work():
        results = list(pool.map(one, batches))
        return {
            "sentences": sum(map(len, batches)),
            "each": [seconds for seconds, _ in results],
            "found": [text for _, found in results for text in found],
        }

    return work


WORDS = [f"w{i}" for i in range(4, VOCABULARY)]
IDS = {word: i for i, word in enumerate(WORDS, start=4)}


def encode(lines):
    """Texts to padded ids, for a library that has no tokenizer of its own in the measurement."""
    return pad([[IDS.get(word, UNKNOWN) for word in line.split()] for line in lines])


def decode(rows):
    """Ids to texts."""
    found = []
    for row in rows:
        row = list(row)
        row = row[: row.index(END)] if END in row else row
        found.append(" ".join(WORDS[i - 4] for i in row if i >= 4))
    return found


def limit(tensorflow, intra=THREADS):
    """TensorFlow works on THREADS operations at a time, each on `intra` threads."""
    tensorflow.config.threading.set_intra_op_parallelism_threads(intra)
    tensorflow.config.threading.set_inter_op_parallelism_threads(THREADS)


def serve(make):
    """Does what the driver says; `make(spec)` gives a function that does the work once.

    The function returns a dict, what it did, to which its seconds are added.
    """
    spec = json.loads(sys.argv[1])
    work = make(spec)
    _say({"ready": True, **{k: v for k, v in work().items() if k != "seconds"}})
    for line in sys.stdin:
        if line.strip() != "run":
            break
        began = time.perf_counter()
        done = work()
        _say({"seconds": time.perf_counter() - began, **done})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _say({"peak_mb": peak / 1024})


def _say(values):
    print("BENCH " + json.dumps(values), flush=True)
