/* What the oracle's forward and backward share. */
#ifndef LL_ORACLE_INSIDE_H
#define LL_ORACLE_INSIDE_H

#include "oracle.h"

/* One head of one sequence: the last row that oracle_row_forward computed, and the keys' features for it. */
typedef struct {
    const oracle_case *o;
    int b, h, m;
    int *from;             /* (tokens, m): feature f of a token after its position is feature from[t][f] of phi */
    double shift;          /* of phi_k */
    double *phi_q, *phi_k; /* (m), (S, m): after the position */
    double *plain;         /* (m) scratch */
    double *A, *num;       /* (S) weights, (E) weighted sum of values */
    double *rotated;       /* (S) weights of the values under rope-linear, where they are not A */
    double s, den;         /* sum of weights, divisor */
    int keys;              /* number of keys that the row sees */
} oracle_head;

void *oracle_alloc(size_t n, size_t size); /* zeroed */
size_t oracle_row(const oracle_case *o, int b, int h, int t, int tokens);
int oracle_queries(const oracle_case *o, int b);
int oracle_softmax(const ll_attention_config *c); /* whether or not it is seen */
int oracle_trigonometric(const ll_attention_config *c);
double oracle_weight(const ll_attention_config *c, int f, int e);
double oracle_map(ll_kernel kernel, double u, double *slope);
double oracle_favor(const ll_attention_config *c, int f, double u, double n, double shift, double *du, double *dn);
double oracle_project(const ll_attention_config *c, const double *x, double *u);
double oracle_decay(const oracle_case *o, int b, int h, int i, int j);
oracle_head oracle_head_create(const oracle_case *o, int b, int h);
void oracle_head_free(oracle_head *a);
void oracle_row_forward(oracle_head *a, int i, double query_shift, double key_shift);

#endif
