/* Prints the predictions of a model. For each token of a sequence it prints a row with the log-probability of every
 * token that may follow it; for a masked language model, of every token that may stand there; for a classifier one row
 * with that of every class.
 *
 *     cc log_probabilities.c $(pkg-config --cflags --libs longline) && ./a.out runs/mine/best.safetensors 72 101 108
 */
#include <longline.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the exit code. */
static int print_rows(ll_model *model, const int *tokens, int n) {
    const ll_model_sizes size = ll_model_size(model);
    const int rows = size.classes ? 1 : n, V = size.classes ? size.classes : size.vocab;
    float *logp = malloc((size_t)rows * (size_t)V * sizeof *logp);
    if (!logp) return fputs("no memory for the rows\n", stderr), 1;
    const ll_status status = ll_model_logp(model, logp, tokens, NULL, 1, n);
    for (int t = 0; !status && t < rows; t++)
        for (int v = 0; v < V; v++) printf("%.9g%c", (double)logp[t * V + v], v + 1 < V ? ' ' : '\n');
    free(logp);
    if (status) fprintf(stderr, "%s\n", ll_error());
    return status != LL_OK;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL TOKEN...\n", argv[0]);
        return 2;
    }
    ll_model *model = NULL;
    int *tokens = malloc((size_t)argc * sizeof *tokens);
    if (!tokens) return fputs("no memory for the tokens\n", stderr), 1;
    for (int i = 2; i < argc; i++) tokens[i - 2] = atoi(argv[i]);
    const ll_status status = ll_model_load(&model, argv[1]);
    if (status) fprintf(stderr, "%s\n", ll_error());
    const int code = status ? 1 : print_rows(model, tokens, argc - 2);
    ll_model_free(model);
    free(tokens);
    return code;
}
