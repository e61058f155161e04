"""TensorFlow Addons: AttentionWrapper, BasicDecoder and BeamSearchDecoder, as in its tutorial.

Two deviations, in its favour: the graph is compiled once for all shapes (by its input signature),
and the output layer of a training runs on all steps at once, after the loop.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_addons as tfa
import worker

IDS = tf.TensorSpec((None, None), tf.int32)


class Model(tf.Module):
    def __init__(self, kind, units):
        super().__init__()
        self.units, self.kind = units, kind
        layers = tf.keras.layers
        rnn = layers.GRU if kind == "bahdanau" else layers.LSTM
        self.source_embedding = layers.Embedding(worker.VOCABULARY, units, mask_zero=True)
        self.target_embedding = layers.Embedding(worker.VOCABULARY, units)
        self.encoder = layers.Bidirectional(rnn(units, return_sequences=True, return_state=True))
        self.output_dense = layers.Dense(worker.VOCABULARY)
        if kind == "bahdanau":
            self.attention = tfa.seq2seq.BahdanauAttention(units)
            cell = layers.GRUCell(units)
        else:
            self.attention = tfa.seq2seq.LuongAttention(units)
            cell = layers.LSTMCell(units)
        self.cell = tfa.seq2seq.AttentionWrapper(cell, self.attention, attention_layer_size=units)
        self.bridge = layers.Dense(units * (1 if kind == "bahdanau" else 2), activation="tanh")
        sampler = tfa.seq2seq.sampler.TrainingSampler()
        self.decoder = tfa.seq2seq.BasicDecoder(self.cell, sampler)

    def encode(self, source):
        embedded = self.source_embedding(source)
        memory, *states = self.encoder(embedded, mask=tf.not_equal(source, worker.PAD))
        final = self.bridge(tf.concat(states, axis=-1))
        state = final if self.kind == "bahdanau" else tf.split(final, 2, axis=-1)
        return memory, state, tf.math.count_nonzero(source, axis=1, dtype=tf.int32)

    def logits(self, source, target):
        memory, state, lengths = self.encode(source)
        self.attention.setup_memory(memory, memory_sequence_length=lengths)
        start = self.cell.get_initial_state(batch_size=tf.shape(source)[0], dtype=tf.float32)
        steps = tf.fill([tf.shape(target)[0]], tf.shape(target)[1])
        outputs, _, _ = self.decoder(
            self.target_embedding(target),
            initial_state=start.clone(cell_state=state),
            sequence_length=steps,
        )
        return self.output_dense(outputs.rnn_output)

    def search(self, source, beam, steps):
        memory, state, lengths = self.encode(source)
        tile = tfa.seq2seq.tile_batch
        self.attention.setup_memory(tile(memory, beam), memory_sequence_length=tile(lengths, beam))
        batch = tf.shape(source)[0]
        start = self.cell.get_initial_state(batch_size=batch * beam, dtype=tf.float32)
        state = tf.nest.map_structure(lambda x: tile(x, beam), state)
        decoder = tfa.seq2seq.BeamSearchDecoder(
            self.cell, beam, output_layer=self.output_dense, maximum_iterations=steps
        )
        outputs, _, _ = decoder(
            self.target_embedding.embeddings,
            start_tokens=tf.fill([batch], worker.START),
            end_token=worker.END,
            initial_state=start.clone(cell_state=state),
        )
        return outputs.predicted_ids[:, :, 0]


def train(spec):
    model = Model(spec["model"], spec["units"])
    batches = worker.training_batches(spec)
    optimizer = tf.keras.optimizers.Adam(1e-3, beta_2=0.98)

    @tf.function(input_signature=[IDS, IDS])
    def step(source, target):
        labels = target[:, 1:]
        with tf.GradientTape() as tape:
            logits = model.logits(source, target[:, :-1])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            mask = tf.cast(labels != worker.PAD, tf.float32)
            loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
        variables = model.trainable_variables
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    model.logits(*(tf.constant(x[:2]) for x in batches[0]))
    optimizer.build(model.trainable_variables)
    tensors = [(tf.constant(source), tf.constant(target)) for source, target in batches]

    def work():
        for source, target in tensors:
            loss = step(source, target)
        float(loss)
        return {"tokens": worker.target_tokens(batches)}

    return work


def search_texts(spec):
    model = Model(spec["model"], spec["units"])
    model.logits(tf.constant([[4, 5]]), tf.constant([[1, 4]]))
    kernel, bias = model.output_dense.get_weights()
    bias[worker.END] = -30.0  # all write `steps` words
    model.output_dense.set_weights([kernel, bias])

    @tf.function(input_signature=[IDS])
    def search(source):
        return model.search(source, spec["beam"], spec["steps"])

    return worker.searching(
        spec, lambda lines: worker.decode(search(tf.constant(worker.encode(lines))).numpy())
    )


if __name__ == "__main__":
    worker.limit(tf)
    worker.serve(lambda spec: {"train": train, "search": search_texts}[spec["job"]](spec))
