#!/usr/bin/env python3
"""How far the words that two papers share tell whether one cites the other: a yardstick for Retrieval.

    recipes/queue/overlap.py ../shared/data/acl-retrieval >docs/results/overlap.csv

Each paper is what a model sees of it, its first 4,000 bytes. Words are weighted by tf-idf over all papers, two papers are compared
by the cosine, and a pair counts as cited above the threshold that is best on the train split. The same with the codes of words.py.
"""

import collections
import math
import sys

from words import codes, papers

SPLITS = ("train", "val", "test")


def weighted(words):
    """A vector of length 1 for each paper."""
    counts = {name: collections.Counter(w) for name, w in words.items()}
    papers_with = collections.Counter(w for c in counts.values() for w in c)
    for name, count in counts.items():
        vector = {w: (1 + math.log(n)) * math.log(len(counts) / papers_with[w]) for w, n in count.items()}
        length = math.sqrt(sum(x * x for x in vector.values())) or 1
        counts[name] = {w: x / length for w, x in vector.items()}
    return counts


def scored(folder, split, vectors):
    """(cosine, cited) of each pair."""
    with open(f"{folder}/pairs-{split}.tsv") as lines:
        for line in lines:
            label, a, b = line.split()
            yield sum(x * vectors[b].get(w, 0) for w, x in vectors[a].items()), label == "1"


def accuracy(pairs, threshold):
    return sum((cosine > threshold) == cited for cosine, cited in pairs) / len(pairs)


def row(folder, name, texts):
    vectors = weighted(texts)
    pairs = {split: list(scored(folder, split, vectors)) for split in SPLITS}
    candidates = sorted({cosine for cosine, _ in pairs["train"]})[::20]
    threshold = max(candidates, key=lambda t: accuracy(pairs["train"], t))
    print(f"{name},{threshold:.4f}," + ",".join(f"{100 * accuracy(pairs[s], threshold):.2f}" for s in SPLITS))


def singly(texts):
    """Each letter of a word, or byte of a code, by itself."""
    return {paper: [x for word in text for x in word] for paper, text in texts.items()}


def main(folder):
    words = dict(papers(folder))
    one, two = ({paper: list(codes(text, size)) for paper, text in words.items()} for size in (1, 2))
    print("data,threshold,train,valid,test")
    row(folder, "words", words)
    row(folder, "words (each letter by itself)", singly(words))
    row(folder, "a byte a word", one)
    row(folder, "two bytes a word", two)
    row(folder, "two bytes a word (each byte by itself)", singly(two))


if __name__ == "__main__":
    main(sys.argv[1])
