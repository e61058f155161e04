"""Data sets as tensorflow-datasets builders, and batches of few shapes from them."""

from zoo.data.batches import Batches
from zoo.data.builders import CmuDict, Multi30k, ParallelCorpus
from zoo.data.captions import load_captions, write_images
from zoo.data.examples import Examples, load_examples
from zoo.data.pairs import Report, find_splits, read_pairs
from zoo.data.scan import Scan, load_commands
from zoo.data.scenes import Scenes, draw_scene
from zoo.data.sigmorphon2016 import Sigmorphon2016, load_inflections
from zoo.data.text_corpus import TextCorpus, load_text
from zoo.data.windows import Windows
