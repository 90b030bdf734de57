/* The keys of [train]. Choices are numbered in this order by the enums of train_options.h. */
#include "train/train_options.h"

#define PART ll_train_options
#include "base/key_table.h"

// clang-format off
static const ll_key keys[] = {
    INT64_IF("train.steps", steps, "10000", 0, 1000000000000, "number of updates of the parameters", NULL, RESUMABLE),
    INT64_IF("train.warmup", warmup, "500", 0, 1000000000000, "steps in which the learning rate rises linearly from 0",
             NULL, RESUMABLE),
    INT("train.batch", batch, "8", 1, 65536, "sequences in a batch"),
    INT("train.length", length, "1024", 0, 134217728, "tokens of a sequence; 0 = as the data has (images)"),
    FLAG("train.carry-state", carry_state, "off",
         "consecutive windows of a text in each row, each starting with the state that the one before left; evaluation "
         "starts every window without one; task = lm"),
    FLAG_IF("train.recompute", recompute, "off",
            "store only the input of each block and compute the block again on the way back: the same bits in less "
            "memory, in about a sixth more time", NULL, RESUMABLE),
    INT_IF("train.chunk", chunk, "0", 0, 134217728,
           "tokens of a sequence that go through the network at a time: the gradient of the whole in the memory of a "
           "chunk, in about a third more time; task = lm; 0 = all", NULL, RESUMABLE),
    INT("train.accumulate", accumulate, "1", 1, 65536, "batches whose gradients are summed for one step"),
    CHOICE("train.precision", precision, "fp32", "fp32|bf16",
           "number format of products of layers, logits and attention, but for causal sums of linear attention and for "
           "reformer; bf16 is faster on AMD processors from Zen 4 on"),
    CHOICE("train.optimizer", optimizer, "adamw", "adam|adamw",
           "Adam with weight decay added to the gradient, or AdamW"),
    CHOICE_IF("train.schedule", schedule, "cosine", "constant|linear|inverse-sqrt|cosine",
              "course of the learning rate after the warm-up", NULL, RESUMABLE),
    NUMBER_IF("train.learning-rate", learning_rate, "0.0005", 0, 100, "highest learning rate", NULL, RESUMABLE),
    NUMBER_IF("train.final-rate", final_rate, "0", 0, 100, "learning rate at the last step",
              "train.schedule=linear|cosine", RESUMABLE),
    NUMBER("train.beta1", beta1, "0.9", 0, 0.999999, "decay of the moving mean of gradients"),
    NUMBER("train.beta2", beta2, "0.98", 0, 0.999999, "decay of the moving mean of squared gradients"),
    NUMBER("train.eps", eps, "1e-08", 1e-20, 1, "added to the root of the mean of squared gradients"),
    NUMBER_IF("train.weight-decay", weight_decay, "0.01", 0, 10, "weight decay, in units of the learning rate",
              NULL, RESUMABLE),
    NUMBER_IF("train.clip", clip, "1", 0, 1e9, "largest norm of a gradient; 0 = no limit", NULL, RESUMABLE),
    INT64("train.seed", seed, "1", 0, 9223372036854775807, "seed of all random numbers"),
    INT64_IF("train.eval-every", eval_every, "500", 0, 1000000000000, "steps between evaluations; 0 = only at the end",
             NULL, RESUMABLE),
    INT_IF("train.eval-batches", eval_batches, "20", 0, 1000000000, "batches of an evaluation; 0 = the whole split",
           NULL, RESUMABLE),
    INT64_IF("train.checkpoint-every", checkpoint_every, "1000", 0, 1000000000000,
             "steps between checkpoints; 0 = only at the end", NULL, RESUMABLE),
    TEXT("train.from", from,
         "model file, or folder of a run, whose weights this run starts with, where names and shapes are the same"),
    CHOICE("train.distil", distil, "none", "none|attention|logits|both",
           "learn from a teacher: what each layer's attention gives, which changes attention alone; or the logits; or "
           "first the one, then the other"),
    TEXT_IF("train.teacher", teacher,
            "model file, or folder of a run, to learn from; empty = the one that train.from names",
            "train.distil=attention|logits|both", RESUMABLE),
    INT64_IF("train.distil-switch", distil_switch, "0", 0, 1000000000000,
             "last step that matches attention; 0 = half of those with a teacher when the run begins",
             "train.distil=both"),
    INT64_IF("train.distil-until", distil_until, "0", 0, 1000000000000,
             "last step with a teacher, after which the data is all there is to learn from; 0 = the last one",
             "train.distil=attention|logits|both"),
    NUMBER_IF("train.distil-weight", distil_weight, "0.5", 0, 1,
              "share of the teacher's logits in the loss, the rest is that of the data", "train.distil=logits|both"),
    NUMBER_IF("train.distil-temperature", distil_temperature, "1", 0.01, 100,
              "what logits of both are divided by before they are compared", "train.distil=logits|both"),
    CHOICE_IF("train.on-divergence", on_divergence, "stop", "stop|rewind",
              "what a run does that diverges: it ends where a loss or gradient is not finite; or it goes back to its "
              "last checkpoint and on with half the learning rate, at most three times, also where the loss is far "
              "above chance", NULL, RESUMABLE),
    CHOICE_IF("train.preempt", preempt, "off", "off|SIGUSR1|SIGUSR2",
              "signal that announces the end of a job's time: the run saves, and exits with 0", NULL, RESUMABLE),
    FLAG_IF("train.report", report, "on", "writes report.html at evaluations, and with all figures at the end",
            NULL, RESUMABLE),
};
// clang-format on

const ll_key_table ll_train_keys = {keys, sizeof keys / sizeof *keys};
