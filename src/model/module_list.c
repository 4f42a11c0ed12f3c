/* Entries that are expressions are compiled once. Python's re.match begins at the name's start, which \A says here.
 * Lists of hundreds of plain names meet tens of thousands of experts: those are compared, not compiled. */
#include "model/module_list.h"
#include "base/memory.h"

#include <string.h>

static bool compile(const char *begin, const char *text, const char *end, const char *key, Pattern **out, Error *err) {
    Buffer source = {0};
    buffer_printf(&source, "\\A(?:%s)%s", text, end);
    *out = source.failed ? NULL : pattern_new(source.data, source.length, err);
    if (source.failed) error_memory(err, "a list of modules");
    buffer_clear(&source);
    return *out || error_prefix(err, "config.json: \"%s\" has \"%s%.80s\"", key, begin, text);
}

/* transformers joins the entry with (?:(?<=\.)|(?=\.|$)), so that "layer.1" is not "layer.11". */
static bool read_item(const char *text, const char *key, ModuleListKind kind, ModulePattern *out, Error *err) {
    out->text = text;
    if (kind == MODULES_SKIPPED && text[strcspn(text, "\\^$*+?()[]{}|")] == 0) return true;
    if (kind == MODULES_SKIPPED) return compile("", text, "(?:(?<=\\.)|(?=\\.)|\\z)", key, &out->pattern, err);
    return strncmp(text, "re:", 3) != 0 || compile("re:", text + 3, "", key, &out->pattern, err);
}

bool module_list_read(const JsonValue *array, const char *key, ModuleListKind kind, ModuleList *out, Error *err) {
    ModuleList list = {.kind = kind};
    *out = (ModuleList){0};
    if (!array) {
        *out = list;
        return true;
    }
    if (array->type != JSON_ARRAY) return error_set(err, "config.json: \"%s\" is not a list of modules", key);
    list.items = mem_zeroed(array->length, sizeof *list.items);
    if (!list.items) return error_memory(err, "a list of modules");
    for (uint32_t i = 0; i < array->length; i++) {
        const char *text = json_string(json_item(array, i));
        bool ok = text || error_set(err, "config.json: \"%s\" has an entry that is not text", key);
        ok = ok && read_item(text, key, kind, &list.items[list.n++], err);
        if (!ok) {
            module_list_clear(&list);
            return false;
        }
    }
    *out = list;
    return true;
}

void module_list_clear(ModuleList *list) {
    for (size_t i = 0; i < list->n; i++) pattern_free(list->items[i].pattern);
    mem_free(list->items);
    *list = (ModuleList){0};
}

/* A plain name as the expression that it also is: '.' stands for any character. */
static bool begins_with_plain(const char *name, const char *text) {
    size_t i = 0;
    for (; text[i]; i++)
        if (!name[i] || (text[i] != name[i] && text[i] != '.')) return false;
    return !name[i] || name[i] == '.' || (i > 0 && name[i - 1] == '.');
}

static bool ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return m > 0 && m <= n && strcmp(name + n - m, ending) == 0;
}

static bool begins_with_match(const Pattern *p, const char *name, PatternScratch *scratch, SpanList *spans, bool *out,
                              Error *err) {
    if (!pattern_spans(p, scratch, name, strlen(name), spans, err)) return false;
    *out = spans->n > 0 && spans->items[0].match;
    return true;
}

bool module_list_match(const ModuleList *list, const char *module, ModuleMatch *out, Error *err) {
    PatternScratch scratch = {0};
    SpanList spans = {0};
    ModuleMatch best = MATCH_NONE;
    bool ok = true;
    for (size_t i = 0; ok && i < list->n; i++) {
        const ModulePattern *item = &list->items[i];
        ModuleMatch match = MATCH_NONE;
        bool matches = false;
        if (!item->pattern && list->kind == MODULES_SKIPPED) matches = begins_with_plain(module, item->text);
        if (item->pattern) ok = begins_with_match(item->pattern, module, &scratch, &spans, &matches, err);
        if (strcmp(item->text, module) == 0)
            match = MATCH_NAME;
        else if (matches || (list->kind == MODULES_SKIPPED && ends_with(module, item->text)))
            match = MATCH_PATTERN;
        else if (list->kind == MODULES_TARGETS && strcmp(item->text, "Linear") == 0)
            match = MATCH_CLASS;
        if (match > best) best = match;
    }
    pattern_scratch_clear(&scratch);
    span_clear(&spans);
    *out = best;
    return ok;
}
