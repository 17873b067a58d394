"""Lesson 04: the padding mask, the causal mask, both together, and the shifted target."""

import torch
from torch import Tensor

from course_lib.checks.engine.candidate import Candidate
from course_lib.checks.engine.exercise import Exercise, Misconception, Prediction, WrongNumber
from course_lib.checks.engine.probe import Draw, probe
from course_lib.checks.engine.reply import Reply
from course_lib.checks.exercises.fixtures.results import with_batch_axis
from course_lib.transformer.masks import causal_mask, decoder_mask, padding_mask, shift_target

MASK = "section 3.2.3: illegal connections are masked out before the softmax"
CAUSAL = "section 3.2.3: each position of the decoder sees itself and what stands before it"
SHIFTED = "section 3.1: the output embeddings are offset by one position"


def _sentences(draw: Draw, *lengths: int, width: int, pad_id: int) -> Tensor:
    """Sentences of these lengths, padded at the end to one width; no real token is the padding's number."""
    tokens = draw.integers(10, 99, len(lengths), width)
    for sentence, length in enumerate(lengths):
        tokens[sentence, length:] = pad_id
    return tokens


# --- padding_mask -------------------------------------------------------------------------------------------


@probe("two sentences, the second with padding at its end")
def _padding_of_two(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 5, 3, width=5, pad_id=0), 0)


@probe("as many sentences as words: each axis still means its own thing")
def _padding_of_a_square(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 3, 1, 2, width=3, pad_id=0), 0)


@probe("a single sentence that needs no padding")
def _padding_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 4, width=4, pad_id=0), 0)


@probe("two sentences that need no padding")
def _padding_of_two_full(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 4, 4, width=4, pad_id=0), 0)


@probe("padding may have another number than 0, and 0 may be a word")
def _padding_of_another_number(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 4, 2, width=4, pad_id=3)
    tokens[0, 1] = 0
    return candidate.call(tokens, 3)


@probe("real words may have smaller numbers than padding, and larger ones")
def _padding_among_the_numbers(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 3, 5, width=5, pad_id=50)
    tokens[0, :3], tokens[1] = torch.tensor([49, 51, 2]), torch.tensor([98, 1, 49, 51, 7])
    return candidate.call(tokens, 50)


@probe("padding is hidden wherever it stands, also at the beginning")
def _padding_in_front(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 2, 4, width=4, pad_id=0).flip(-1), 0)


@probe("a sentence of nothing but padding may be looked at by nobody")
def _padding_alone(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 0, 2, width=2, pad_id=0), 0)


_REAL = "tokens != pad_id"
_QUERY_AXIS = "(tokens != pad_id).unsqueeze(1)"

