/* Labels of examples: numbers, or names of classes. */
#ifndef LL_CLASS_LABELS_H
#define LL_CLASS_LABELS_H

#include "data/data_options.h"
#include "data/text/cells.h"

enum { LL_CLASSES_MOST = 256 };

/* The number of a label: its place in a list "neg,pos", or (list NULL) the number that it is; -1: it is neither. */
int ll_label_number(const char *list, const ll_slice *label);

/* data.classes; NULL: it is empty. */
const char *ll_class_list(const ll_reader_options *c);

/* The labels of a file, seen one after the other. */
typedef struct ll_labels ll_labels;
/* Without data.classes all labels are numbers, or the names are those that occur. In the splits besides train they must
 * be numbers then: names of train would have come as data.classes. `name` is how errors call the file, and `key`
 * the recipe's key that says where its labels are; NULL: there is none. LL_EINVAL: data.classes does not have at most
 * LL_CLASSES_MOST different names. */
LL_MUST_USE ll_status ll_labels_create(ll_labels **labels, const ll_reader_options *c, int split, const char *name,
                                       const char *key);
void ll_labels_free(ll_labels *l);
/* line: of the file, or 0 where the label has none, for errors. LL_EFORMAT if the label is not in data.classes, or if
 * it should be a number and is none. */
LL_MUST_USE ll_status ll_labels_see(ll_labels *l, const ll_slice *label, int64_t line);
/* After the last one: the largest number of a label, and if the names are those that occur, their list in new memory,
 * sorted; else NULL. LL_EFORMAT: train has no example of a class of data.classes. */
LL_MUST_USE ll_status ll_labels_end(ll_labels *l, int *most, char **list);
/* The line of the first example with the largest number; 0: unknown. */
int64_t ll_labels_line(const ll_labels *l);
/* The label of the first example, if no other example has it and others do share theirs: it may be the name of a
 * column. Else "". */
void ll_labels_heading(const ll_labels *l, char *out, size_t size);

#endif
