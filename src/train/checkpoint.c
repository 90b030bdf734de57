/* last.safetensors: the model as ll_model_write writes it, and what a run needs to continue:
 *
 *   adam.m.NAME, adam.v.NAME   moments of the parameter NAME, in its shape
 *   train.counters             int64: step, tokens, row, evaluated, best_step, data_size
 *   train.rows                 uint8: the checksum of some rows of the train split
 *   train.evaluation           uint8: the checksum of the evaluation that best_loss is of, after the first one
 *   train.teacher              uint8: the digest of the teacher, with train.distil
 *   train.carry                float32: states that windows pass on, with train.carry-state
 *   train.carry-offset         int64: tokens of its document before each row, where model.separator begins documents
 *   train.rewinds              int64: how often the run went back because it diverged; only if it did
 *   train.back                 float64: step and loss of the checkpoint it would go back to, if that is another one
 *   train.measures             float64: valid_loss, valid_accuracy, best_loss, norm, then the losses and
 *                              counts of the last steps
 *
 * It contains no time and no path, so that the same run writes the same bytes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "train/train_internal.h"

enum { COUNTERS = 6, MEASURES = 4 + 2 * LL_ROW_EVERY, NAME = 96 };

static const char CARRY[] = "train.carry", CARRY_OFFSET[] = "train.carry-offset", TEACHER[] = "train.teacher";
static const char ROWS[] = "train.rows", REWINDS[] = "train.rewinds", BACK[] = "train.back",
                  EVALUATION[] = "train.evaluation";
static const char *const MOMENT[2] = {"adam.m.", "adam.v."};

/* Copies between the struct and the two arrays of the file; `load` gives the direction. */
static void counters(ll_run_state *s, int64_t *x, int load) {
    int64_t *field[COUNTERS] = {&s->step, &s->tokens, &s->row, &s->evaluated, &s->best_step, &s->data_size};
    for (int i = 0; i < COUNTERS; i++)
        if (load)
            *field[i] = x[i];
        else
            x[i] = *field[i];
}

static void measures(ll_run_state *s, double *x, int load) {
    double *field[4] = {&s->valid_loss, &s->valid_accuracy, &s->best_loss, &s->norm};
    for (int i = 0; i < MEASURES; i++) {
        double *f = i < 4 ? field[i] : i < 4 + LL_ROW_EVERY ? &s->loss[i - 4] : &s->count[i - 4 - LL_ROW_EVERY];
        if (load)
            *f = x[i];
        else
            x[i] = *f;
    }
}

static ll_status add_moments(ll_st_writer *writer, const ll_model *model, const ll_optimizer *o) {
    char name[NAME];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < model->count; i++) {
            const ll_param *p = &model->param[i];
            const size_t shape[2] = {(size_t)p->rows, (size_t)p->cols};
            snprintf(name, sizeof name, "%s%s", MOMENT[k], p->name);
            ll_status status =
                ll_st_add(writer, name, LL_F32, p->cols == 1 ? 1 : 2, shape, (k ? o->v : o->m) + p->offset);
            if (status) return status;
        }
    return LL_OK;
}

/* Where documents begin with a separator, the text does not tell how many tokens of one have been read. */
static ll_status add_carry(ll_st_writer *writer, const ll_carry *c) {
    const ll_status status = ll_st_add(writer, CARRY, LL_F32, 1, &c->count, c->in);
    if (status || c->model->c->model.separator < 0) return status;
    return ll_st_add(writer, CARRY_OFFSET, LL_I64, 1, (size_t[]){(size_t)c->B}, c->offset);
}