PADDING_MASK = Exercise(
    reference=padding_mask,
    probes=(
        _padding_of_two,
        _padding_of_a_square,
        _padding_of_one,
        _padding_of_two_full,
        _padding_of_another_number,
        _padding_among_the_numbers,
        _padding_in_front,
        _padding_alone,
    ),
    misconceptions=(
        Misconception(
            name="inverted",
            says="it is True at padding, the wrong way round",
            hint='In this course True means "may look". (Some functions of PyTorch mean "leave out" by True; '
            "that is where this mix-up often comes from.)",
            paper=MASK,
            patch=[(_REAL, "tokens == pad_id")],
        ),
        Misconception(
            name="padding_is_zero",
            says="0 is taken for padding, whatever pad_id says",
            hint="Which number stands for padding is up to the vocabulary. Compare with the argument.",
            paper=MASK,
            patch=[(_REAL, "tokens != 0")],
        ),
        Misconception(
            name="greater_than_padding",
            says="words whose number is below that of padding are hidden as well",
            hint="Greater than pad_id works only while padding has the smallest number of all. What counts "
            "is whether a token is different from it.",
            paper=MASK,
            patch=[(_REAL, "tokens > pad_id")],
        ),
        Misconception(
            name="padding_at_the_end",
            says="the real words are counted, and then as many places from the left are opened",
            hint="That fits only where all padding stands at the end. Compare each token by itself, and it "
            "does not matter where padding stands.",
            paper=MASK,
            patch=[
                (
                    _REAL,
                    "torch.arange(tokens.shape[1], device=tokens.device) < (tokens != pad_id).sum(-1, "
                    "keepdim=True)",
                )
            ],
        ),
        Misconception(
            name="no_query_axis",
            says="the axis for the queries is missing",
            hint="(B, L) cannot meet scores of (B, Q, K): broadcasting would take the sentences for "
            "queries. With an axis of length one between, (B, 1, L), each sentence's mask holds for all of "
            "its queries.",
            paper=MASK,
            patch=[(".unsqueeze(1)", "")],
        ),
        Misconception(
            name="queries_hidden",
            says="it hides query rows, where it should hide key columns",
            hint="The last axis belongs to the keys, that is to what is looked at. With the new axis at "
            "the end, padding could not look, but everyone could still look at padding.",
            paper=MASK,
            patch=[(".unsqueeze(1)", ".unsqueeze(-1)")],
        ),
        Misconception(
            name="rows_as_well",
            says="it hides the query rows of padding as well as its key columns",
            hint="A padding query writes an output that nobody reads. Hidden as a row it has nothing left "
            "to look at, and a softmax over nothing is how NaN gets into a network.",
            paper=MASK,
            patch=[(_QUERY_AXIS, "(tokens != pad_id).unsqueeze(1) & (tokens != pad_id).unsqueeze(2)")],
        ),
        Misconception(
            name="stretched",
            says="the mask is repeated for every query, where an axis of length one is asked for",
            hint="It says the same, and takes L times the room. Broadcasting stretches an axis of length "
            "one by itself.",
            paper=MASK,
            patch=[(".unsqueeze(1)", ".unsqueeze(1).repeat(1, tokens.shape[1], 1)")],
        ),
        Misconception(
            name="head_axis",
            says="it has an axis for the heads already",
            hint="Here a mask has three axes: sentences, queries, keys. Your MultiHeadAttention puts the "
            "axis of the heads in by itself.",
            paper=MASK,
            patch=[(".unsqueeze(1)", ".unsqueeze(1).unsqueeze(2)")],
        ),
        Misconception(
            name="axis_in_front",
            says="the new axis stands in front of the sentences",
            hint="(1, B, L) would make one sentence with B queries out of the batch. The batch stays in "
            "front, the new axis comes second.",
            paper=MASK,
            patch=[(".unsqueeze(1)", ".unsqueeze(0)")],
        ),
        Misconception(
            name="numbers_for_truth",
            says="it holds the numbers 1 and 0 (float32), where truth values are asked for",
            hint="A comparison gives truth values; leave them as they are. `~mask` and `masked_fill` need "
            "them.",
            paper=MASK,
            patch=[("return (", "return 1.0 * (")],
        ),
        Misconception(
            name="integers_for_truth",
            says="it holds the whole numbers 1 and 0, where truth values are asked for",
            hint="A comparison gives truth values; leave them as they are. With whole numbers `~mask` is "
            "never 0: ~1 is -2, and ~0 is -1.",
            paper=MASK,
            patch=[("return (", "return 1 * (")],
        ),
        Misconception(
            name="added_to_scores",
            says="it is a mask for adding to the scores, 0 and minus infinity",
            hint="That is another convention, which some libraries have. Here a mask is boolean, and what "
            "to do with it is the attention's business.",
            paper=MASK,
            patch=[("return (", "return torch.log(1.0 * ("), (".unsqueeze(1)", ".unsqueeze(1))")],
        ),
    ),
)

# --- causal_mask --------------------------------------------------------------------------------------------


def _of_length(length: int, candidate: Candidate) -> Reply:
    """The mask of a length; (L, L) is as right as (1, L, L)."""
    return candidate.make(with_batch_axis(candidate)).call(length)


@probe("a sentence of four words")
def _causal_of_four(candidate: Candidate, draw: Draw) -> Reply:
    return _of_length(4, candidate)


@probe("a sentence of one word, which sees itself")
def _causal_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return _of_length(1, candidate)


@probe("a sentence of two words")
def _causal_of_two(candidate: Candidate, draw: Draw) -> Reply:
    return _of_length(2, candidate)


@probe("a sentence of 130 words: none is too long")
def _causal_of_many(candidate: Candidate, draw: Draw) -> Reply:
    return _of_length(130, candidate)


_ONES = "torch.ones(1, length, length, dtype=torch.bool)"
_TRIANGLE = f"{_ONES}.tril()"

