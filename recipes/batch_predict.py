"""Answers to the lines of many files, on many machines: `zoo predict` as an Apache Beam pipeline.

    pip install 'keras-zoo[beam]'
    python recipes/batch_predict.py saved_models/pronounce_en \\
        --input 'words/*.txt' --output out/prons

On this machine that is, by Beam's DirectRunner. What the recipe does not know are Beam's options:

    ... --runner DataflowRunner --project P --region R --temp_location gs://B/tmp \\
        --sdk_container_image gcr.io/P/zoo          # and gs://B/words/*.txt, gs://B/out/prons
    ... --runner FlinkRunner --flink_master HOST:8081 --environment_type EXTERNAL \\
        --environment_config HOST:50000             # where a pool of Python workers listens
    ... --runner SparkRunner --spark_master_url spark://HOST:7077

Workers need the zoo, Beam, and the SavedModel at the same path as here: an image with all three.

It writes out/prons-00000-00000.txt and so on, by the number of the file in the order of names and
by the part of that file: `cat out/prons-*` is what `zoo predict` prints for all their lines.
"""

import argparse
import functools
import pathlib
import uuid

from zoo.data.lines import decode_lines
from zoo.errors import UsageError
from zoo.serving.offline import (
    answer_lines,
    batches_by_length,
    read_answers,
    require_possible,
    split_windows,
)

SHARD_LINES = 2**17  # of input, in a file of output; they are sorted in memory


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("saved_model", help="saved_models/NAME, or a version's folder")
    parser.add_argument("--input", required=True, help="a file of texts or a glob; .gz is read too")
    parser.add_argument("--output", required=True, help="how the names of the outputs begin")
    parser.add_argument("--n-best", type=int, default=1, help="answers to each, as of zoo predict")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each text")
    parser.add_argument("--batch-size", type=int, default=64, help="texts searched at once")
    options, beam_options = parser.parse_known_args(arguments)
    try:
        import apache_beam as beam
    except ImportError:
        parser.error("apache-beam is not installed: pip install 'keras-zoo[beam]'")
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.ml.inference.base import KeyedModelHandler, RunInference
    from apache_beam.options.pipeline_options import PipelineOptions

    from zoo.serving.run_inference import SavedModelHandler
    from zoo.serving.saved_model import find_version, read_about

    files = sorted(file.path for file in FileSystems.match([options.input])[0].metadata_list)
    if not files:
        parser.error(f"no file is named like --input {options.input}")
    if FileSystems.match([f"{options.output}-*"])[0].metadata_list:
        parser.error(f"there are files {options.output}-* already: name another --output")
    version = find_version(options.saved_model).resolve()
    most = read_about(version)["pipeline"]["search"]["num_results"]
    try:
        require_possible(options.n_best, options.batch_size, most, version)
    except UsageError as error:
        parser.error(str(error))
    handler = KeyedModelHandler(SavedModelHandler(version))
    read = functools.partial(read_batches, batch_size=options.batch_size)
    about = {"output": options.output, "n_best": options.n_best, "as_json": options.json}
    write = functools.partial(write_shard, **about)
    with beam.Pipeline(options=PipelineOptions(beam_options)) as pipeline:
        _ = (
            pipeline
            | "Files" >> beam.Create(list(enumerate(files)))
            | "Read" >> beam.FlatMapTuple(read)
            | "Spread over workers" >> beam.Reshuffle()
            | "Predict" >> RunInference(handler)
            | "Put lines to answers" >> beam.MapTuple(answers_of_batch)
            | "Collect" >> beam.GroupByKey()
            | "Write" >> beam.MapTuple(write)
        )


def read_batches(number, file, batch_size):
    """Yields ((number of the file, ((line number, line), ...)), texts) for each batch of a file.

    The batches are those of `zoo predict`, whose answers are therefore the same to the last digit.
    """
    from apache_beam.io.filesystems import FileSystems

    start = 0
    with FileSystems.open(file) as opened:  # .gz is known by its name
        lines = iter(opened.readline, b"")
        for window in split_windows(decode_lines(lines, file)):
            for batch in batches_by_length(window, batch_size):
                key = (number, tuple((start + i, window[i]) for i in batch))
                yield key, [window[i] for i in batch]
            start += len(window)


def answers_of_batch(key, result):
    """The batch as ((number of the file, of the shard), rows); all its lines are in one shard."""
    number, lines = key
    rows = [
        (i, line, *answer) for (i, line), answer in zip(lines, read_answers(result), strict=True)
    ]
    return (number, lines[0][0] // SHARD_LINES), rows


def write_shard(key, batches, output, n_best, as_json):
    """Writes the lines of a shard in their order; a shard is there as a whole or not at all."""
    from apache_beam.io.filesystems import FileSystems

    number, shard = key
    rows = sorted(row for batch in batches for row in batch)
    name = f"{output}-{number:05d}-{shard:05d}.txt"
    part = f"{output}.part-{uuid.uuid4().hex}"  # a runner may try twice at the same time
    if "://" not in output:
        pathlib.Path(output).parent.mkdir(parents=True, exist_ok=True)
    with FileSystems.create(part) as file:
        for _, line, texts, scores in rows:
            file.write(answer_lines(line, texts, scores, n_best, as_json).encode("utf-8"))
    FileSystems.rename([part], [name])


if __name__ == "__main__":
    main()
