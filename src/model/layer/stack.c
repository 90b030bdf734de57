/* Which stacks a model has, and which attention operators belong to each. */
#include <stdio.h>

#include "model/network.h"

void ll_stacks_plan(ll_model *m) {
    const ll_model_config *c = m->c;
    const int layers = c->model.layers, encoder = c->model.encoder_layers ? c->model.encoder_layers : layers;
    if (c->model.task != LL_TASK_SEQ2SEQ) {
        m->stack[0] = (ll_stack){.prefix = "", .layers = layers, .causal = c->model.task == LL_TASK_LM, .parts = 2};
        m->stacks = 1;
        m->operators = layers;
        return;
    }
    m->stack[0] = (ll_stack){.prefix = "encoder.", .layers = encoder, .parts = 2};
    m->stack[1] = (ll_stack){.prefix = "decoder.", .layers = layers, .causal = 1, .parts = 3};
    m->stack[1].first = encoder;
    m->stacks = 2;
    m->operators = encoder + 2 * layers;
}

const ll_stack *ll_top_stack(const ll_model *m) { return &m->stack[m->stacks - 1]; }

ll_operator_location ll_operator_at(const ll_model *m, int op) {
    const ll_stack *s = &m->stack[m->stacks > 1 && op >= m->stack[1].first];
    const int layer = op - s->first;
    return layer < s->layers ? (ll_operator_location){s, layer, 0} : (ll_operator_location){s, layer - s->layers, 1};
}

int ll_operator_of(const ll_stack *stack, int layer, int cross) {
    return stack->first + layer + (cross ? stack->layers : 0);
}

void ll_operator_prefix(const ll_model *m, int op, char prefix[LL_PREFIX]) {
    const ll_operator_location at = ll_operator_at(m, op);
    snprintf(prefix, LL_PREFIX, "%sblocks.%d.", at.stack->prefix, at.layer);
}

ll_batch_run ll_source_run(const ll_batch_run *run) {
    ll_workspace *ws = run->ws->source;
    ll_batch_run source = *run;
    source.ws = ws;
    source.stack = ws->stack;
    source.tokens = run->source;
    source.source = NULL;
    source.T = run->S;
    source.rows = (size_t)run->B * (size_t)run->S;
    source.lengths = ws->lengths;
    source.position = 0;
    source.reads = LL_READS_ALL;
    return source;
}

int ll_sublayers(const ll_stack *stack) { return stack->parts * stack->layers; }
