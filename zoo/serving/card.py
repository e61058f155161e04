# What a command line, and what JSON, has for a source, by the name of the input.
EXAMPLES = {
    "text": ("TEXT", '"TEXT"'),
    "image_bytes": ("IMAGE.jpg", """{"b64": "'$(base64 -w0 IMAGE.jpg)'"}"""),
}

# What comes behind the source.
SIGNATURES = {
    "serving_default": " to `text`, `score`, `texts`, `scores` (the n best)",
    "align": " to `source_tokens`, `target_tokens`, `alignments`",
    "score": ", `target` to `log_prob`",
}


def card(about, name, version, source="text", signatures=tuple(SIGNATURES)):
    """The model card in Markdown.

    Arguments:
        about: dict, what zoo.json says.
        name, version: str, of the SavedModel.
        source: str, the name of its input.
        signatures: the names of those that it has.
    """
    example, in_json = EXAMPLES[source]
    lines = [f"# {name}, version {version}", ""]
    if about.get("task"):
        lines += [about["task"], ""]
    if about.get("scores"):
        lines += ["| metric | dev | signature |", "|---|---|---|"]
        for metric, value in about["scores"].items():
            signature = value["signature"].replace("|", "\\|")  # a bar would end the cell
            lines.append(f"| {metric} | {value['score']:.2f} | {signature} |")
        lines.append("")
    search = ", ".join(f"{key} {value}" for key, value in about["pipeline"]["search"].items())
    lines += [
        f"Searched with {search}; {_reading(about['pipeline'], source)}."
        + (" Weights are stored as float16." if about["float16"] else ""),
        "",
    ]
    training = about.get("training", {})
    members = training.get("members", [training] if training else [])
    for i, one in enumerate(members, 1):
        lines += [f"## Training, member {i}" if len(members) > 1 else "## Training", ""]
        lines += [f"- {key.replace('_', ' ')}: {value}" for key, value in one.items()]
        lines.append("")
    data = about.get("data", {})
    if data:
        lines += ["## Data", ""]
        lines += [f"- {key.replace('_', ' ')}: {value}" for key, value in data.items()]
        kind = "text" if source == "text" else "picture"
        lines += ["", f"To a {kind} that is unlike these it may answer nonsense.", ""]
    lines += [
        "## Use",
        "",
        "```sh",
        f"zoo predict saved_models/{name} {example}",
        f"curl localhost:8501/v1/models/{name}:predict -d '{{\"inputs\": [{in_json}]}}'"
        "    # under TF Serving",
        "```",
        "",
        "Signatures (all rows of a batch are independent):",
        "",
        *[f"- `{one}`: `{source}`{SIGNATURES[one]}" for one in SIGNATURES if one in signatures],
        "",
        f"Made with keras-zoo {about['zoo']}; `zoo.load` gives the Keras model back.",
        "",
    ]
    return "\n".join(lines)


def _reading(pipeline, source):
    if source == "text":
        return f"sources are read up to {pipeline['max_source_length']} tokens"
    size = pipeline["source_tokenizer"]["size"]
    return f"images are read as {size} x {size} pixels"
