/* Reading the files of sentence-transformers. A module is known by the last part of its type, since releases moved the
 * classes about ("sentence_transformers.models.Pooling", "...sentence_transformer.modules.pooling.Pooling"). What is
 * not known stops loading: a vector that lacks a step is worse than none. */
#include "engine/embed_plan.h"
#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Reader {
    const char *folder;
    int hidden;
    Pool *pool;
    EmbedPlan *plan;
    bool pooled;
    Error *err;
} Reader;

enum { MAX_STAGES = 64, MAX_PATH_BYTES = 4096, MAX_SIZE = 1 << 24 };

/* FOLDER/PATH/NAME into out; path may be "". */
static bool make_path(const Reader *r, const char *path, const char *name, char out[MAX_PATH_BYTES]) {
    int n = snprintf(out, MAX_PATH_BYTES, "%s/%s%s%s", r->folder, path, *path ? "/" : "", name);
    return n < MAX_PATH_BYTES || error_set(r->err, "modules.json: the path \"%.80s\" is too long", path);
}

/* An object in the file of that path; *out NULL when there is no such file. */
static bool read_object_file(const char *full, JsonDoc **out, Error *err) {
    *out = NULL;
    if (access(full, F_OK) != 0) return true;
    if (!(*out = json_parse_file(full, 0, err))) return false;
    if (json_root(*out)->type == JSON_OBJECT) return true;
    json_free(*out);
    *out = NULL;
    return error_set(err, "%s: is not a JSON object", full);
}

static bool read_object(const Reader *r, const char *path, const char *name, JsonDoc **out) {
    char full[MAX_PATH_BYTES];
    *out = NULL;
    return make_path(r, path, name, full) && read_object_file(full, out, r->err);
}

bool embed_plan_file(const char *folder, const char *name, JsonDoc **out, Error *err) {
    return read_object(&(Reader){.folder = folder, .err = err}, "", name, out);
}

static bool read_needed(const Reader *r, const char *path, const char *name, JsonDoc **out) {
    if (!read_object(r, path, name, out)) return false;
    return *out ||
           error_set(r->err, "%s/%s/%s: is missing, though modules.json names the module", r->folder, path, name);
}

static bool read_size(const Reader *r, const char *path, const JsonValue *v, const char *key, int *out) {
    int64_t n;
    if (!json_int(json_get_set(v, key), &n) || n < 1 || n > MAX_SIZE)
        return error_set(r->err, "%s/config.json: \"%s\" is missing or no size", path, key);
    *out = (int)n;
    return true;
}

static bool flag(const JsonValue *v, const char *key, bool otherwise) {
    bool b;
    return json_bool(json_get_set(v, key), &b) ? b : otherwise;
}

/* ---- pooling ---- */

typedef struct ModeName {
    PoolMode mode;
    const char *name, *older; /* in "pooling_mode"; the key that is true for it in older files */
} ModeName;

