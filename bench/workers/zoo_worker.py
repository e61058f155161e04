"""The zoo: training steps, and the SavedModels that others search with."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
import worker

import zoo
from zoo.serving import Pipeline
from zoo.serving.export import export
from zoo.text import SymbolTokenizer
from zoo.training.settings import Settings
from zoo.training.trainer import Trainer


def model_of(spec):
    vocabulary, units = spec.get("vocabulary", worker.VOCABULARY), spec["units"]
    if spec["model"] == "transformer":
        sizes = {
            "dim": units,
            "num_layers": spec["layers"],
            "num_heads": 4,
            "feedforward_dim": 2 * units,
        }
        encoder = zoo.TransformerEncoder(vocabulary, **sizes)
        return zoo.Seq2Seq(encoder, zoo.TransformerDecoder(vocabulary, **sizes))
    if spec["model"] == "bahdanau":
        kind, inner = "gru", keras.layers.GRUCell(units)
        cell = zoo.AttentionCell(inner, zoo.BahdanauAttention(units), query="previous_state")
    else:
        kind, inner = "lstm", keras.layers.LSTMCell(units)
        attention = zoo.LuongAttention("general")
        cell = zoo.AttentionCell(inner, attention, units, activation="tanh")
    encoder = zoo.RecurrentEncoder(vocabulary, units, units, cell=kind, bidirectional=True)
    return zoo.Seq2Seq(encoder, zoo.RecurrentDecoder(vocabulary, units, cell))


def train(spec):
    keras.config.set_dtype_policy(spec.get("policy", "float32"))
    model = model_of(spec)
    batches = worker.training_batches(spec)
    ids = np.ones((1, 2), "int32")
    model({"source": ids, "target": ids})
    settings = Settings(output="none", learning_rate=1e-3, label_smoothing=0.0)
    trainer = Trainer(model, settings, total_steps=1000)
    tensors = [{"source": tf.constant(s), "target": tf.constant(t)} for s, t in batches]

    def work():
        for batch in tensors:
            loss, *_ = trainer.step(batch)
        float(loss)
        return {"tokens": worker.target_tokens(batches)}

    return work


def save(spec, path):
    """A SavedModel that never ends a sentence of itself: all write `steps` words."""
    keras.utils.set_random_seed(1)
    tokenizer = SymbolTokenizer(worker.WORDS)
    search = {"beam_width": spec["beam"], "max_length": spec["steps"], "num_results": 1}
    pipeline = Pipeline(model_of(spec), tokenizer, tokenizer, search, max_source_length=64)
    bias = pipeline.model.decoder.output_dense.bias
    bias.assign(np.where(np.arange(bias.shape[0]) == worker.END, -30.0, 0.0))
    export(pipeline, path, examples=["w4 w5"])
    if spec["model"] == "transformer":
        write_weights(pipeline.model, path + "/weights.npz")


def write_weights(model, path):
    """The arrays of a Transformer by the names of its layers, for other libraries."""
    arrays = {
        variable.path.split("/", 1)[1]: variable.numpy()
        for variable in model.weights
        if "seed_generator" not in variable.path
    }
    encodings = model.encoder.embed.encode(np.arange(512))
    np.savez(path, positions=keras.ops.convert_to_numpy(encodings), **arrays)


def products(spec):
    """The matrix products of a step of the Luong model, each alone at the rate of its shape.

    Each core has a part of the batch (`Trainer.parts`) and makes its products on one thread.
    """
    units, length = spec["units"], spec["source_length"]
    vocabulary, gates = worker.VOCABULARY, 4 * spec["units"]
    model = model_of(spec)
    ids = np.random.RandomState(0).randint(4, vocabulary, (spec["batch"], length + 1))
    data = {"source": tf.constant(ids[:, 1:], tf.int32), "target": tf.constant(ids, tf.int32)}
    model({"source": data["source"], "target": data["target"][:, :-1]})
    trainer = Trainer(model, Settings(output="none", label_smoothing=0.0), total_steps=1000)
    batch = spec["batch"] // trainer.parts
    rows = batch * length
    forward = [  # loops, steps, rows of a step, columns within, columns
        (2, length, batch, 2 * units, gates),  # encoder: both directions, of input and state
        (1, length, batch, 3 * units, gates),  # decoder: embedding, fed output and state
        (1, length, batch, 3 * units, units),  # output and context
        (1, 1, rows, 2 * units, units),  # the keys
        (1, 1, rows, units, vocabulary),
    ]
    all_products = []
    for loops, steps, m, k, n in forward:
        # A gradient goes back in each step, that of the weights is taken of all steps together.
        count = loops * steps
        all_products += [(count, m, k, n), (count, m, n, k), (loops, k, steps * m, n)]
    seconds = {}
    for m, k, n in {tuple(shape) for _, *shape in all_products}:
        a, b = tf.random.normal((m, k)), tf.random.normal((k, n))
        times = []
        for _ in range(12):
            began = worker.time.perf_counter()
            tf.matmul(a, b)
            times.append(worker.time.perf_counter() - began)
        seconds[m, k, n] = float(np.median(times))
    total = sum(count * seconds[tuple(shape)] for count, *shape in all_products)
    gigaflops = trainer.parts * sum(2e-9 * c * m * k * n for c, m, k, n in all_products)

    def work():
        float(trainer.step(data)[0])
        return {"products": total, "gigaflops": gigaflops}

    return work


if __name__ == "__main__":
    worker.limit(tf, intra=1)  # as `zoo train` does
    if sys.argv[2:]:
        save(worker.json.loads(sys.argv[1]), sys.argv[2])
    else:
        worker.serve(lambda spec: {"train": train, "products": products}[spec["job"]](spec))
