#!/bin/sh
# Prints lines for the queue: Pathfinder by patches of 4 x 4 pixels, 64 tokens an image, file after file of made.txt, each model
# the start of the next. Held out are images of the last kind of a file, which are the arena's in the end; `arena` goes from the
# seventh file straight to these alone.
set -eu

line() { # STAGE PRIORITY HOURS DATA STEPS EVALUATIONS RATE FROM
    data=made/pathfinder-$4
    echo "pathfinder-patches-$1-$label-$seed" $(($2 + later)) "$3" full/pathfinder.ini "$system" "$seed" \
        "data.train=$data/images-idx3-ubyte data.train-labels=$data/labels-idx1-ubyte train.steps=$5" \
        "train.learning-rate=$7 train.schedule=cosine train.warmup=100 train.batch=64 train.precision=bf16" \
        "model.patch=4 model.width=64 model.ff=128$6${8:+ train.from=pathfinder-patches-$8-$label-$seed}"
}

of() { # SYSTEM LABEL SEED LATER
    system=$1 label=$2 seed=$3 later=$4
}

begin() {
    line 1 4 0.09 mixed-1 4000 '' 0.001 ''
    second
}

second() {
    line 2 4 0.09 mixed-2 4000 '' 0.001 1
    line 3 4 0.09 mixed-3 4000 '' 0.001 2
}

go_on() {
    line 4 4 0.11 mixed-4 5000 '' 0.001 3
    line 5 4 0.12 mixed-5 6000 '' 0.001 4
    line 6 4 0.23 mixed-6 12000 '' 0.001 5
    line 7 5 0.9 mixed-7 50000 ' train.eval-every=2500' 0.001 6
    line arena 5 0.2 mixed-9 9000 ' train.eval-every=1500' 0.0005 7
}

slower() {
    line 8 5 0.9 mixed-8 50000 ' train.eval-every=2500' 0.001 7
    line 9 5 0.6 mixed-8 30000 ' train.eval-every=2500' 0.0005 8
    line 10 5 0.2 mixed-9 9000 ' train.eval-every=1500' 0.0005 9
}

# For positions that are added to the embedding: a million images of paths of one and two segments first, and a million of the
# first file. Without those of one segment, the million of the first file leaves Performer at 53 % of those held out.
early() {
    line 0 4 0.25 many-0 24000 ' train.eval-every=1000 train.schedule=constant' 0.001 ''
    line 1 4 0.25 many-1 24000 ' train.eval-every=1000' 0.001 0
}

# A million images of the second and the third file, too. Without them what was learned is lost in the third.
many() {
    line 2 4 0.25 many-2 24000 " train.eval-every=1000 train.from=pathfinder-patches-1-early-$1" 0.001 ''
    line 3 4 0.25 many-3 24000 ' train.eval-every=1000' 0.001 2
}

of permuteformer-2d permuteformer 1 0 && begin && go_on && slower
of permuteformer-2d permuteformer 2 3 && begin && go_on
of performer performer 1 3 && begin
of exact exact 1 3 && begin
of rope-linear rope-linear 1 3 && begin && line 4 4 0.11 mixed-4 5000 '' 0.001 3
of exact-rope exact-rope 1 3 && begin && go_on
of favor+rope favor-rope 1 3 && begin && go_on
of performer early-performer 1 3 && early && second && line 4 4 0.11 mixed-4 5000 '' 0.001 3 && line 5 4 0.12 mixed-5 6000 '' 0.001 4
of performer many-performer 1 3 && many performer-1
of exact early-exact 1 3 && early
of exact many-exact 1 3 && many exact-1
