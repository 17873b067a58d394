"""Correct answers for lesson 10, written differently: the checks must accept all of them."""

import heapq
import itertools
import re
from collections import Counter, defaultdict

import torch
import torch.nn.functional as F

# --- build_vocabulary


def vocabulary_by_most_common(sentences, min_count, specials):
    counts = Counter(itertools.chain.from_iterable(sentences))
    for special in specials:
        counts.pop(special, None)
    vocabulary = {special: place for place, special in enumerate(specials)}
    # most_common keeps the insertion order, so equal counts stay sorted by spelling.
    for word, count in Counter(dict(sorted(counts.items()))).most_common():
        if count >= min_count:
            vocabulary[word] = len(vocabulary)
    return vocabulary


def vocabulary_by_hand_count(sentences, min_count, specials):
    counts = {}
    for sentence in sentences:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    kept = sorted(word for word in counts if counts[word] >= min_count and word not in set(specials))
    kept = sorted(kept, key=counts.get, reverse=True)
    return dict(zip([*specials, *kept], itertools.count(), strict=False))


def vocabulary_by_groups(sentences, min_count, specials):
    counts = defaultdict(int)
    for sentence in sentences:
        for word in sentence:
            counts[word] += 1
    by_count = defaultdict(list)
    for word, count in counts.items():
        if word not in specials:
            by_count[count].append(word)
    words = list(specials)
    for count in sorted(by_count, reverse=True):
        if count < min_count:
            break
        words += sorted(by_count[count])
    return {words[place]: place for place in range(len(words))}


def vocabulary_as_counter(sentences, min_count, specials):
    counts = Counter()
    for sentence in sentences:
        counts.update(sentence)
    ranked = sorted((-count, word) for word, count in counts.items())
    words = specials + [word for count, word in ranked if -count >= min_count and word not in specials]
    numbers = Counter()
    for number, word in enumerate(words):
        numbers[word] = number
    return numbers


# --- learn_merges


def _merge(symbols, pair):
    if len(symbols) < 2:
        return symbols
    if (symbols[0], symbols[1]) == pair:
        return [symbols[0] + symbols[1], *_merge(symbols[2:], pair)]
    return [symbols[0], *_merge(symbols[1:], pair)]


def merges_by_counting_anew(words, count):
    spelled = [(list(word), times) for word, times in words.items()]
    merges = []
    for _ in range(count):
        pairs = Counter()
        for symbols, times in spelled:
            for left, right in itertools.pairwise(symbols):
                pairs[left, right] += times
        if len(pairs) == 0:
            return merges
        most = max(pairs.values())
        best = min(pair for pair in pairs if pairs[pair] == most)
        merges.append(best)
        spelled = [(_merge(symbols, best), times) for symbols, times in spelled]
    return merges


def merges_in_strings(words, count):
    mark = "\x00"
    spelled = [(mark.join(word), times) for word, times in words.items()]
    merges = []
    while len(merges) < count:
        pairs = defaultdict(int)
        for text, times in spelled:
            symbols = text.split(mark)
            for place in range(len(symbols) - 1):
                pairs[symbols[place], symbols[place + 1]] += times
        if not pairs:
            break
        left, right = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[0]
        merges.append([left, right])
        whole = re.compile(f"(?<![^{mark}]){re.escape(left)}{mark}{re.escape(right)}(?![^{mark}])")
        spelled = [(whole.sub(left + right, text), times) for text, times in spelled]
    return merges


def merges_by_heap(words, count):
    spelled = {word: tuple(word) for word in words}
    merges = []
    for _ in range(count):
        pairs = Counter()
        for word, symbols in spelled.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += words[word]
        heap = [(-times, pair) for pair, times in pairs.items()]
        heapq.heapify(heap)
        if not heap:
            break
        pair = heapq.heappop(heap)[1]
        merges.append(pair)
        for word, symbols in spelled.items():
            spelled[word] = tuple(_merge(list(symbols), pair))
    return merges


def merges_in_place_of_lists(words, count):
    spelled, times = [list(word) for word in words], list(words.values())
    merges = []
    while len(merges) < count:
        pairs = {}
        for symbols, weight in zip(spelled, times, strict=True):
            for pair in [(symbols[i - 1], symbols[i]) for i in range(1, len(symbols))]:
                pairs[pair] = pairs.get(pair, 0) + weight
        if not pairs:
            break
        best = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[0][0]
        merges.append(best)
        for symbols in spelled:
            place = 0
            while place + 1 < len(symbols):
                if (symbols[place], symbols[place + 1]) == best:
                    symbols[place : place + 2] = ["".join(best)]
                place += 1
    return tuple(merges)


