/* Draws rows "row,column,value" of a CSV file, after a line with names, as a heat map with numbers. Rows and columns
 * stand in the order of their first appearance. Pairs that the file lacks, or whose value is empty, are gray.
 *
 *     cc heat.c $(pkg-config --cflags --libs longline-lab) && ./a.out results.csv out.svg "Title" */
#include <longline-lab.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LINE = 256 };

typedef struct {
    char text[MOST][64];
    const char *name[MOST];
    int count;
} names;

/* The number of a name, which is new where there is none like it; -1: there are too many. */
static int number_of(names *n, const char *from, size_t length) {
    for (int i = 0; i < n->count; i++)
        if (strlen(n->text[i]) == length && !strncmp(n->text[i], from, length)) return i;
    if (n->count == MOST) return -1;
    snprintf(n->text[n->count], sizeof n->text[0], "%.*s", (int)length, from);
    n->name[n->count] = n->text[n->count];
    return n->count++;
}

int main(int argc, char **argv) {
    static names row, column;
    static float cell[MOST][MOST], value[MOST * MOST];
    char line[LINE];
    FILE *file = argc == 4 ? fopen(argv[1], "r") : NULL;
    if (!file || !fgets(line, sizeof line, file)) {
        fprintf(stderr, argc == 4 ? "%s: cannot be read\n" : "usage: %s ROWS.csv FIGURE.svg TITLE\n", argv[argc == 4]);
        return 2;
    }
    for (int i = 0; i < MOST * MOST; i++) cell[i / MOST][i % MOST] = NAN;
    while (fgets(line, sizeof line, file)) {
        const size_t first = strcspn(line, ","), second = line[first] ? strcspn(line + first + 1, ",") : 0;
        const int i = number_of(&row, line, first);
        const int k = second ? number_of(&column, line + first + 1, second) : -1;
        if (i < 0 || (second && k < 0)) {
            fprintf(stderr, "%s: more than %d rows or columns\n", argv[1], MOST);
            return 2;
        }
        if (k < 0) continue;
        const char *number = line + first + second + 2;
        char *end;
        const float read = strtof(number, &end);
        if (end != number) cell[i][k] = read;
    }
    fclose(file);
    for (int i = 0; i < row.count * column.count; i++) value[i] = cell[i / column.count][i % column.count];
    const ll_panel panel = {"", row.count, column.count, value};
    const ll_heat_map map = {.title = argv[3],
                             .shades = LL_SHADES_RANGE,
                             .n = 1,
                             .panels = &panel,
                             .names = row.name,
                             .columns = column.name,
                             .numbers = 1};
    if (!ll_heat_map_write(&map, argv[2])) return 0;
    fprintf(stderr, "%s\n", ll_error());
    return 1;
}
