/* Lists of modules in a quantization_config, by name: what is quantised, or what is not. */
#ifndef LOCKSTEP_MODEL_MODULE_LIST_H
#define LOCKSTEP_MODEL_MODULE_LIST_H

#include "base/json.h"
#include "text/pattern.h"

/* How the entries are meant. */
typedef enum ModuleListKind {
    /* compressed-tensors: "re:" and an expression from the name's start on, a whole name, or the class "Linear" */
    MODULES_TARGETS,
    /* transformers' modules_to_not_convert: an expression from the start to the end or to a dot, or a name's ending */
    MODULES_SKIPPED,
} ModuleListKind;

typedef struct ModulePattern {
    const char *text; /* borrowed from the config */
    Pattern *pattern; /* NULL: only `text` */
} ModulePattern;

typedef struct ModuleList {
    ModuleListKind kind;
    ModulePattern *items;
    size_t n;
} ModuleList;

/* From an array of strings; NULL is an empty list. `key` names it in errors. Zeroed on failure. */
bool module_list_read(const JsonValue *array, const char *key, ModuleListKind kind, ModuleList *out, Error *err);
void module_list_clear(ModuleList *list);

/* How an entry names a module, the least exact first. */
typedef enum ModuleMatch { MATCH_NONE, MATCH_CLASS, MATCH_PATTERN, MATCH_NAME } ModuleMatch;

/* The most exact of the list's matches; false: out of memory, or an expression that goes on too long. */
bool module_list_match(const ModuleList *list, const char *module, ModuleMatch *out, Error *err);

#endif
