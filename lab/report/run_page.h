/* Pages of runs: their parts. */
#ifndef LL_RUN_PAGE_H
#define LL_RUN_PAGE_H

#include "report/html.h"

/* NaN or 0 if unknown. */
typedef struct {
    double steps, planned, tokens, train_bits;
    double missed, distil;                      /* of train.distil: the % of attention, the nats of the logits' loss */
    double best_bits, best_step, best_accuracy; /* on held-out data */
    double seconds, speed, memory;              /* wall time, tokens a second, bytes */
    double majority;                            /* held-out examples: the share of the most frequent class */
    double parameters;                          /* only the model can give these: */
    ll_evaluation test;                         /* count 0: not tested */
    int test_whole;                             /* on all of the data */
} ll_run_facts;

/* All but the last four. */
ll_run_facts ll_run_facts_of(const ll_run *run);

/* "12,345". */
void ll_count_text(char *out, size_t size, double v);
enum { LL_RESULT_TEXT = 96 };
/* Row number `row` of the table of results: its label and its value; NULL after the last. */
const char *ll_run_result(const ll_run *run, const ll_run_facts *facts, int row, char out[LL_RESULT_TEXT]);
/* The model in a sentence. */
void ll_run_describe(const ll_run *run, char *out, size_t size);
/* The most important numbers. */
void ll_run_tiles(ll_html *h, const ll_run *run, const ll_run_facts *facts);

/* Parts of a run's page in this order; other parts come between loss and costs. */
void ll_run_page_results(ll_html *h, const ll_run *run, const ll_run_facts *facts);
void ll_run_page_loss(ll_html *h, const ll_run *run);
void ll_run_page_costs(ll_html *h, const ll_run *run);
void ll_run_page_recipe(ll_html *h, const ll_run *run);

enum { LL_UNIT_TEXT = 64 };
/* The unit of the runs that have a curve: "byte"; or their units: "byte or example". */
void ll_common_unit(char out[LL_UNIT_TEXT], const ll_run *runs, const ll_curve *curves, int n);
/* Notes why losses of runs do not compare: other units, or other vocabularies. */
void ll_compare_note(ll_html *h, const ll_run *runs, int n);
/* The page of some runs side by side; facts (n). */
void ll_compare_page(ll_html *h, const ll_run *runs, const ll_run_facts *facts, int n);

#endif
