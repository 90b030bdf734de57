#!/bin/sh
# Draws docs/results/recall.svg from docs/results/measures.csv: recall of 16 pairs against the features of a head, on a logarithmic
# scale, with the mean over seeds. tables.sh calls it.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
awk -F, '
    function mean(who,    seed, n, sum) {
        for (seed = 1; seed < 10; seed++)
            if (("recall-" who "-" seed) in recall) { n++; sum += recall["recall-" who "-" seed] }
        return n ? sum / n : -1
    }
    function x(features) { return 70 + 95 * log(features / 16) / log(2) }
    function y(share) { return 310 - 270 * share }
    function text(at, row, anchor, what) {
        printf "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", at, row, anchor, what
    }
    function curve(name, colour, list,    n, i, part, points, m, value, last) {
        n = split(list, part, " ")
        for (i = 1; i <= n; i += 2) {
            m = part[i]
            value = mean(part[i + 1])
            if (value < 0) continue
            points = points sprintf("%.1f,%.1f ", x(m), y(value))
            printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", x(m), y(value), colour
            last = 1
        }
        if (!last) return
        printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", points, colour
        printf "<line x1=\"480\" y1=\"%d\" x2=\"500\" y2=\"%d\" stroke=\"%s\" stroke-width=\"3\"/>\n", key, key, colour
        text(508, key + 4, "start", name)
        key += 22
    }
    $2 == "test-16" && $3 == "accuracy" { recall[$1] = $4 }
    END {
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"370\" font-family=\"sans-serif\" font-size=\"12\">"
        print "<rect width=\"680\" height=\"370\" fill=\"white\"/>"
        for (i = 0; i <= 5; i++) {
            printf "<line x1=\"70\" y1=\"%.1f\" x2=\"450\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", y(i / 5), y(i / 5)
            text(62, y(i / 5) + 4, "end", 20 * i " %")
        }
        for (m = 16; m <= 256; m *= 2) text(x(m), 328, "middle", m)
        text(260, 352, "middle", "features of a head; its state has 33 numbers for each")
        text(70, 24, "start", "recall of 16 pairs, mean over seeds")
        key = 60
        curve("exact softmax", "#222222", "16 exact 256 exact")
        curve("FAVOR+", "#0072b2", "16 favor-16 64 favor-64 256 favor-256")
        curve("ReLU, projected", "#d55e00", "16 relu-16 64 relu-64 256 relu-256")
        curve("ReLU, query-multiple 1, 4", "#009e73", "32 relu-own 128 relu-query4")
        curve("exp, projected", "#cc79a7", "16 exp-16 256 exp-256")
        curve("ReLU with decay", "#8a6d00", "32 relu-decay")
        curve("PermuteFormer", "#7a3fbf", "32 permute-decay")
        curve("exp", "#cc3366", "32 exp-own")
        curve("elu + 1", "#56b4e9", "32 elu1-own")
        print "</svg>"
    }' "$tree/docs/results/measures.csv" >"$tree/docs/results/recall.svg.part"
mv "$tree/docs/results/recall.svg.part" "$tree/docs/results/recall.svg"
