#!/usr/bin/env python3
"""How far single numbers tell the answer of an image of Pathfinder, without following a path.

    longline data make pathfinder-14-5 --count 30000 --seed 901 --out /tmp/images
    recipes/queue/shortcuts.py /tmp/images >docs/results/shortcuts.csv

The numbers are the distance of the two dots and the sum of the pixels. Each is cut at the quantiles of the first half of the images,
and the answer of each part is the more frequent one there. The second half is counted.
"""

import bisect
import math
import sys

SIDE, BRIGHT, PARTS = 32, 250, 40  # only dots are that bright


def mean(points):
    return [sum(p[i] for p in points) / len(points) for i in (0, 1)]


def distance(image):
    """From the middle of one dot to that of the other: the brightest pixels, each with the nearer of the two farthest."""
    bright = [divmod(i, SIDE) for i, x in enumerate(image) if x >= BRIGHT]
    _, a, b = max((math.dist(p, q), p, q) for p in bright for q in bright)
    near = [p for p in bright if math.dist(p, a) <= math.dist(p, b)]
    return math.dist(mean(near), mean([p for p in bright if p not in near]))


def right(numbers, labels):
    """The percentage of the second half."""
    half = len(numbers) // 2
    ordered = sorted(numbers[:half])
    cuts = [ordered[half * i // PARTS] for i in range(1, PARTS)]
    votes = [0] * PARTS
    for x, label in zip(numbers[:half], labels[:half]):
        votes[bisect.bisect(cuts, x)] += 1 if label else -1
    answers = [(votes[bisect.bisect(cuts, x)] > 0) == bool(label) for x, label in zip(numbers[half:], labels[half:])]
    return 100 * sum(answers) / len(answers)


def main(folder):
    with open(f"{folder}/images-idx3-ubyte", "rb") as images, open(f"{folder}/labels-idx1-ubyte", "rb") as labels:
        pixels, answers = images.read()[16:], labels.read()[8:]
    size = SIDE * SIDE
    pictures = [pixels[i : i + size] for i in range(0, len(pixels), size)]
    print("number,right")
    for name, number in (("distance", distance), ("sum", sum)):
        print(f"{name},{right([number(p) for p in pictures], answers):.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