# --- token_batches


def _greedy(lengths, order, max_tokens):
    batches = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if not batches or longest * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches


def batches_long_before_short(lengths, max_tokens):
    return _greedy(lengths, sorted(range(len(lengths)), key=lambda index: -lengths[index]), max_tokens)


def batches_by_size(lengths, max_tokens):
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    batches = []
    while order:
        longest = lengths[order[0]]
        if longest > max_tokens:
            raise ValueError(f"too many tokens: {longest} in the sentence at {order[0]}, budget {max_tokens}")
        size = max_tokens // longest
        batches.append(order[:size])
        order = order[size:]
    return tuple(batches)


def batches_shuffled(lengths, max_tokens):
    order = torch.tensor(lengths).sort(stable=True).indices.tolist()
    batches = _greedy(lengths, order, max_tokens)
    return [batches[place] for place in torch.randperm(len(batches)).tolist()]


def batches_by_recursion(lengths, max_tokens):
    def split(order):
        if not order:
            return []
        size = 1
        while size < len(order) and lengths[order[size]] * (size + 1) <= max_tokens:
            size += 1
        return [order[:size], *split(order[size:])]

    return split([index for _, index in sorted((length, index) for index, length in enumerate(lengths))])


# --- collate


def _check_room(max_length):
    if max_length < 2:
        raise ValueError(f"no room for start and end in {max_length}")


def collate_by_full(pairs, pad_id, start_id, end_id, max_length):
    _check_room(max_length)

    def matrix(sentences):
        framed = [list(itertools.chain([start_id], ids[: max_length - 2], [end_id])) for ids in sentences]
        table = torch.full((len(framed), max(map(len, framed))), pad_id)
        for row, ids in enumerate(framed):
            table[row, : len(ids)] = torch.tensor(ids)
        return table

    sources, targets = zip(*pairs, strict=True)
    return matrix(sources), matrix(targets)


def collate_by_lists(pairs, pad_id, start_id, end_id, max_length):
    if max_length <= 1:
        raise ValueError("max_length=%d is too small" % max_length)  # noqa: UP031
    sides = []
    for side in (0, 1):
        rows = []
        for pair in pairs:
            ids = list(pair[side])
            while len(ids) > max_length - 2:
                ids.pop()
            rows.append([start_id, *ids, end_id])
        width = max(len(row) for row in rows)
        sides.append(torch.tensor([row + [pad_id] * (width - len(row)) for row in rows], dtype=torch.long))
    return sides


def collate_by_pad(pairs, pad_id, start_id, end_id, max_length):
    _check_room(max_length)

    def tensor(ids):
        start, end = torch.tensor([start_id]), torch.tensor([end_id])
        return torch.cat([start, torch.tensor(ids[: max_length - 2], dtype=torch.int64), end])

    def stacked(rows):
        width = max(row.numel() for row in rows)
        return torch.stack([F.pad(row, (0, width - row.numel()), value=pad_id) for row in rows])

    return stacked([tensor(source) for source, _ in pairs]), stacked([tensor(target) for _, target in pairs])


def collate_in_int32(pairs, pad_id, start_id, end_id, max_length):
    _check_room(max_length)

    def column(ids, place):
        return ids[place] if place < len(ids) else pad_id

    def side(which):
        rows = [[start_id, *pair[which][0 : max_length - 2], end_id] for pair in pairs]
        width = max(len(row) for row in rows)
        columns = [
            torch.tensor([column(row, place) for row in rows], dtype=torch.int32) for place in range(width)
        ]
        return torch.stack(columns, dim=1)

    return side(0), side(1)


VARIANTS = {
    "build_vocabulary": (
        vocabulary_by_most_common,
        vocabulary_by_hand_count,
        vocabulary_by_groups,
        vocabulary_as_counter,
    ),
    "learn_merges": (
        merges_by_counting_anew,
        merges_in_strings,
        merges_by_heap,
        merges_in_place_of_lists,
    ),
    "token_batches": (
        batches_long_before_short,
        batches_by_size,
        batches_shuffled,
        batches_by_recursion,
    ),
    "collate": (
        collate_by_full,
        collate_by_lists,
        collate_by_pad,
        collate_in_int32,
    ),
}
