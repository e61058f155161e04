"""CTranslate2 with the very weights of the zoo's Transformer."""

import concurrent.futures
import tempfile

import ctranslate2
import numpy as np
import worker
from ctranslate2.specs import TransformerSpec

TOKENS = ["<pad>", "<s>", "</s>", "<unk>", *worker.WORDS]


def specification(spec):
    arrays = np.load(spec["path"] + "/weights.npz")
    own = TransformerSpec.from_config((spec["layers"], spec["layers"]), 4, pre_norm=True)
    own.config.layer_norm_epsilon = 1e-6
    for side, part in (("encoder", own.encoder), ("decoder", own.decoder)):

        def get(name, prefix=f"transformer_{side}"):
            return arrays[f"{prefix}/{name}"]

        def norm(target, name):
            target.gamma, target.beta = get(f"{name}/gamma"), get(f"{name}/beta")

        def linear(target, *names):
            target.weight = np.concatenate([get(f"{n}/kernel").T for n in names])
            target.bias = np.concatenate([get(f"{n}/bias") for n in names])

        embeddings = part.embeddings[0] if side == "encoder" else part.embeddings
        embeddings.weight = get("embed/embedding/embeddings")
        part.scale_embeddings = True
        part.position_encodings.encodings = arrays["positions"]
        norm(part.layer_norm, "norm")
        for i, layer in enumerate(part.layer):
            norm(layer.self_attention.layer_norm, f"block_{i}/self_norm")
            names = [f"block_{i}/self_attention/{n}" for n in ("query", "key", "value", "output")]
            linear(layer.self_attention.linear[0], *names[:3])
            linear(layer.self_attention.linear[1], names[3])
            if side == "decoder":
                norm(layer.attention.layer_norm, f"block_{i}/cross_norm")
                names = [name.replace("self_attention", "cross_attention") for name in names]
                linear(layer.attention.linear[0], names[0])
                linear(layer.attention.linear[1], *names[1:3])
                linear(layer.attention.linear[2], names[3])
            norm(layer.ffn.layer_norm, f"block_{i}/feedforward_norm")
            linear(layer.ffn.linear_0, f"block_{i}/inner")
            linear(layer.ffn.linear_1, f"block_{i}/outer")
        if side == "decoder":
            linear(part.projection, "output_dense")
    own.register_source_vocabulary(TOKENS)
    own.register_target_vocabulary(TOKENS)
    return own


def search_texts(spec):
    folder = tempfile.mkdtemp()
    own = specification(spec)
    own.validate()
    own.save(folder)
    clients = spec.get("clients", 1)
    translator = ctranslate2.Translator(
        folder, inter_threads=clients, intra_threads=worker.THREADS // clients
    )
    batches = worker.texts(spec)
    pool = concurrent.futures.ThreadPoolExecutor(clients)

    def one(lines):
        began = worker.time.perf_counter()
        results = translator.translate_batch(
            [line.split() for line in lines],
            beam_size=spec["beam"],
            max_decoding_length=spec["steps"],
            length_penalty=0,
            max_batch_size=0,
        )
        found = [" ".join(result.hypotheses[0]) for result in results]
        return worker.time.perf_counter() - began, found[0]

    def work():
        results = list(pool.map(one, batches))
        each = [seconds for seconds, _ in results]
        return {"sentences": spec["batch"] * len(batches), "each": each, "last": results[-1][1]}

    return work


if __name__ == "__main__":
    worker.serve(search_texts)
