"""What students build: every exercise of lessons 01 to 12, by lesson, with what it does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """One exercise: its name, the lesson that builds it, and what it does, in a sentence."""

    name: str
    lesson: str
    does: str


BLOCKS = (
    Block(
        "attention_scores",
        "01-attention",
        "Compares each query with each key: dot products over the root of d_k.",
    ),
    Block(
        "attention_weights", "01-attention", "Softmax over the keys that the mask allows; zeros elsewhere."
    ),
    Block("scaled_dot_product_attention", "01-attention", "Mixes the values by the weights of each query."),
    Block("split_heads", "02-multi-head", "Cuts d_model into heads, which attend side by side."),
    Block("merge_heads", "02-multi-head", "Puts the heads' outputs back into one vector a word."),
    Block(
        "MultiHeadAttention", "02-multi-head", "Projects, attends in every head at once, merges and projects."
    ),
    Block(
        "LayerNorm",
        "03-sublayers",
        "Gives each word's vector mean 0 and variance 1, then scales and shifts it.",
    ),
    Block("FeedForward", "03-sublayers", "Two linear layers with a ReLU between, for each word alone."),
    Block("SublayerConnection", "03-sublayers", "Adds a sublayer's output to its input, and normalises."),
    Block("padding_mask", "04-masks", "Hides the padding at the end of shorter sentences."),
    Block("causal_mask", "04-masks", "Hides the words that are not written yet."),
    Block("decoder_mask", "04-masks", "Hides both the padding and the words to come."),
    Block("shift_target", "04-masks", "Makes the decoder's input and, one place on, the labels."),
    Block("sinusoids", "05-positional-encoding", "Waves of many lengths that tell places apart."),
    Block(
        "TokenEmbedding",
        "05-positional-encoding",
        "Looks up a vector for each word, times the root of d_model.",
    ),
    Block(
        "PositionalEncoding",
        "05-positional-encoding",
        "Adds each place's waves to the word that stands there.",
    ),
    Block(
        "EncoderLayer",
        "06-the-transformer",
        "Self-attention and feed-forward, each in its sublayer connection.",
    ),
    Block(
        "DecoderLayer", "06-the-transformer", "Self-attention, attention over the source, and feed-forward."
    ),
    Block(
        "Transformer", "06-the-transformer", "Encoder, decoder and the generator, which scores every word."
    ),
    Block("tie_embeddings", "06-the-transformer", "One matrix for both embeddings and the generator."),
    Block("greedy_decode", "06-the-transformer", "Writes the likeliest word, again and again."),
    Block("learning_rate", "07-schedule", "Rises with each step of the warm-up, then falls with the root."),
    Block("make_scheduler", "07-schedule", "Gives each update of the optimiser its learning rate."),
    Block("smooth_targets", "08-label-smoothing", "Moves a little of the target to every other word."),
    Block(
        "LabelSmoothingLoss",
        "08-label-smoothing",
        "Cross-entropy with smoothed targets, a mean over real words.",
    ),
    Block("train_step", "09-training", "One update from any split of a batch into micro-batches."),
    Block("build_vocabulary", "10-translation-data", "Numbers the words, frequent ones first."),
    Block(
        "learn_merges",
        "10-translation-data",
        "Byte-pair encoding: joins the most frequent pair, again and again.",
    ),
    Block("token_batches", "10-translation-data", "Groups sentences of like length under a budget of words."),
    Block("collate", "10-translation-data", "Turns pairs of sentences into two padded tensors."),
    Block("length_penalty", "11-decoding", "Makes long and short translations comparable."),
    Block("beam_search", "11-decoding", "Keeps the best few beginnings and picks the best whole."),
    Block("average_checkpoints", "11-decoding", "The mean of the last few models, which translates better."),
    Block("shard", "12-final-lab", "Gives each process its share of the batches."),
    Block("global_token_mean", "12-final-lab", "The mean loss over the words of all processes."),
)
"""In the order in which the course builds them."""


def exercises_through(lesson: int) -> list[str]:
    """The names of the exercises of lessons 01 to `lesson`. Raises ValueError unless 0 <= lesson <= 12."""
    if not 0 <= lesson <= 12:
        raise ValueError(f"lesson: expected a number from 0 to 12, got {lesson}.")
    return [block.name for block in BLOCKS if int(block.lesson[:2]) <= lesson]
