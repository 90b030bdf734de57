/* Labels of examples: numbers, or names of classes. */
#ifndef LL_CLASS_LABELS_H
#define LL_CLASS_LABELS_H

#include "data/text/cells.h"

enum { LL_CLASSES_MOST = 256 };

/* The number of a label: its place in a list "neg,pos", or (list NULL) the number that it is; -1: it is neither. */
int ll_label_number(const char *list, const ll_slice *label);

/* The label of a file in a folder: the first folder below. 0: it lies in none, or in one that is not in the list. */
int ll_label_of_file(ll_slice *label, const char *folder, const char *file, const char *list);
/* LL_EINVAL: no file of the folder has a label. */
LL_MUST_USE ll_status ll_label_missing(const char *folder, const char *list);

/* The labels of a file, seen one after the other. */
typedef struct ll_labels ll_labels;
/* list: the names of the classes; NULL: all labels are numbers, or the names are those that occur. numbers: without
 * a list, all labels must be numbers. The splits besides train ask for that: names of train would have come as the
 * list. `name` is how errors call the file. LL_EINVAL: the list does not have at most LL_CLASSES_MOST different names.
 */
LL_MUST_USE ll_status ll_labels_create(ll_labels **labels, const char *list, int numbers, const char *name);
void ll_labels_free(ll_labels *l);
/* LL_EFORMAT if there is a list and the label is not in it, or if the label should be a number and is none. */
LL_MUST_USE ll_status ll_labels_see(ll_labels *l, const ll_slice *label);
/* After the last one: the largest number of a label, and if the names are those that occur, their list in new memory,
 * sorted; else NULL. */
LL_MUST_USE ll_status ll_labels_end(ll_labels *l, int *most, char **list);
/* The label of the first example, if no other example has it and others do share theirs: it may be the name of a
 * column. Else "". */
void ll_labels_heading(const ll_labels *l, char *out, size_t size);

#endif