ll_status ll_checkpoint_save(const char *path, const ll_engine *e, const ll_run_state *state) {
    ll_run_state copy = *state;
    int64_t whole[COUNTERS];
    double real[MEASURES];
    counters(&copy, whole, 0);
    measures(&copy, real, 0);
    ll_st_writer *writer = NULL;
    ll_status status = ll_st_writer_create(&writer);
    if (!status) status = ll_model_write(e->model, writer);
    if (!status) status = add_moments(writer, e->model, e->optimizer);
    if (!status && e->carry) status = add_carry(writer, e->carry);
    if (!status && e->teacher)
        status = ll_st_add(writer, TEACHER, LL_U8, 1, (size_t[]){LL_DIGEST_TEXT - 1}, e->taught_by);
    if (!status) status = ll_st_add(writer, "train.counters", LL_I64, 1, (size_t[]){COUNTERS}, whole);
    if (!status && *copy.data_sum)
        status = ll_st_add(writer, ROWS, LL_U8, 1, (size_t[]){LL_CHECKSUM_TEXT - 1}, copy.data_sum);
    if (!status && *copy.best_sum)
        status = ll_st_add(writer, EVALUATION, LL_U8, 1, (size_t[]){LL_CHECKSUM_TEXT - 1}, copy.best_sum);
    if (!status && copy.rewinds) status = ll_st_add(writer, REWINDS, LL_I64, 1, (size_t[]){1}, &copy.rewinds);
    const double back[2] = {(double)copy.rewind_step, copy.rewind_loss};
    if (!status && copy.rewind_aside) status = ll_st_add(writer, BACK, LL_F64, 1, (size_t[]){2}, back);
    if (!status) status = ll_st_add(writer, "train.measures", LL_F64, 1, (size_t[]){MEASURES}, real);
    if (!status) status = ll_st_save(writer, path);
    ll_st_writer_free(writer);
    return status;
}

static ll_status find(const ll_st_tensor **tensor, const ll_safetensors *file, const char *name, enum ll_dtype dtype,
                      size_t count) {
    const ll_st_tensor *found = ll_safetensors_find(file, name);
    if (!found)
        return ll_fail(LL_EFORMAT,
                       "%s has no tensor %s, so it cannot be resumed; only the last.safetensors of a run can be",
                       ll_safetensors_path(file), name);
    if (found->dtype != dtype || found->count != count)
        return ll_fail(LL_EFORMAT, "%s: tensor %s has %zu elements or another type than a run would have written",
                       ll_safetensors_path(file), name, found->count);
    *tensor = found;
    return LL_OK;
}

static ll_status read_rewinds(ll_run_state *state, const ll_safetensors *file) {
    const ll_st_tensor *tensor = NULL;
    state->rewinds = 0;
    if (!ll_safetensors_find(file, REWINDS)) return LL_OK;
    const ll_status status = find(&tensor, file, REWINDS, LL_I64, 1);
    if (status) return status;
    memcpy(&state->rewinds, tensor->data, sizeof state->rewinds);
    if (state->rewinds >= 1 && state->rewinds <= LL_REWINDS) return LL_OK;
    return ll_fail(LL_EFORMAT, "%s: %s holds %lld; the file is damaged", ll_safetensors_path(file), REWINDS,
                   (long long)state->rewinds);
}

/* Checkpoints of earlier versions have none. */
static ll_status read_sum(char sum[LL_CHECKSUM_TEXT], const ll_safetensors *file, const char *name) {
    const ll_st_tensor *tensor = NULL;
    *sum = 0;
    if (!ll_safetensors_find(file, name)) return LL_OK;
    const ll_status status = find(&tensor, file, name, LL_U8, LL_CHECKSUM_TEXT - 1);
    if (!status) memcpy(sum, tensor->data, LL_CHECKSUM_TEXT - 1);
    return status;
}

void ll_rewind_point_set(ll_run_state *state) {
    state->rewind_aside = 0;
    state->rewind_step = state->step;
}

static ll_status read_back(ll_run_state *state, const ll_safetensors *file) {
    const ll_st_tensor *tensor = NULL;
    double back[2];
    ll_rewind_point_set(state);
    if (!ll_safetensors_find(file, BACK)) return LL_OK;
    const ll_status status = find(&tensor, file, BACK, LL_F64, 2);
    if (status) return status;
    ll_st_doubles(back, tensor);
    if (!(back[0] >= 0 && back[0] < (double)state->step))
        return ll_fail(LL_EFORMAT, "%s: %s holds step %g; the file is damaged", ll_safetensors_path(file), BACK,
                       back[0]);
    state->rewind_aside = 1;
    state->rewind_step = (int64_t)back[0];
    state->rewind_loss = back[1];
    return LL_OK;
}

