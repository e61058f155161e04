from zoo.models.language_model import LanguageModel
from zoo.models.seq2seq import Seq2Seq
