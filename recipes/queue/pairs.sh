#!/bin/sh
# Prints lines for the queue: every kernel with every position that it goes with, on three tasks, seeds 1 to 3, seed by seed.
# `longline list --pairs` says which go together and why others do not.
set -eu
before='none sinusoidal learned rope sine-spe conv-spe relative-s1 relative-s2'
positions() { # KERNEL
    case $1 in
    softmax) echo "$before t5 shaw" ;;
    value) echo none sinusoidal learned ;;
    local | linformer | nystrom) echo none sinusoidal learned rope sine-spe conv-spe relative-s1 ;;
    reformer) echo none sinusoidal learned rope ;;
    *) echo "$before permute permute2d rope-linear orthogonal" ;;
    esac
}
for seed in 1 2 3; do
    for task in images bytes lists; do
        for kernel in softmax favor relu elu1 exp sigmoid abs gelu cos tanh identity square value local linformer nystrom \
            reformer; do
            for position in $(positions $kernel); do
                more=
                case $task-$position in
                images-conv-spe) more=' position.image=on position.taps=8' ;;
                images-relative-s?) more=' position.image=on' ;;
                bytes-permute2d | lists-permute2d) continue ;; # no rows and columns
                esac
                case $task-$kernel in bytes-linformer | bytes-nystrom) continue ;; esac # see later tokens
                echo "pair-$task-$kernel+$position-$seed $((7 + (seed > 1))) 0.006 full/pair-$task.ini $kernel+$position $seed$more"
            done
        done
    done
done
