/* longline: Transformers on very long sequences, in C.
 *
 * Attention here costs time and memory linear in the length, knows relative positions, and generates
 * with a state of constant size. The headers named below are the whole public interface of liblongline, and its
 * manual: read them from top to bottom once. Figures, reports and experiments are in liblongline-lab: longline-lab.h.
 *
 *     ll_recipe *recipe;  ll_trainer *trainer;
 *     if (ll_recipe_load(&recipe, "recipes/text-bytes.ini") ||
 *         ll_recipe_set(recipe, "data.train=my.txt") ||
 *         ll_trainer_create(&trainer, recipe, "runs/mine", NULL) ||
 *         ll_trainer_run(trainer, NULL, NULL))
 *         fprintf(stderr, "%s\n", ll_error());
 *
 * Conventions. Functions that can fail return ll_status. The text of the last error of the calling thread is
 * ll_error(), which stays after calls that succeed. A new object comes through the first argument, which is set
 * only on success. Other results come through pointers that are not const; after an error their content is
 * undefined unless something else is said. Arguments are borrowed for the call unless "keeps" is written. Objects
 * come from ll_x_create, _load, _open, _parse or _clone and go with ll_x_free (ll_input_close), which accepts NULL.
 * The library never prints, never exits, and never aborts on input. Memory that the system refuses is LL_ENOMEM,
 * except within libraries that it calls (jansson), which may then crash. A pointer may be NULL only where that is
 * said. One object may be used by one thread at a time; different objects by different threads. Streams of one
 * model are different objects: they may be fed side by side while nothing else uses the model, but are created,
 * loaded and freed one at a time. Streams that share a batcher count as one object (longline-batch.h).
 *
 * Letters: B sequences in a batch, T tokens in a sequence, C width, H heads, D query/key size of a head, E value
 * size of a head, M rows of a head's projection, m features of a head, V vocabulary. All tensors are row-major
 * float unless another type is named. */
#ifndef LONGLINE_H
#define LONGLINE_H

#include "longline/base.h"      /* version, status, machine, recipes */
#include "longline/attention.h" /* the operator by itself */
#include "longline/model.h"     /* models, streams */
#include "longline/data.h"      /* text and tokens */
#include "longline/infer.h"     /* scores, embeddings */
#include "longline/files.h"     /* sequences out of files */
#include "longline/train.h"     /* training, evaluation */

#endif