CAUSAL_MASK = Exercise(
    reference=causal_mask,
    probes=(_causal_of_four, _causal_of_one, _causal_of_two, _causal_of_many),
    misconceptions=(
        Misconception(
            name="own_word_hidden",
            says="a word may not look at itself, and the first one may look at nothing",
            hint="Position i reads token i and is to predict token i + 1. So it may look at itself: the "
            "diagonal belongs to what is allowed.",
            paper=CAUSAL,
            patch=[(".tril()", ".tril(-1)")],
        ),
        Misconception(
            name="one_word_ahead",
            says="a word may look one place ahead, at the very word that it is to predict",
            hint="Position i is to predict token i + 1, which stands at position i + 1. A model that may "
            "look there copies it, and is useless when there is nothing to copy.",
            paper=CAUSAL,
            patch=[(".tril()", ".tril(1)")],
        ),
        Misconception(
            name="inverted",
            says="it is True for the words to come, the wrong way round",
            hint='`triu(1)` is what must be hidden. In this course True means "may look": take the opposite.',
            paper=CAUSAL,
            patch=[(".tril()", ".triu(1)")],
        ),
        Misconception(
            name="backwards",
            says="each word may look at itself and what comes after it, the wrong direction",
            hint="Row i is for the query at position i, column j for the key at position j. Allowed is j "
            "up to i: the lower triangle. (`tril` is the lower one, `triu` the upper.)",
            paper=CAUSAL,
            patch=[(".tril()", ".triu()")],
        ),
        Misconception(
            name="everything_allowed",
            says="every word may look at every word",
            hint="Ones everywhere hide nothing. The words to come have to be taken out: `tril` does it.",
            paper=CAUSAL,
            patch=[(".tril()", "")],
        ),
        Misconception(
            name="own_word_alone",
            says="each word may look at itself alone",
            hint="What has been written before is allowed too: the whole triangle below the diagonal.",
            paper=CAUSAL,
            patch=[(_TRIANGLE, "torch.eye(length, dtype=torch.bool).unsqueeze(0)")],
        ),
        Misconception(
            name="last_row_alone",
            says="there is a single row, where each query needs one of its own",
            hint="The first query may look at one word, the second at two: the rows differ. There are L "
            "queries and L keys.",
            paper=CAUSAL,
            patch=[(_TRIANGLE, "torch.ones(1, 1, length, dtype=torch.bool)")],
        ),
        Misconception(
            name="one_too_small",
            says="it is made for one word less than `length`",
            hint="`length` is that of the tokens which the decoder reads, whatever has been cut off before.",
            paper=CAUSAL,
            patch=[(_ONES, "torch.ones(1, length - 1, length - 1, dtype=torch.bool)")],
        ),
        Misconception(
            name="axis_at_the_end",
            says="the axis of length one stands at the end",
            hint="The last two axes are queries and keys. The axis for the batch stands in front: (1, L, L).",
            paper=CAUSAL,
            patch=[("return torch", "return (torch"), (".tril()", ".tril()).movedim(0, -1)")],
        ),
        Misconception(
            name="head_axis",
            says="it has an axis for the heads already",
            hint="Here a mask has three axes: sentences, queries, keys. Your MultiHeadAttention puts the "
            "axis of the heads in by itself.",
            paper=CAUSAL,
            patch=[(".tril()", ".tril().unsqueeze(1)")],
        ),
        Misconception(
            name="numbers_for_truth",
            says="it holds the numbers 1 and 0 (float32), where truth values are asked for",
            hint="`torch.ones` makes numbers unless you say `dtype=torch.bool`.",
            paper=CAUSAL,
            patch=[(", dtype=torch.bool", "")],
        ),
        Misconception(
            name="integers_for_truth",
            says="it holds the whole numbers 1 and 0, where truth values are asked for",
            hint="Say `dtype=torch.bool`, or compare: a comparison gives truth values.",
            paper=CAUSAL,
            patch=[("torch.bool", "torch.long")],
        ),
        Misconception(
            name="added_to_scores",
            says="it is a mask for adding to the scores, 0 and minus infinity",
            hint="That is another convention (`generate_square_subsequent_mask` in PyTorch has it). Here a "
            "mask is boolean, and what to do with it is the attention's business.",
            paper=CAUSAL,
            patch=[(_TRIANGLE, 'torch.full((1, length, length), float("-inf")).triu(1)')],
        ),
    ),
)

# --- decoder_mask -------------------------------------------------------------------------------------------


@probe("two sentences, the second with padding at its end")
def _decoder_of_two(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 5, 3, width=5, pad_id=0), 0)


@probe("as many sentences as words: each axis still means its own thing")
def _decoder_of_a_square(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 3, 1, 2, width=3, pad_id=0), 0)


