"""Many clients at once, each of which checks its own answers.

    python -m tests.preview.load --clients 32 --seconds 60

Half of them speak REST, half gRPC. It prints requests, errors and the server's memory over time,
and fails on any error but the announced back-pressure, on a lost or swapped answer, and on memory
that grows by more than 5 % after the warm-up: 500 requests of one client, during which TensorFlow
meets the shapes that there are, and the first quarter of the time.
"""

import argparse
import collections
import pathlib
import random
import sys
import threading
import time

import grpc
import httpx2
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.preview.server import predict_request, running
from zoo.serving import SavedModel

WORDS = ["a", "cab", "bead", "decade", "facade", "fabled", "abc", "deed", "cafe", "ace", "café"]
WORDS += ["".join(random.Random(i).choices("abcdefgh", k=i % 12)) for i in range(60)]


def load(server, name, clients, seconds, known=None, report_every=None):
    """What happened: answers, refused, errors (list), memory (list of megabytes by time)."""
    known = known or _known_answers(server, name)
    end, lock = time.monotonic() + seconds, threading.Lock()
    counts, errors = collections.Counter(), []

    def client(number):
        rng = random.Random(number)
        ask = _rest_client(server, name) if number % 2 else _grpc_client(server, name)
        while time.monotonic() < end:
            words = rng.sample(WORDS, rng.randint(1, 8))
            try:
                answer = ask(words)
            except Exception as error:
                answer = error
            with lock:
                if answer is None:
                    counts["refused"] += 1
                elif isinstance(answer, Exception) or not _is_right(known, words, answer):
                    errors.append(f"{words}: {answer!r}")
                else:
                    counts["answers"] += 1
            if answer is None:
                time.sleep(rng.uniform(0.01, 0.1))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    memory = []
    while any(thread.is_alive() for thread in threads):
        memory.append(server.memory())
        if report_every and (len(memory) - 1) % (2 * report_every) == 0:
            said = ", ".join(f"{v} {k}" for k, v in counts.items())
            print(f"{end - time.monotonic():5.0f} s left: {said}, {len(errors)} errors, "
                  f"{memory[-1]:.0f} MB", flush=True)  # fmt: skip
        time.sleep(0.5)
    return {"answers": 0, "refused": 0, **counts, "errors": errors, "memory": memory}


def _known_answers(server, name):
    answers = {}
    for word in WORDS:  # one by one: what comes back in a batch is another matter
        code, answer = server.ask(f"/v1/models/{name}:predict", {"inputs": [word]})
        assert code == 200, answer
        answers[word] = (answer["outputs"]["texts"][0], answer["outputs"]["scores"][0])
    return answers


def _is_right(known, words, answer):
    if [len(column) for column in answer] != [len(words)] * 2:
        return False
    return all(
        texts == known[word][0] and np.allclose(scores, known[word][1], 1e-4, 1e-4)
        for word, texts, scores in zip(words, *answer, strict=True)
    )


def _rest_client(server, name):
    connection = httpx2.Client(timeout=60, verify=False)

    def ask(words):
        url = f"{server.url}/v1/models/{name}:predict"
        answer = connection.post(url, json={"inputs": {"text": words}})
        if answer.status_code == 429:
            return None
        outputs = answer.raise_for_status().json()["outputs"]
        return outputs["texts"], outputs["scores"]

    return ask


def _grpc_client(server, name):
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
    stub = prediction_service_pb2_grpc.PredictionServiceStub(
        grpc.insecure_channel(server.grpc, options)
    )

    def ask(words):
        try:
            outputs = stub.Predict(predict_request(name, text=words), 60).outputs
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                return None
            raise
        texts = tf.make_ndarray(outputs["texts"])
        return (
            [[text.decode() for text in row] for row in texts],
            tf.make_ndarray(outputs["scores"]).tolist(),
        )

    return ask


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--queue", type=int, default=16)
    parser.add_argument("--model", default="saved_models/pronounce_en")
    options = parser.parse_args()
    name = pathlib.Path(options.model).resolve().name
    model = SavedModel(options.model)
    answers = {word: model("serving_default", text=[word]) for word in WORDS}
    known = {
        word: ([text.decode() for text in answer["texts"][0]], answer["scores"][0])
        for word, answer in answers.items()
    }
    with running(options.model, "--queue", options.queue) as server:
        ask, rng = _rest_client(server, name), random.Random(0)
        for _ in range(500):
            ask(rng.sample(WORDS, rng.randint(1, 8)))
        report = load(server, name, options.clients, options.seconds, known, report_every=5)
        said = server.stop()
    warm, rest = np.split(np.array(report["memory"]), [len(report["memory"]) // 4])
    growth = rest.max() / warm[-1] - 1
    print(*report["errors"][:10], sep="\n")
    print(f"{report['answers']} right answers, {report['refused']} refused by a full queue, "
          f"{len(report['errors'])} errors; memory {warm[-1]:.0f} MB, then at most "
          f"{rest.max():.0f} MB ({growth:+.1%})", said.splitlines()[-1], sep="\n")  # fmt: skip
    sys.exit(bool(report["errors"] or growth > 0.05 or not report["answers"]))


if __name__ == "__main__":
    main()
