/* The post_processor of tokenizer.json: which ids go around those of the text. */
#ifndef LOCKSTEP_TEXT_POSTPROCESS_H
#define LOCKSTEP_TEXT_POSTPROCESS_H

#include "base/json.h"
#include "text/tokenizer.h"

/* Templates applied one after the other; in each, an id, or TEXT for what there was before. The one for a pair of texts
 * has TEXT for the first and SECOND for the other. */
enum { TEMPLATE_TEXT = -1, TEMPLATE_END = -2, TEMPLATE_SECOND = -3 };

typedef struct Postprocessor {
    IdList items;
    IdList pair, pair_types; /* the type of each item's tokens; empty: the files say nothing of pairs */
} Postprocessor;

/* v NULL or null: nothing is added. */
bool postprocessor_load(Postprocessor *p, const JsonValue *v, Error *err);
/* One id before and one behind the text; -1: none. */
bool postprocessor_set(Postprocessor *p, int32_t before, int32_t behind, Error *err);
void postprocessor_clear(Postprocessor *p);
/* Replaces ids from `start` on by the templates' result. */
bool postprocess(const Postprocessor *p, IdList *ids, size_t start, Error *err);
/* How many special tokens a pair has. */
size_t postprocessor_pair_added(const Postprocessor *p);
/* Appends the ids of a pair, and the type of each. */
bool postprocess_pair(const Postprocessor *p, const IdList *first, const IdList *second, IdList *ids, IdList *types,
                      Error *err);

#endif
