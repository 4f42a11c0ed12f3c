/* The post_processor of tokenizer.json: which ids go around those of the text. */
#ifndef LOCKSTEP_TEXT_POSTPROCESS_H
#define LOCKSTEP_TEXT_POSTPROCESS_H

#include "base/json.h"
#include "text/tokenizer.h"

/* Templates applied one after the other; in each, an id, or TEXT for what there was before. */
enum { TEMPLATE_TEXT = -1, TEMPLATE_END = -2 };

typedef struct Postprocessor {
    IdList items;
} Postprocessor;

bool postprocessor_load(Postprocessor *p, const JsonValue *v, Error *err); /* v NULL or null: nothing is added */
/* One id before and one behind the text; -1: none. */
bool postprocessor_set(Postprocessor *p, int32_t before, int32_t behind, Error *err);
void postprocessor_clear(Postprocessor *p);
/* Replaces ids from `start` on by the templates' result. */
bool postprocess(const Postprocessor *p, IdList *ids, size_t start, Error *err);

#endif
