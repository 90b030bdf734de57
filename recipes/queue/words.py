#!/usr/bin/env python3
"""The papers of Retrieval with a byte, or two, in place of each long word: are words of bytes what a model fails at?

    recipes/queue/words.py ../shared/data/acl-retrieval 1 >docs.tsv     one of 252 bytes a word of six letters or more
    recipes/queue/words.py ../shared/data/acl-retrieval 2 >docs.tsv     one of 94 x 94 pairs a word of four or more

A word's code is its CRC, so that different words may have the same one. Shorter words and all other characters are left out. Papers
are cut to their first 4,000 bytes, as the model of bytes reads them.
"""

import lzma
import re
import sys
import zlib

LETTERS = {1: 6, 2: 4}
ONE = [i for i in range(1, 256) if i not in b"\t\n\r"]
PRINTABLE = range(33, 127)


def papers(folder):
    """(name, words) of each paper."""
    with lzma.open(f"{folder}/docs.tsv.xz", "rb") as lines:
        for line in lines:
            name, text = line.rstrip(b"\n").split(b"\t", 1)
            yield name.decode(), re.findall("[a-z]+", text[:4000].decode(errors="replace").lower())


def codes(words, size):
    """The codes, of `size` bytes each, of words that are long enough."""
    for word in words:
        if len(word) >= LETTERS[size]:
            crc = zlib.crc32(word.encode())
            if size == 1:
                yield bytes([ONE[crc % len(ONE)]])
            else:
                yield bytes([PRINTABLE[crc % 94], PRINTABLE[crc // 94 % 94]])


def main(folder, size):
    for name, words in papers(folder):
        sys.stdout.buffer.write(name.encode() + b"\t" + b"".join(codes(words, size)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
