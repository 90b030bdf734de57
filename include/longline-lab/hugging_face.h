/* Models of other programs: folders as Hugging Face's libraries write them. */
#ifndef LL_HUGGING_FACE_H
#define LL_HUGGING_FACE_H

#include "longline/data.h"
#include "longline/model.h"

LL_C_BEGIN

/* A model from a folder with config.json and weights: model.safetensors, or the files that model.safetensors.index.json
 * names, of F32, F16, BF16 or F64. Families: GPT-2, GPT-NeoX, LLaMA (Mistral, Qwen2), BERT, RoBERTa, RoFormer, ESM-2,
 * ViT. Every tensor of the folder is used, or kept for ll_model_export with the other files of the folder. The
 * folder's tokenizer, as ll_tokenizer_import reads it, becomes the model's, unless with_tokenizer is 0 or there is
 * none. progress may be NULL; it counts tensors. LL_EINVAL: something cannot be imported; the error has the remedy.
 * LL_EFORMAT names the file with the key or tensor that is missing, left over or wrong. O(size). */
LL_API LL_MUST_USE ll_status ll_model_import(ll_model **model, const char *folder, int with_tokenizer,
                                             ll_done_fn *progress, void *arg);

/* A tokenizer by itself: a file tokenizer.json, or a folder that has one, or the older vocab.txt, or vocab.json and
 * merges.txt. Byte-level BPE, BPE, WordPiece and Unigram are known, with what the tokenizers library does to texts
 * before and after. LL_EINVAL, LL_EFORMAT: which part is missing, damaged or unknown. O(size). */
LL_API LL_MUST_USE ll_status ll_tokenizer_import(ll_tokenizer **tokenizer, const char *path);

/* Writes the folder that a model was imported from, with the weights that the model has now, in the original files and
 * number types; if nothing was trained, all bytes are the original ones. LL_EINVAL if the model was not imported, if
 * its recipe is no longer what the folder's config.json says, or if a file of the folder that would be replaced is not
 * of an earlier export of the model; then nothing is written. */
LL_API LL_MUST_USE ll_status ll_model_export(const ll_model *model, const char *folder);

LL_C_END

#endif
