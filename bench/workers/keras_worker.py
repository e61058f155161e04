"""Plain Keras 3, as its user would write it: a cell with attention in `keras.layers.RNN`, the
optimizer and `train_on_batch` of Keras, and KerasHub's BeamSampler."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import worker
from keras import layers, ops


class Cell(layers.Layer):
    """A GRU or LSTM cell that looks at a memory, which goes along among its states."""

    def __init__(self, kind, units):
        super().__init__()
        self.kind, self.units = kind, units
        self.inner = layers.GRUCell(units) if kind == "bahdanau" else layers.LSTMCell(units)
        self.sizes = [units] if kind == "bahdanau" else [units, units]
        self.query = layers.Dense(units, use_bias=False)
        self.score = layers.Dense(1, use_bias=False)
        self.join = layers.Dense(units, activation="tanh")
        self.state_size = [*self.sizes, units, 0, 0, 0]  # fed, keys, values, mask

    def build(self, shape):
        units = self.units
        self.inner.build((None, shape[-1] + (2 if self.kind == "bahdanau" else 1) * units))
        self.query.build((None, units))
        self.score.build((None, None, units))
        self.join.build((None, 3 * units))
        self.built = True

    def call(self, inputs, states):
        *inner, fed, keys, values, mask = states
        if self.kind == "bahdanau":
            context = self.look(inner[0], keys, values, mask)
            output, inner = self.inner(ops.concatenate([context, inputs], -1), inner)
        else:
            output, inner = self.inner(ops.concatenate([inputs, fed], -1), inner)
            context = self.look(output, keys, values, mask)
            output = fed = self.join(ops.concatenate([output, context], -1))
        inner = inner if isinstance(inner, list) else list(inner)
        return output, [*inner, fed, keys, values, mask]

    def look(self, query, keys, values, mask):
        query = self.query(query)[:, None]
        if self.kind == "bahdanau":
            scores = self.score(ops.tanh(query + keys))[..., 0]
        else:
            scores = ops.sum(query * keys, axis=-1)
        weights = ops.softmax(scores + (mask - 1.0) * 1e9)
        return ops.sum(weights[..., None] * values, axis=1)


class Model(keras.Model):
    def __init__(self, kind, units):
        super().__init__()
        self.kind, self.units = kind, units
        rnn = layers.GRU if kind == "bahdanau" else layers.LSTM
        self.source_embedding = layers.Embedding(worker.VOCABULARY, units, mask_zero=True)
        self.target_embedding = layers.Embedding(worker.VOCABULARY, units)
        self.encoder = layers.Bidirectional(rnn(units, return_sequences=True, return_state=True))
        self.keys = layers.Dense(units, use_bias=False)
        self.cell = Cell(kind, units)
        self.rnn = layers.RNN(self.cell, return_sequences=True)
        self.bridge = layers.Dense(units * len(self.cell.sizes), activation="tanh")
        self.output_dense = layers.Dense(worker.VOCABULARY)

    def start(self, source):
        memory, *states = self.encoder(self.source_embedding(source))
        final = self.bridge(ops.concatenate(states, -1))
        inner = ops.split(final, len(self.cell.sizes), axis=-1)
        mask = ops.cast(ops.not_equal(source, 0), "float32")
        return [*inner, ops.zeros_like(inner[0]), self.keys(memory), memory, mask]

    def call(self, inputs):
        state = self.start(inputs["source"])
        outputs = self.rnn(self.target_embedding(inputs["target"]), initial_state=state)
        return self.output_dense(outputs)


def train(spec):
    model = Model(spec["model"], spec["units"])
    optimizer = keras.optimizers.Adam(1e-3, beta_2=0.98, global_clipnorm=1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=worker.PAD)
    model.compile(optimizer, loss)
    batches = worker.training_batches(spec)

    def work():
        for source, target in batches:
            model.train_on_batch({"source": source, "target": target[:, :-1]}, target[:, 1:])
        return {"tokens": worker.target_tokens(batches)}

    return work


def search_texts(spec):
    model = Model(spec["model"], spec["units"])
    model({"source": np.array([[4, 5]]), "target": np.array([[1, 4]])})
    model.output_dense.bias.assign(np.where(np.arange(worker.VOCABULARY) == worker.END, -30.0, 0.0))
    sampler = keras_hub.samplers.BeamSampler(num_beams=spec["beam"])

    def following(prompt, cache, index):
        embedded = model.target_embedding(prompt[:, index - 1])
        output, state = model.cell(embedded, cache)
        return model.output_dense(output), None, state

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
    def search(source):
        starts = tf.fill([tf.shape(source)[0], 1], worker.START)
        prompt = tf.pad(starts, ((0, 0), (0, spec["steps"])))
        prompt = tf.ensure_shape(prompt, (None, spec["steps"] + 1))
        found = sampler(
            next=following,
            prompt=prompt,
            cache=model.start(source),
            index=1,
            mask=tf.not_equal(prompt, 0),
            stop_token_ids=[worker.END],
        )
        return found[:, 1:]

    return worker.searching(
        spec, lambda lines: worker.decode(search(tf.constant(worker.encode(lines))).numpy())
    )


if __name__ == "__main__":
    worker.limit(tf)
    worker.serve(lambda spec: {"train": train, "search": search_texts}[spec["job"]](spec))
