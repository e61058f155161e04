"""A SavedModel in a process that has TensorFlow, and nothing of the zoo."""

import pickle
import subprocess
import sys

import tensorflow as tf

from tests.tools import close

# What a server is: TensorFlow, the ops of tensorflow-text, and nothing of ours.
SERVER = """
import pickle, resource, sys
import tensorflow as tf
import tensorflow_text

folder, requests, results = sys.argv[1:]
signatures = tf.saved_model.load(folder).signatures
answers = []
for signature, columns in pickle.load(open(requests, "rb")):
    columns = {name: tf.constant(values, tf.string) for name, values in columns.items()}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = {k: v.numpy() for k, v in signatures[signature](**columns).items()}
    answer["megabytes"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    answers.append(answer)
assert not any(name.split(".")[0] == "zoo" for name in sys.modules)
pickle.dump(answers, open(results, "wb"))
"""


def serve(folder, requests, tmp_path):
    """Answers requests, a list of (signature, columns), in a process without the zoo."""
    (tmp_path / "requests").write_bytes(pickle.dumps(requests))
    arguments = [str(folder), str(tmp_path / "requests"), str(tmp_path / "results")]
    subprocess.run([sys.executable, "-c", SERVER, *arguments], check=True, cwd=tmp_path)
    return pickle.loads((tmp_path / "results").read_bytes())


def require_alike(pipeline, folder, texts, tmp_path):
    """The SavedModel in a folder answers as the pipeline: in all signatures, but for rounding.

    Returns what the pipeline says, and what `score` gives of the second of its answers.
    """
    said = pipeline(texts)
    targets = said["texts"][:, 1].numpy().tolist()
    requests = [
        ("serving_default", {"text": texts}),
        ("align", {"text": texts}),
        ("score", {"text": texts, "target": targets}),
    ]
    default, align, score = serve(folder, requests, tmp_path)
    for name in ("text", "texts"):
        assert default[name].tolist() == said[name].numpy().tolist()
    for name in ("score", "scores"):
        close(default[name], said[name], 1e-4)
    here = pipeline.align(tf.constant(texts))
    assert align["target_tokens"].tolist() == here["target_tokens"].numpy().tolist()
    close(align["alignments"], here["alignments"], 1e-4)
    close(score["log_prob"], pipeline.score(texts, targets)["log_prob"], 1e-4)
    return said, score
