"""CTranslate2 with the very weights of the zoo's Transformer."""

import json
import os
import sys

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


def convert(spec):
    own = specification(spec)
    own.validate()
    folder = spec["path"] + "/ctranslate2"
    os.mkdir(folder)
    own.save(folder)


def search_texts(spec):
    translator = ctranslate2.Translator(
        spec["path"] + "/ctranslate2",
        compute_type="float32",
        inter_threads=spec["clients"],
        intra_threads=worker.THREADS // spec["clients"],
    )

    def search(lines):
        results = translator.translate_batch(
            [line.split() for line in lines],
            beam_size=spec["beam"],
            max_decoding_length=spec["steps"],
            length_penalty=0,
            max_batch_size=0,
        )
        return [" ".join(result.hypotheses[0]) for result in results]

    return worker.searching(spec, search)


if __name__ == "__main__":
    if sys.argv[2:]:
        convert(json.loads(sys.argv[1]))
    else:
        worker.serve(search_texts)
