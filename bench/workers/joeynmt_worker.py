"""JoeyNMT on PyTorch: its models from its own configuration, its training step, its search."""

from types import SimpleNamespace

import numpy as np
import torch
import worker
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

torch.set_num_threads(worker.THREADS)
UNKNOWN, PAD, START, END = range(4)  # its own order
FROM_OURS = np.arange(worker.VOCABULARY)
FROM_OURS[:4] = PAD, START, END, UNKNOWN


def vocabulary():
    special = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>", "sep": None}
    ids = {"unk": UNKNOWN, "pad": PAD, "bos": START, "eos": END, "sep": None}
    config = {f"{name}_token": token for name, token in special.items()}
    config |= {f"{name}_id": i for name, i in ids.items()}
    return Vocabulary(worker.WORDS, SimpleNamespace(**config, lang_tags=[]))


def model_of(spec):
    units = spec["units"]
    embeddings = {"embedding_dim": units, "scale": spec["model"] == "transformer"}
    if spec["model"] == "transformer":
        sizes = {
            "type": "transformer",
            "num_layers": spec["layers"],
            "num_heads": 4,
            "hidden_size": units,
            "ff_size": 2 * units,
            "dropout": 0.0,
            "layer_norm": "pre",
            "embeddings": embeddings,
        }
        config = {"encoder": dict(sizes), "decoder": dict(sizes)}
    else:
        rnn = {
            "type": "recurrent",
            "rnn_type": "gru" if spec["model"] == "bahdanau" else "lstm",
            "hidden_size": units,
            "num_layers": 1,
            "embeddings": embeddings,
        }
        config = {
            "encoder": {**rnn, "bidirectional": True},
            "decoder": {**rnn, "attention": spec["model"], "init_hidden": "bridge"},
        }
    words = vocabulary()
    return build_model(config, src_vocab=words, trg_vocab=words)


def batch_of(source, target=None):
    source = torch.from_numpy(FROM_OURS[source])
    lengths = (source != PAD).sum(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    target = None if target is None else torch.from_numpy(FROM_OURS[target])[order]
    batch = Batch(
        src=source[order],
        src_length=lengths[order],
        src_prompt_mask=None,
        trg=target,
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=END,
    )
    return batch, order


def train(spec):
    model = model_of(spec)
    model.loss_function = ("crossentropy", 0.0)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    batches = worker.training_batches(spec)
    own = [batch_of(source, target)[0] for source, target in batches]

    def work():
        for batch in own:
            optimizer.zero_grad()
            loss, *_ = model(return_type="loss", **vars(batch))
            loss = batch.normalize(loss, "tokens")
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        float(loss)
        return {"tokens": worker.target_tokens(batches)}

    return work


def search_texts(spec):
    model = model_of(spec)
    model.eval()

    def search_lines(lines):
        batch, order = batch_of(worker.encode(lines))
        tokens, *_ = search(
            model,
            batch,
            max_output_length=spec["steps"],
            min_output_length=spec["steps"],
            beam_size=spec["beam"],
            beam_alpha=0.0,
        )
        return worker.decode(tokens[np.argsort(order.numpy())])

    return worker.searching(spec, search_lines)


if __name__ == "__main__":
    worker.serve(lambda spec: {"train": train, "search": search_texts}[spec["job"]](spec))