@probe("a single sentence that needs no padding")
def _decoder_of_one(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 4, width=4, pad_id=0), 0)


@probe("two sentences that need no padding")
def _decoder_of_two_full(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 4, 4, width=4, pad_id=0), 0)


@probe("more sentences than words, and padding with another number than 0")
def _decoder_of_another_number(candidate: Candidate, draw: Draw) -> Reply:
    tokens = _sentences(draw, 2, 1, 3, 3, width=3, pad_id=7)
    tokens[2, 1], tokens[3, 0] = 0, 2
    return candidate.call(tokens, 7)


@probe("one sentence of one word")
def _decoder_of_one_word(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 1, width=1, pad_id=0), 0)


@probe("padding at the beginning is hidden too")
def _decoder_with_padding_in_front(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 2, 4, width=4, pad_id=0).flip(-1), 0)


_BOTH = "padding_mask(tokens, pad_id) & causal_mask(tokens.shape[1]).to(tokens.device)"

DECODER_MASK = Exercise(
    reference=decoder_mask,
    probes=(
        _decoder_of_two,
        _decoder_of_a_square,
        _decoder_of_one,
        _decoder_of_two_full,
        _decoder_of_another_number,
        _decoder_of_one_word,
        _decoder_with_padding_in_front,
    ),
    misconceptions=(
        Misconception(
            name="either_of_them",
            says="it allows what either of the two masks allows, where both have to",
            hint='One "no" is enough: a word of the future is forbidden although it is no padding. So it is '
            "`&`, not `|`. (`+` of truth values is `|`, too; `*` would be `&`.)",
            paper=CAUSAL,
            patch=[(" & ", " | ")],
        ),
        Misconception(
            name="padding_alone",
            says="only padding is hidden, the words to come are not",
            hint="The decoder is to predict the next word. As it is, it could look it up. The causal mask "
            "has to allow it as well.",
            paper=CAUSAL,
            patch=[(_BOTH, "padding_mask(tokens, pad_id)")],
        ),
        Misconception(
            name="causal_alone",
            says="only the words to come are hidden, padding is not",
            hint="With padding at the end, the causal mask happens to keep real words from it. But it does "
            "not look at the tokens: padding elsewhere stays open, and the sentences get no mask of their "
            "own.",
            paper=MASK,
            patch=[(_BOTH, "causal_mask(tokens.shape[1])")],
        ),
        Misconception(
            name="inverted",
            says="it is True where looking is forbidden, the wrong way round",
            hint='In this course True means "may look".',
            paper=MASK,
            patch=[("return padding_mask(tokens, pad_id) & ", "return ~padding_mask(tokens, pad_id) | ~")],
        ),
        Misconception(
            name="batch_for_length",
            says="the causal mask is made for the number of sentences, not for their length",
            hint="Tokens are (B, L): the length is the second size, `tokens.shape[1]`. (`len(tokens)` is the "
            "first.)",
            paper=CAUSAL,
            patch=[("tokens.shape[1]", "tokens.shape[0]")],
        ),
        Misconception(
            name="padding_is_zero",
            says="0 is taken for padding, whatever pad_id says",
            hint="Which number stands for padding is up to the vocabulary. Hand the argument on.",
            paper=MASK,
            patch=[("(tokens, pad_id) &", "(tokens, 0) &")],
        ),
        Misconception(
            name="queries_hidden",
            says="padding's query rows are hidden, where its key columns should be",
            hint="The last axis belongs to the keys, that is to what is looked at. A padding query does no "
            "harm; a padding key does.",
            paper=MASK,
            patch=[("padding_mask(tokens, pad_id) &", "padding_mask(tokens, pad_id).mT &")],
        ),
        Misconception(
            name="rows_as_well",
            says="it hides the query rows of padding as well as its key columns",
            hint="A padding query writes an output that nobody reads. Hidden as a row it has nothing left "
            "to look at, and a softmax over nothing is how NaN gets into a network.",
            paper=MASK,
            patch=[
                (
                    "padding_mask(tokens, pad_id) &",
                    "padding_mask(tokens, pad_id) & padding_mask(tokens, pad_id).mT &",
                )
            ],
        ),
        Misconception(
            name="own_word_hidden",
            says="a word may not look at itself, and the first one may look at nothing",
            hint="Position i reads token i and is to predict token i + 1. So it may look at itself: the "
            "diagonal belongs to what is allowed.",
            paper=CAUSAL,
            patch=[("causal_mask(tokens.shape[1])", "causal_mask(tokens.shape[1]).tril(-1)")],
        ),
        Misconception(
            name="one_word_ahead",
            says="a word may look one place ahead, at the very word that it is to predict",
            hint="Position i is to predict token i + 1, which stands at position i + 1. A model that may "
            "look there copies it, and is useless when there is nothing to copy.",
            paper=CAUSAL,
            patch=[
                (
                    "causal_mask(tokens.shape[1])",
                    "torch.ones(1, tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril(1)",
                )
            ],
        ),
        Misconception(
            name="backwards",
            says="each word may look at itself and what comes after it, the wrong direction",
            hint="Row i is for the query at position i, column j for the key at position j. Allowed is j "
            "up to i: the lower triangle.",
            paper=CAUSAL,
            patch=[("causal_mask(tokens.shape[1])", "causal_mask(tokens.shape[1]).mT")],
        ),
        Misconception(
            name="head_axis",
            says="it has an axis for the heads already",
            hint="Here a mask has three axes: sentences, queries, keys. Your MultiHeadAttention puts the "
            "axis of the heads in by itself.",
            paper=MASK,
            patch=[("return ", "return ("), (".to(tokens.device)", ".to(tokens.device)).unsqueeze(1)")],
        ),
        Misconception(
            name="numbers_for_truth",
            says="it holds the numbers 1 and 0 (float32), where truth values are asked for",
            hint="`&` of two boolean masks is boolean. A product with a number, or with a mask of numbers, "
            "is not.",
            paper=MASK,
            patch=[("return ", "return ("), (".to(tokens.device)", ".to(tokens.device)).float()")],
        ),
    ),
)