ll_status ll_checkpoint_state(ll_run_state *state, const ll_safetensors *file) {
    const ll_st_tensor *whole = NULL, *real = NULL;
    int64_t x[COUNTERS];
    double y[MEASURES];
    ll_status status = find(&whole, file, "train.counters", LL_I64, COUNTERS);
    if (!status) status = find(&real, file, "train.measures", LL_F64, MEASURES);
    if (status) return status;
    memcpy(x, whole->data, sizeof x);
    ll_st_doubles(y, real);
    for (int i = 0; i < COUNTERS; i++)
        if (x[i] < 0 || x[i] > INT64_C(1) << 52)
            return ll_fail(LL_EFORMAT, "%s: train.counters holds %lld; the file is damaged", ll_safetensors_path(file),
                           (long long)x[i]);
    counters(state, x, 1);
    measures(state, y, 1);
    status = read_sum(state->data_sum, file, ROWS);
    if (!status) status = read_sum(state->best_sum, file, EVALUATION);
    if (!status) status = read_rewinds(state, file);
    return status ? status : read_back(state, file);
}

static ll_status read_carry(ll_carry *carry, const ll_safetensors *file) {
    const ll_st_tensor *tensor = NULL;
    if (!carry) return LL_OK;
    ll_status status = find(&tensor, file, CARRY, LL_F32, carry->count);
    if (status) return status;
    ll_st_floats(carry->in, tensor);
    status = ll_carry_check(carry);
    if (status == LL_EFORMAT)
        return ll_fail(status, "%s: %s: %s; the file is damaged", ll_safetensors_path(file), CARRY, ll_error());
    if (status) return status;
    if (carry->model->c->model.separator < 0) return LL_OK;
    status = find(&tensor, file, CARRY_OFFSET, LL_I64, (size_t)carry->B);
    if (status) return status;
    memcpy(carry->offset, tensor->data, (size_t)carry->B * sizeof *carry->offset);
    for (int b = 0; b < carry->B; b++)
        if (carry->offset[b] < 0)
            return ll_fail(LL_EFORMAT, "%s: %s holds %lld; the file is damaged", ll_safetensors_path(file),
                           CARRY_OFFSET, (long long)carry->offset[b]);
    return LL_OK;
}

/* A run goes on to the same bits only with the same teacher. */
static ll_status check_teacher(const ll_engine *e, const ll_safetensors *file) {
    const ll_st_tensor *tensor = NULL;
    if (!e->teacher) return LL_OK;
    const ll_status status = find(&tensor, file, TEACHER, LL_U8, LL_DIGEST_TEXT - 1);
    if (status || !memcmp(tensor->data, e->taught_by, LL_DIGEST_TEXT - 1)) return status;
    return ll_fail(LL_EINVAL,
                   "%s was taught by another model than the teacher there is now; set train.teacher to the one that "
                   "the run began with",
                   ll_safetensors_path(file));
}

/* Copies this rank's pieces of a tensor of moments; `piece` is the first one. Returns the first one of the next tensor.
 * The pieces of other ranks stay as they are: memory that is never written takes no place. */
static size_t read_own(float *to, const ll_optimizer *o, size_t piece, const ll_st_tensor *tensor) {
    const char *from = tensor->data;
    for (size_t done = 0; done < tensor->count; done += o->piece[piece++].count) {
        const ll_piece *p = &o->piece[piece];
        if (p->own) memcpy(to + p->offset, from + done * sizeof *to, p->count * sizeof *to);
    }
    return piece;
}

ll_status ll_checkpoint_moments(ll_engine *e, const ll_safetensors *file) {
    const ll_model *model = e->model;
    const ll_optimizer *o = e->optimizer;
    char name[NAME];
    ll_status status = check_teacher(e, file);
    if (status) return status;
    for (int k = 0; k < 2; k++) {
        size_t piece = 0;
        for (int i = 0; i < model->count; i++) {
            const ll_param *p = &model->param[i];
            const ll_st_tensor *tensor = NULL;
            snprintf(name, sizeof name, "%s%s", MOMENT[k], p->name);
            status = find(&tensor, file, name, LL_F32, (size_t)p->rows * (size_t)p->cols);
            if (status) return status;
            piece = read_own(k ? o->v : o->m, o, piece, tensor);
        }
    }
    return read_carry(e->carry, file);
}

ll_status ll_run_load(ll_model **model, const char *folder) {
    static const char *const names[2] = {"best.safetensors", "last.safetensors"};
    ll_status status = LL_OK;
    for (int i = 0; i < 2 && !*model && !status; i++) {
        char *path = ll_path_join(folder, names[i]);
        if (!path) return LL_ENOMEM;
        if (!ll_is_absent(path)) status = ll_model_load(model, path);
        ll_free(path);
    }
    return status;
}
