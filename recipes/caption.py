"""Captions: Show, Attend and Tell, on drawn scenes or on photos.

    zoo train caption --output runs/caption
    zoo export runs/caption --output saved_models/caption_scenes
    zoo predict saved_models/caption_scenes docs/scene.png
    zoo plot saved_models/caption_scenes docs/scene.png --output looked.png

A convolutional network leaves a grid of vectors behind, one for each patch of the picture. An LSTM
looks at the grid with Bahdanau's attention, takes its step, and writes a word (Xu et al. 2015).

The scenes are coloured shapes, such as "two red circles left of a blue square". Dev scenes of two
groups ask for combinations of numbers, colours, shapes and places that training never had. Photos
want a network that has learnt to see before:

    zoo train caption --data tfds:coco_captions --backbone VGG16 --output runs/coco

What others reach on COCO's photos (BLEU-4, several references each):

    attention to the places of VGG's grid (Xu et al. 2015)          24.3
    attention to the boxes of a detector (Anderson et al. 2018)     36.2
"""

import dataclasses
import sys
from typing import Literal

import keras

import zoo
from zoo.cli import main
from zoo.data import load_captions
from zoo.errors import first_line
from zoo.image import ImageReader
from zoo.serving import Pipeline
from zoo.text import SentencePieceTokenizer, SymbolTokenizer
from zoo.training.learn import learn
from zoo.training.settings import SearchSettings

# How pixels reach networks of keras.applications; the others have "tf".
SCALINGS = {
    **dict.fromkeys(["VGG16", "VGG19", "ResNet50", "ResNet101", "ResNet152"], "caffe"),
    **dict.fromkeys(["DenseNet121", "DenseNet169", "DenseNet201"], "torch"),
}
UNSCALED = ("EfficientNet", "MobileNetV3", "ConvNeXt")  # take them from 0 to 255


@dataclasses.dataclass(kw_only=True)
class Config(SearchSettings):
    """Captions: a picture, what is in it."""

    data: str = "scenes"
    """scenes, which are drawn (scenes:NUMBER for so many of them); a folder with train.tsv and
    dev.tsv: the name of an image file, a tab, its caption, perhaps more; or tfds:coco_captions."""
    backbone: str | None = None
    """Network of keras.applications, such as VGG16; without it a small one learns with the rest."""
    weights: Literal["imagenet", "none"] = "imagenet"
    """Of the backbone: those that it has from ImageNet, which are downloaded, or new ones."""
    train_backbone: bool = False
    """Trains the backbone too."""
    size: int | None = None
    """Pixels of the square that a picture is read into. By default 64, and 224 for a backbone."""
    units: int = 256
    """Of the decoder, and of the vectors that it looks at."""
    dropout: float = 0.1
    """Of these vectors, of embeddings and of what the decoder gives."""
    pieces: int = 0
    """Pieces of words to write in (SentencePiece), which captions of photos want: 8000, perhaps; 0
    is whole words."""
    beam_width: int = 3

    epochs: int = 16
    batch_tokens: int = 640  # of captions: about 64 pictures
    num_buckets: int = 1
    max_length: int = 40
    learning_rate: float = 2e-3
    warmup_steps: int = 300
    label_smoothing: float = 0.0

    def validate(self):
        super().validate()
        self.require("units", self.units > 0 and self.units % 2 == 0, "a multiple of 2")
        self.require("size", self.size in (None, *range(32, 1025, 32)), "a multiple of 32, to 1024")
        known = self.backbone is None or callable(getattr(keras.applications, self.backbone, None))
        self.require("backbone", known, "a network of keras.applications, such as VGG16")
        own = self.backbone or not (self.train_backbone or self.weights != "imagenet")
        self.require("backbone", own, "there for --weights and --train-backbone")

    @property
    def side(self):
        return self.size or (224 if self.backbone else 64)


def train(config):
    # Pictures, as the contents of files, and for each its captions.
    pictures = load_captions(config.data, "train", config.side)
    dev = load_captions(config.data, "validation", config.side)
    print(f"train: {pictures.report}\ndev: {dev.report}")
    metrics = ("bleu", "chrf") if config.pieces else ("accuracy", "bleu")
    return learn(config, __file__, pictures, dev, build, metrics)


def build(config, pictures, captions):
    """Picture in, text out."""
    network, scaling = backbone(config) if config.backbone else (small(config.side), "tf")
    reads = ImageReader(config.side, patch=config.side // network.output_shape[1])
    if config.pieces:
        writes = SentencePieceTokenizer.train(captions, config.pieces)
    else:
        writes = SymbolTokenizer.train(captions)
    trained = config.train_backbone or not config.backbone
    encoder = zoo.ImageEncoder(network, config.units, scaling, trained, config.dropout)
    # It looks with the state before the step, and starts from the mean of what there is to see.
    half = config.units // 2
    cell, attention = keras.layers.LSTMCell(config.units), zoo.BahdanauAttention(half)
    cell = zoo.AttentionCell(cell, attention, half, query="previous_state", activation="tanh")
    decoder = zoo.RecurrentDecoder(writes.vocabulary_size, half, cell, dropout=config.dropout)
    search = config.search | {"max_length": config.max_length}
    return Pipeline(zoo.Seq2Seq(encoder, decoder), reads, writes, search)


def small(size):
    """A grid of 8 x 8 for 64 x 64 pixels, from blocks that add what they find."""
    pixels = x = keras.Input((size, size, 3))
    for filters, strides in ((16, 2), (32, 2), (64, 2), (64, 1)):
        x = keras.layers.Conv2D(filters, 3, strides=strides, padding="same")(x)
        x = keras.layers.LayerNormalization()(x)  # of each place by itself
        y = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.Add()([x, y])
    return keras.Model(pixels, x)


def backbone(config):
    """A network of keras.applications without what classifies, and how pixels reach it."""
    make = getattr(keras.applications, config.backbone)
    weights = None if config.weights == "none" else config.weights
    shape = (config.side, config.side, 3)
    try:
        network = make(include_top=False, weights=weights, input_shape=shape)
    except Exception as error:  # Keras raises it bare where nothing can be downloaded
        raise ValueError(f"{config.backbone} cannot be had: {first_line(error)}") from error
    unscaled = config.backbone.startswith(UNSCALED)
    return network, "none" if unscaled else SCALINGS.get(config.backbone, "tf")


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