# --- shift_target -------------------------------------------------------------------------------------------


@probe("two targets of five tokens")
def _shift_of_two(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(0, 99, 2, 5))


@probe("as many targets as tokens: each axis still means its own thing")
def _shift_of_a_square(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(0, 99, 4, 4))


@probe("padded targets: padding is a token like any other here")
def _shift_of_padded(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(_sentences(draw, 4, 2, 3, width=6, pad_id=0))


@probe("a single target of two tokens gives one of each")
def _shift_of_the_shortest(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(0, 99, 1, 2))


@probe("int32 goes in and int32 comes out")
def _shift_of_int32(candidate: Candidate, draw: Draw) -> Reply:
    return candidate.call(draw.integers(0, 99, 2, 4).to(torch.int32))


_CUT = "target[:, :-1], target[:, 1:]"

SHIFT_TARGET = Exercise(
    reference=shift_target,
    probes=(_shift_of_two, _shift_of_a_square, _shift_of_padded, _shift_of_the_shortest, _shift_of_int32),
    misconceptions=(
        Misconception(
            name="labels_first",
            says="the two are handed back in the wrong order",
            hint="First what the decoder reads, then what it is to predict.",
            paper=SHIFTED,
            patch=[(_CUT, "target[:, 1:], target[:, :-1]")],
        ),
        Misconception(
            name="labels_not_shifted",
            says="the labels are the very tokens that the decoder reads",
            hint="At position i the decoder reads token i and is to predict token i + 1. If it is to "
            "predict what it reads, all it can learn is to copy.",
            paper=SHIFTED,
            patch=[("target[:, 1:]", "target[:, :-1]")],
        ),
        Misconception(
            name="start_not_read",
            says="the decoder reads the very tokens that it is to predict, and never the start symbol",
            hint="It has to begin with the start symbol: in use, nothing else is there at first. Only the "
            "last column is cut off from what it reads.",
            paper=SHIFTED,
            patch=[("target[:, :-1]", "target[:, 1:]")],
        ),
        Misconception(
            name="whole_target_read",
            says="the decoder reads the last column as well, for which there is no label",
            hint="Nothing is to be predicted after the last token. Cut the last column off.",
            paper=SHIFTED,
            patch=[("target[:, :-1]", "target")],
        ),
        Misconception(
            name="whole_target_as_labels",
            says="the labels still begin with the start symbol",
            hint="Nobody predicts the start symbol: it is given. Cut the first column off.",
            paper=SHIFTED,
            patch=[("target[:, 1:]", "target")],
        ),
        Misconception(
            name="rolled",
            says="the labels are rolled round, so that the start symbol is the last label",
            hint="A roll keeps all columns and puts the first one at the end. Here both parts are one column "
            "shorter than the target.",
            paper=SHIFTED,
            patch=[(_CUT, "target, target.roll(-1, dims=1)")],
        ),
        Misconception(
            name="along_the_batch",
            says="the first and the last sentence are cut off, not the first and the last column",
            hint="Targets are (B, L), and `target[1:]` cuts along the first axis. For columns write `[:, "
            "1:]`.",
            paper=SHIFTED,
            patch=[(_CUT, "target[:-1], target[1:]")],
        ),
        Misconception(
            name="two_places",
            says="the labels are two places ahead, not one",
            hint="From token i the decoder is to predict token i + 1, the next one.",
            paper=SHIFTED,
            patch=[(_CUT, "target[:, :-2], target[:, 2:]")],
        ),
        Misconception(
            name="both_ends_cut",
            says="the decoder's input has lost its start symbol as well as its end",
            hint="The input loses one column alone, the last. The start symbol is the first thing that it "
            "reads.",
            paper=SHIFTED,
            patch=[("target[:, :-1]", "target[:, 1:-1]")],
        ),
        Misconception(
            name="padding_in_front",
            says="a column of zeros is put in front, where the target has its start symbol already",
            hint="Targets come with their start symbol. Cut; add nothing.",
            paper=SHIFTED,
            patch=[(_CUT, "torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1), target")],
        ),
        Misconception(
            name="last_label_alone",
            says="there is a single label for each target, the last one",
            hint="Every position predicts the token after it, all at once. There are as many labels as "
            "tokens read.",
            paper=SHIFTED,
            patch=[("target[:, 1:]", "target[:, -1]")],
        ),
        Misconception(
            name="input_alone",
            says="only what the decoder reads is handed back",
            hint="Two things are asked for, as a tuple: what it reads, and what it is to predict.",
            paper=SHIFTED,
            patch=[(_CUT, "target[:, :-1]")],
        ),
        Misconception(
            name="stacked",
            says="the two are stacked into one tensor, where a tuple is asked for",
            hint="They are two different things, for two different places. `return one, other` makes a "
            "tuple.",
            paper=SHIFTED,
            patch=[(_CUT, "torch.stack([target[:, :-1], target[:, 1:]])")],
        ),
    ),
)

# --- predictions --------------------------------------------------------------------------------------------

PREDICT_PAIRS = Prediction(
    name="predict_pairs",
    answer=21.0,
    tolerance=0.001,
    hint="Go through it row by row: how many words may the first look at, how many the second?",
    misconceptions=(
        WrongNumber(
            "all_pairs",
            36.0,
            "That is every word with every word. What stands above the diagonal is still to come.",
        ),
        WrongNumber("without_itself", 15.0, "That is without the diagonal. A word may look at itself, too."),
        WrongNumber(
            "half", 18.0, "That is half of the table. But the diagonal is not cut in half: it belongs to it."
        ),
        WrongNumber("one_each", 6.0, "That is one each. The last word may look at all that stand before it."),
    ),
)

PREDICT_ALLOWED = Prediction(
    name="predict_allowed",
    answer=14.0,
    tolerance=0.001,
    hint="Draw the square of 5 by 5. Cross out the columns of padding, then all that is above the "
    "diagonal. What is left, counted row by row, also in the rows of padding?",
    misconceptions=(
        WrongNumber("causal_alone", 15.0, "That is the causal mask alone. It lets padding look at padding."),
        WrongNumber("padding_alone", 20.0, "That is the padding mask alone. It lets words look ahead."),
        WrongNumber(
            "rows_as_well",
            10.0,
            "That leaves out the row of padding. Only columns are hidden: a padding query may look at real "
            "words.",
        ),
        WrongNumber("all_pairs", 25.0, "That is the whole table. Padding and what is to come are hidden."),
    ),
)

PREDICT_GUESSED = Prediction(
    name="predict_guessed",
    answer=1.0,
    tolerance=0.02,
    hint="The model need not predict anything. Where does the answer stand?",
    misconceptions=(
        WrongNumber(
            "honest",
            0.1,
            "That is what an honest model would get, by guessing one of ten. This one can look the answer "
            "up.",
        ),
        WrongNumber("percent", 100.0, "Write it as a share, from 0 to 1."),
        WrongNumber("nothing", 0.0, "Even blind guessing would be right now and then."),
    ),
)

CATALOGUE = (
    PADDING_MASK,
    PREDICT_PAIRS,
    CAUSAL_MASK,
    PREDICT_ALLOWED,
    DECODER_MASK,
    SHIFT_TARGET,
    PREDICT_GUESSED,
)
