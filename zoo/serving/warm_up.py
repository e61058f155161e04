"""The requests with which TF Serving warms up a version, before it takes others."""

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

WARM_UP = "assets.extra/tf_serving_warmup_requests"  # in the version's folder
DEFAULT = "serving_default"  # the signature of a request that names none


def read_warm_up(folder):
    """Yields the PredictRequests of a version's folder."""
    for record in tf.data.TFRecordDataset(str(folder / WARM_UP)).as_numpy_iterator():
        yield prediction_log_pb2.PredictionLog.FromString(record).predict_log.request


def write_warm_up(folder, requests):
    """Writes PredictRequests into a version's folder."""
    (folder / WARM_UP).parent.mkdir()
    with tf.io.TFRecordWriter(str(folder / WARM_UP)) as writer:
        for request in requests:
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
