import tensorflow as tf

ROWS = 8  # whose logits are there at once: those of a large batch of long texts are gigabytes


def log_probs_of(model, inputs, labels):
    """The log-probability (rows,) of labels (rows, time) behind inputs, in the graph.

    Arguments:
        model: a `LanguageModel`.
        inputs: (rows, time) ids, one row at least.
        labels: (rows, time) ids, 0 where nothing is asked.
    """
    rows, time = tf.unstack(tf.shape(inputs))
    count = tf.minimum(rows, ROWS)
    missing = -rows % count
    groups = [
        tf.reshape(tf.pad(ids, ((0, missing), (0, 0))), (-1, count, time))
        for ids in (inputs, labels)
    ]

    def of_group(group):
        inputs, labels = group
        logits = tf.cast(model({"target": inputs}), tf.float32)
        log_probs = tf.gather(logits, labels, axis=2, batch_dims=2)
        log_probs -= tf.reduce_logsumexp(logits, axis=2)
        return tf.reduce_sum(tf.where(labels != 0, log_probs, 0.0), axis=1)

    at_once = 1 if tf.executing_eagerly() else 2  # groups
    spec = tf.TensorSpec((None,), tf.float32)
    log_probs = tf.map_fn(of_group, groups, parallel_iterations=at_once, fn_output_signature=spec)
    return tf.reshape(log_probs, (-1,))[:rows]