/* In the order in which older files join several. */
static const ModeName mode_names[] = {
    {POOL_FIRST, "cls", "pooling_mode_cls_token"},
    {POOL_MAX, "max", "pooling_mode_max_tokens"},
    {POOL_MEAN, "mean", "pooling_mode_mean_tokens"},
    {POOL_MEAN_SQRT, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {POOL_WEIGHTED, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {POOL_LAST, "lasttoken", "pooling_mode_lasttoken"},
};

static bool add_mode(const Reader *r, const JsonValue *name) {
    PoolSpec *pool = &r->plan->pool;
    for (size_t i = 0; i < sizeof mode_names / sizeof *mode_names; i++) {
        if (!json_equals(name, mode_names[i].name) || pool->n_modes == POOL_MODES) continue;
        pool->modes[pool->n_modes++] = mode_names[i].mode;
        return true;
    }
    const char *text = json_string(name);
    return error_set(r->err, "the pooling mode \"%.40s\" is not known here", text ? text : "?");
}

static bool read_modes(const Reader *r, const JsonValue *v) {
    PoolSpec *pool = &r->plan->pool;
    const JsonValue *modes = json_get_set(v, "pooling_mode");
    if (modes && modes->type == JSON_ARRAY) {
        for (uint32_t i = 0; i < modes->length; i++)
            if (!add_mode(r, json_item(modes, i))) return false;
    } else if (modes) {
        return add_mode(r, modes);
    } else {
        for (size_t i = 0; i < sizeof mode_names / sizeof *mode_names; i++)
            if (flag(v, mode_names[i].older, false)) pool->modes[pool->n_modes++] = mode_names[i].mode;
    }
    if (pool->n_modes == 0) pool->modes[pool->n_modes++] = POOL_MEAN;
    return true;
}

static bool read_pooling(Reader *r, const char *path) {
    JsonDoc *doc;
    int dims;
    if (r->pooled) return error_set(r->err, "modules.json: pools twice, which is not known here");
    if (!read_needed(r, path, "config.json", &doc)) return false;
    const JsonValue *v = json_root(doc);
    const char *key = json_get_set(v, "embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
    bool ok = read_size(r, path, v, key, &dims) && (read_modes(r, v) || error_prefix(r->err, "%s/config.json", path));
    if (ok && dims != r->hidden)
        ok = error_set(r->err, "%s/config.json: \"%s\" is %d, and the model's rows have %d values", path, key, dims,
                       r->hidden);
    r->plan->without_prompt = !flag(v, "include_prompt", true);
    r->plan->size = r->hidden * r->plan->pool.n_modes;
    r->pooled = true;
    json_free(doc);
    return ok;
}

/* ---- dense layers and norms ---- */

EmbedStage *embed_plan_add(EmbedPlan *p, StageKind kind, Error *err) {
    EmbedStage *list = mem_resize(p->stages, (size_t)p->n_stages + 1, sizeof *list);
    if (!list) {
        error_memory(err, "the modules");
        return NULL;
    }
    p->stages = list;
    list[p->n_stages] = (EmbedStage){.kind = kind, .inputs = p->size, .outputs = p->size};
    return &list[p->n_stages++];
}

static EmbedStage *add_stage(Reader *r, StageKind kind) {
    if (r->plan->n_stages < MAX_STAGES) return embed_plan_add(r->plan, kind, r->err);
    error_set(r->err, "modules.json: more than %d modules", MAX_STAGES);
    return NULL;
}

static bool open_weights(const Reader *r, const char *path, EmbedStage *s) {
    char full[MAX_PATH_BYTES];
    if (!make_path(r, path, "model.safetensors", full)) return false;
    if (access(full, F_OK) != 0)
        return error_set(r->err, "%s: is missing; a pytorch_model.bin beside it has to be saved as safetensors first",
                         full);
    return (s->file = safetensors_open(full, r->err)) != NULL;
}

/* The float tensor `name` of rows by cols values (rows 0: a vector of cols) as a source of weights. */
static bool find_weights(const Reader *r, const EmbedStage *s, const char *name, int rows, int cols,
                         WeightSource *out) {
    for (int i = 0; i < safetensors_count(s->file); i++) {
        const Tensor *t = safetensors_tensor(s->file, i);
        char shape[160];
        if (strcmp(t->name, name) != 0) continue;
        bool fits =
            rows ? t->n_dims == 2 && t->shape[0] == rows && t->shape[1] == cols : t->n_dims == 1 && t->shape[0] == cols;
        tensor_shape_text(t, shape, sizeof shape);
        if (!fits)
            return error_set(r->err, "%s: tensor \"%s\" has shape %s, which is not what its config.json says", t->file,
                             name, shape);
        if (t->dtype != DTYPE_F32 && t->dtype != DTYPE_F16 && t->dtype != DTYPE_BF16)
            return error_set(r->err, "%s: tensor \"%s\" has the type %s, expected floats", t->file, name,
                             dtype_name(t->dtype));
        *out = (WeightSource){.format = t->dtype == DTYPE_F32   ? WEIGHT_F32
                                        : t->dtype == DTYPE_F16 ? WEIGHT_F16
                                                                : WEIGHT_BF16,
                              .rows = rows ? rows : 1,
                              .cols = cols,
                              .codes = t->data};
        return true;
    }
    return error_set(r->err, "a module's model.safetensors has no tensor \"%s\"", name);
}

static bool read_vector(const Reader *r, const EmbedStage *s, const char *name, int n, float **out) {
    WeightSource source;
    if (!find_weights(r, s, name, 0, n, &source)) return false;
    if (!(*out = mem_array((size_t)n, sizeof **out))) return error_memory(r->err, "a module's weights");
    weight_row(&source, 0, *out);
    return true;
}

typedef struct ActName {
    const char *name;
    Activation act;
} ActName;

bool embed_plan_activation(const char *name, Activation *out) {
    static const ActName names[] = {{"Identity", ACT_NONE}, {"Tanh", ACT_TANH}, {"ReLU", ACT_RELU},
                                    {"GELU", ACT_GELU},     {"SiLU", ACT_SILU}, {"Sigmoid", ACT_SIGMOID}};
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, last) == 0) {
            *out = names[i].act;
            return true;
        }
    return false;
}

static bool read_activation(const Reader *r, const char *path, const JsonValue *v, Activation *out) {
    const JsonValue *said = json_get(v, "activation_function");
    const char *text = json_string(said);
    *out = said && said->type == JSON_NULL ? ACT_NONE : ACT_TANH; /* what Dense has when nothing is said */
    return !text || embed_plan_activation(text, out) ||
           error_set(r->err, "%s/config.json: the activation \"%.60s\" is not known here", path, text);
}

static bool fill_dense(const Reader *r, const char *path, const JsonValue *v, EmbedStage *s) {
    WeightSource source;
    if (!read_size(r, path, v, "in_features", &s->inputs) || !read_size(r, path, v, "out_features", &s->outputs) ||
        !read_activation(r, path, v, &s->act))
        return false;
    if (s->inputs != r->plan->size)
        return error_set(r->err, "%s/config.json: \"in_features\" is %d, and the vector before it has %d values", path,
                         s->inputs, r->plan->size);
    const char *input = json_string(json_get_set(v, "module_input_name"));
    const char *output = json_string(json_get_set(v, "module_output_name"));
    if ((input && strcmp(input, "sentence_embedding") != 0) || (output && strcmp(output, "sentence_embedding") != 0))
        return error_set(r->err, "%s/config.json: a layer that is not of the pooled vector is not known here", path);
    s->residual = flag(v, "use_residual", false);
    if (s->residual && s->inputs != s->outputs)
        return error_set(r->err, "%s/config.json: a residual of another width is not known here", path);
    if (!open_weights(r, path, s) || !find_weights(r, s, "linear.weight", s->outputs, s->inputs, &source)) return false;
    if (flag(v, "bias", true) && !read_vector(r, s, "linear.bias", s->outputs, &s->bias)) return false;
    return (s->linear = linear_new(&source, s->bias, r->pool, r->err)) != NULL;
}

static bool read_dense(Reader *r, const char *path) {
    JsonDoc *doc;
    EmbedStage *s = add_stage(r, STAGE_DENSE);
    if (!s || !read_needed(r, path, "config.json", &doc)) return false;
    bool ok = fill_dense(r, path, json_root(doc), s);
    if (ok) r->plan->size = s->outputs;
    json_free(doc);
    return ok;
}

static bool read_layer_norm(Reader *r, const char *path) {
    EmbedStage *s = add_stage(r, STAGE_LAYER_NORM);
    return s && open_weights(r, path, s) && read_vector(r, s, "norm.weight", s->inputs, &s->weight) &&
           read_vector(r, s, "norm.bias", s->inputs, &s->bias);
}

/* ---- the whole ---- */

static bool read_module(Reader *r, uint32_t i, const JsonValue *module) {
    const char *type = json_string(json_get_set(module, "type")), *path = json_string(json_get_set(module, "path"));
    const char *dot = type ? strrchr(type, '.') : NULL, *name = dot ? dot + 1 : type;
    if (!name || !path) return error_set(r->err, "modules.json: item %u has no \"type\" or no \"path\"", i);
    if (*path == '/' || strstr(path, ".."))
        return error_set(r->err, "modules.json: the path \"%.80s\" leaves the folder", path);
    if (i == 0) {
        if (strcmp(name, "Transformer") != 0)
            return error_set(r->err, "modules.json: begins with \"%.60s\", expected a Transformer", type);
        return !*path || error_set(r->err,
                                   "modules.json: its transformer is in \"%.80s\"; only one in the folder itself "
                                   "is known here",
                                   path);
    }
    if (strcmp(name, "Pooling") == 0) return read_pooling(r, path);
    if (strcmp(name, "Dropout") == 0) return true; /* of training */
    if (!r->pooled) return error_set(r->err, "modules.json: \"%.60s\" before pooling is not known here", type);
    if (strcmp(name, "Dense") == 0) return read_dense(r, path);
    if (strcmp(name, "LayerNorm") == 0) return read_layer_norm(r, path);
    if (strcmp(name, "Normalize") == 0) return add_stage(r, STAGE_UNIT) != NULL;
    return error_set(r->err, "modules.json: the module \"%.60s\" is not known here", type);
}

static bool read_modules(Reader *r, bool encoder) {
    char path[MAX_PATH_BYTES];
    if (!make_path(r, "", "modules.json", path)) return false;
    r->plan->has_modules = access(path, F_OK) == 0;
    if (!r->plan->has_modules) {
        r->plan->pool = (PoolSpec){{encoder ? POOL_MEAN : POOL_LAST}, 1};
        r->plan->size = r->hidden;
        return add_stage(r, STAGE_UNIT) != NULL;
    }
    JsonDoc *doc = json_parse_file(path, 0, r->err);
    if (!doc) return false;
    const JsonValue *list = json_root(doc);
    bool ok = (list->type == JSON_ARRAY && list->length > 0) || error_set(r->err, "%s: is not a list of modules", path);
    for (uint32_t i = 0; ok && i < list->length; i++) ok = read_module(r, i, json_item(list, i));
    if (ok && !r->pooled) ok = error_set(r->err, "%s: has no Pooling, so that there is no vector of a text", path);
    json_free(doc);
    return ok;
}

static int length_of(const JsonValue *v, const char *key) {
    double n; /* "no limit" is often 1e30 */
    return json_number(json_get_set(v, key), &n) && n >= 1 && n < INT_MAX ? (int)n : 0;
}

/* max_seq_length; else what the tokenizer says. The file's name once had the family in it; of a cross-encoder it counts
 * beside modules.json alone. */
static bool read_lengths(Reader *r) {
    static const char *const names[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                        "sentence_xlnet_config.json",      "tokenizer_config.json"};
    enum { N = sizeof names / sizeof *names };
    bool alone = r->plan->n_labels && !r->plan->has_modules;
    for (int i = alone ? N - 1 : 0; i < N && r->plan->max_tokens == 0; i++) {
        JsonDoc *doc;
        if (!read_object(r, "", names[i], &doc)) return false;
        if (!doc) continue;
        bool tokenizers = i == N - 1;
        r->plan->max_tokens = length_of(json_root(doc), tokenizers ? "model_max_length" : "max_seq_length");
        if (!tokenizers && flag(json_root(doc), "do_lower_case", false)) r->plan->lower_case = true;
        json_free(doc);
    }
    return true;
}

bool embed_plan_read_lengths(const char *folder, EmbedPlan *p, Error *err) {
    Error local;
    Reader r = {.folder = folder, .plan = p, .err = err ? err : &local};
    return read_lengths(&r);
}

bool embed_plan_read(const char *folder, int hidden, bool encoder, Pool *pool, EmbedPlan *out, Error *err) {
    EmbedPlan plan = {0};
    Error local;
    Reader r = {.folder = folder, .hidden = hidden, .pool = pool, .plan = &plan, .err = err ? err : &local};
    bool ok = read_modules(&r, encoder) && read_lengths(&r) &&
              read_object(&r, "", "config_sentence_transformers.json", &plan.settings) &&
              matryoshka_read(folder, plan.settings ? json_root(plan.settings) : NULL, &plan.cuts, r.err);
    if (ok)
        *out = plan;
    else
        embed_plan_clear(&plan);
    return ok;
}

void embed_plan_clear(EmbedPlan *p) {
    for (int i = 0; i < p->n_stages; i++) {
        linear_free(p->stages[i].linear);
        mem_free(p->stages[i].weight);
        mem_free(p->stages[i].bias);
        safetensors_close(p->stages[i].file);
    }
    mem_free(p->stages);
    matryoshka_clear(&p->cuts);
    json_free(p->settings);
    *p = (EmbedPlan){0};
}

/* ---- prompts ---- */

static const JsonValue *prompts_of(const EmbedPlan *p) {
    const JsonValue *prompts = p->settings ? json_get_set(json_root(p->settings), "prompts") : NULL;
    return prompts && prompts->type == JSON_OBJECT ? prompts : NULL;
}

/* "query, document" */
static void list_prompts(const EmbedPlan *p, Buffer *out) {
    const JsonValue *prompts = prompts_of(p);
    for (uint32_t i = 0; prompts && i < prompts->length; i++)
        buffer_printf(out, "%s%s", i ? ", " : "", prompts->members[i].key);
}

bool embed_plan_prompt(const EmbedPlan *p, const char *name, const char **out, Error *err) {
    const JsonValue *settings = p->settings ? json_root(p->settings) : NULL;
    const char *usual = json_string(json_get_set(settings, "default_prompt_name"));
    const JsonValue *prompts = prompts_of(p);
    const char *text = json_string(json_get_set(prompts, name ? name : usual ? usual : ""));
    if (!name || text) {
        *out = text;
        return true;
    }
    Buffer names = {0};
    list_prompts(p, &names);
    if (names.length)
        error_set(err, "this model has no prompt \"%.40s\"; it has %.200s", name, buffer_string(&names));
    else
        error_set(err, "this model has no prompt \"%.40s\", and no other", name);
    buffer_clear(&names);
    return false;
}

/* ---- inspect ---- */

static void describe_stage(const EmbedStage *s, Buffer *out) {
    static const char *const names[] = {
        [STAGE_LAYER_NORM] = "layer norm", [STAGE_UNIT] = "brought to length 1", [STAGE_CLASSIFIER] = "the classifier"};
    static const char *const acts[] = {
        [ACT_SILU] = "silu", [ACT_GELU] = "gelu", [ACT_RELU] = "relu", [ACT_SIGMOID] = "sigmoid", [ACT_TANH] = "tanh"};
    if (s->kind == STAGE_DENSE)
        buffer_printf(out, ", dense %d to %d", s->inputs, s->outputs);
    else
        buffer_printf(out, ", %s", s->kind == STAGE_ACT ? acts[s->act] : names[s->kind]);
}

static void describe_pool(const EmbedPlan *p, Buffer *out) {
    static const char *const modes[] = {
        [POOL_FIRST] = "the first row",        [POOL_MAX] = "the largest values",
        [POOL_MEAN] = "the mean of all rows",  [POOL_MEAN_SQRT] = "the sum of all rows over the root of their number",
        [POOL_WEIGHTED] = "the weighted mean", [POOL_LAST] = "the last row"};
    for (int i = 0; i < p->pool.n_modes; i++) buffer_printf(out, "%s%s", i ? " and " : "", modes[p->pool.modes[i]]);
    if (p->without_prompt) buffer_text(out, " after the prompt");
}

void embed_plan_describe(const EmbedPlan *p, bool encoder, Buffer *out) {
    buffer_text(out, p->n_labels ? "scores of pairs: " : "embeddings: ");
    if (!p->has_modules && !p->n_labels)
        buffer_printf(out, "no modules.json, so as usual for %s ", encoder ? "an encoder" : "a decoder");
    describe_pool(p, out);
    for (int i = 0; i < p->n_stages; i++) describe_stage(&p->stages[i], out);
    buffer_printf(out, "; %d value%s", p->size, p->size == 1 ? "" : "s");
    if (prompts_of(p) && prompts_of(p)->length) {
        buffer_text(out, "; prompts ");
        list_prompts(p, out);
    }
    buffer_text(out, "\n");
}
