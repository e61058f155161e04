from zoo.models.seq2seq import Seq2Seq
