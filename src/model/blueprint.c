/* What surrounds the families: finding one by model_type, reading a whole blueprint, and giving its memory back. */
#include "model/blueprint.h"
#include "base/memory.h"
#include "model/standard.h"

#include <limits.h>
#include <string.h>

enum { MAX_LAYERS = 4096 };

bool blueprint_allocate(const Config *c, Blueprint *b, int n_layers, int n_ropes) {
    if (n_layers > MAX_LAYERS) return config_fail(c, "%d layers are more than any model has", n_layers);
    b->layers = mem_zeroed((size_t)n_layers, sizeof *b->layers);
    b->ropes = mem_zeroed((size_t)n_ropes, sizeof *b->ropes);
    if (!b->layers || !b->ropes) return config_fail(c, "out of memory for %d layers", n_layers);
    b->n_layers = n_layers;
    b->n_ropes = n_ropes;
    return true;
}

void blueprint_clear(Blueprint *b) {
    for (int i = 0; i < b->n_ropes; i++) rope_clear(&b->ropes[i]);
    mem_free(b->ropes);
    mem_free(b->layers);
    *b = (Blueprint){0};
}

/* Levenshtein distance of two short names. */
static int name_distance(const char *a, const char *b) {
    int row[65], n = strlen(b) < 64 ? (int)strlen(b) : 64;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]), other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[n];
}

enum { NEAREST = 5 };

/* The model types nearest in spelling, nearest first; how many. */
static int nearest_types(const char *type, const char *names[NEAREST]) {
    int distance[NEAREST], n = 0;
    for (int f = 0; f < model_n_families; f++)
        for (const char *const *t = model_families[f]->model_types; *t; t++) {
            int d = name_distance(type, *t), at = n < NEAREST ? n : NEAREST - 1;
            if (n == NEAREST && d >= distance[at]) continue;
            for (; at > 0 && distance[at - 1] > d; at--) {
                distance[at] = distance[at - 1];
                names[at] = names[at - 1];
            }
            distance[at] = d;
            names[at] = *t;
            if (n < NEAREST) n++;
        }
    return n;
}

const Family *family_find(const JsonValue *config, Error *err) {
    const char *type = json_string(json_get(config, "model_type"));
    const char *near[NEAREST];
    Buffer list = {0};
    if (!type) {
        error_set(err, "config.json: has no \"model_type\", so the family of this model is unknown");
        return NULL;
    }
    for (int f = 0; f < model_n_families; f++)
        for (const char *const *t = model_families[f]->model_types; *t; t++)
            if (strcmp(*t, type) == 0) return model_families[f];
    int n = nearest_types(type, near);
    for (int i = 0; i < n; i++) buffer_printf(&list, "%s%s", i ? ", " : "", near[i]);
    error_set(err, "config.json: the model type \"%.60s\" is not supported yet; supported, nearest first: %s", type,
              buffer_string(&list));
    buffer_clear(&list);
    return NULL;
}

int blueprint_boundary(const Blueprint *b) {
    for (int i = 0; i < b->n_ropes; i++)
        if (b->ropes[i].boundary) return b->ropes[i].boundary;
    return 0;
}

/* A sequence is computed with the short tables or with the long ones, so they change at one length. */
static bool check_boundaries(const Config *c, const Blueprint *b) {
    int boundary = blueprint_boundary(b);
    for (int i = 0; i < b->n_ropes; i++)
        if (b->ropes[i].boundary && b->ropes[i].boundary != boundary)
            return config_fail(c, "has rotary tables that change at %d and at %d tokens; only one length is known here",
                               boundary, b->ropes[i].boundary);
    return true;
}

static int padding_token(const Config *c) {
    Config text = config_text(c);
    int64_t id;
    return json_int(json_get_set(text.object, "pad_token_id"), &id) && id >= 0 && id <= INT_MAX ? (int)id : -1;
}

static bool has_matrix(const Config *c, const LinearSpec *spec) {
    char name[NAME_MAX_BYTES];
    const Names *names = c->record->names;
    return spec->name && (!names || names_expand(names, spec->name, -1, -1, ".weight", name));
}

/* What architectures says beyond the family: a sequence classifier, where its last matrix is there, since that key
 * outlives a head that was taken off. A decoder's is a matrix over the last row, whatever the family
 * (GenericForSequenceClassification in transformers); an encoder's is on its page. */
static bool read_classifier(const Config *c, Blueprint *b) {
    ClassifierSpec *spec = &b->classifier;
    int labels = standard_labels(c);
    if (!b->encoder) *spec = (ClassifierSpec){.pool = CLASSIFIER_LAST, .score = {.name = "score"}};
    if (labels == 0 || !has_matrix(c, &spec->score)) return config_ok(c);
    spec->n_labels = labels;
    spec->pad_token = padding_token(c);
    b->head.name = NULL;
    return config_ok(c);
}

bool blueprint_read(const JsonValue *config, const Family *family, const Names *names, const char *const *ignore,
                    int n_ignore, Blueprint *out, Error *err) {
    ConfigLists lists = {family->name, family->irrelevant_keys, ignore, n_ignore};
    ConfigRecord record;
    Config c;
    Blueprint b = {0};
    config_init(&c, &record, config);
    record.names = names;
    config_whole(&c, "quantization"); /* bind.c reads these two */
    config_whole(&c, "quantization_config");
    Config text = config_text(&c);
    config_whole(&text, "quantization_config");
    bool ok = family->blueprint(&c, &b) && read_classifier(&c, &b) && check_boundaries(&c, &b);
    ok = config_finish(&c, &lists, err) && ok;
    config_clear(&record);
    if (ok)
        *out = b;
    else
        blueprint_clear(&b);
    return ok;
}
