#!/bin/sh
# Prints lines for the queue: Pathfinder by patches of 4 x 4 pixels, 64 tokens an image, file after file of made.txt, each model
# the start of the next. Held out are images of the last kind of a file, which are the arena's in the end; `arena` goes from the
# seventh file straight to these alone.
set -eu

line() { # STAGE PRIORITY HOURS DATA STEPS EVALUATIONS RATE FROM
    data=made/pathfinder-mixed-$4
    echo "pathfinder-patches-$1-$label-$seed" $(($2 + later)) "$3" full/pathfinder.ini "$system" "$seed" \
        "data.train=$data/images-idx3-ubyte data.train-labels=$data/labels-idx1-ubyte train.steps=$5$6" \
        "train.learning-rate=$7 train.schedule=cosine train.warmup=100 train.batch=64 train.precision=bf16" \
        "model.patch=4 model.width=64 model.ff=128${8:+ train.from=pathfinder-patches-$8-$label-$seed}"
}

of() { # SYSTEM LABEL SEED LATER
    system=$1 label=$2 seed=$3 later=$4
}

chain() {
    line 1 4 0.09 1 4000 '' 0.001 ''
    line 2 4 0.09 2 4000 '' 0.001 1
    line 3 4 0.09 3 4000 '' 0.001 2
    line 4 4 0.11 4 5000 '' 0.001 3
    line 5 4 0.12 5 6000 '' 0.001 4
    line 6 4 0.23 6 12000 '' 0.001 5
    line 7 5 0.9 7 50000 ' train.eval-every=2500' 0.001 6
    line 8 5 0.9 8 50000 ' train.eval-every=2500' 0.001 7
    line 9 5 0.6 8 30000 ' train.eval-every=2500' 0.0005 8
    line 10 5 0.2 9 9000 ' train.eval-every=1500' 0.0005 9
    line arena 5 0.2 9 9000 ' train.eval-every=1500' 0.0005 7
}

# The first file for four times as long, for those that it leaves with the loss of a coin. After 8,500 of these steps Performer
# had a loss of 0.68 on images that it had seen and 0.69 on others, and was stopped.
longer() {
    line 1-long 4 0.35 1 16000 '' 0.001 ''
}

of permuteformer-2d permuteformer 1 0 && chain
of permuteformer-2d permuteformer 2 3 && chain
of performer performer 1 3 && chain && longer
of exact exact 1 3 && chain && longer
of rope-linear rope-linear 1 3 && chain
of exact-rope exact-rope 1 3 && chain
of favor+rope favor-rope 1 3 && chain
