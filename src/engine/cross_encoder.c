/* Reading what makes a score of a classifier's logits. Every file is optional, and which of them counts is the order in
 * which CrossEncoder looks: the activation of config_sentence_transformers.json, then the two keys of config.json that
 * releases have used for it, then a sigmoid where there is one label. */
#include "engine/cross_encoder.h"
#include "base/log.h"
#include "text/template.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const PoolMode modes[] = {
    [CLASSIFIER_FIRST] = POOL_FIRST, [CLASSIFIER_MEAN] = POOL_MEAN, [CLASSIFIER_LAST] = POOL_LAST};

/* Whether it is a list of one Transformer, in the folder itself. */
static bool is_transformer_alone(const JsonValue *list) {
    const JsonValue *module = json_item(list, 0);
    const char *type = json_string(json_get_set(module, "type")), *dot = type ? strrchr(type, '.') : NULL;
    return list->type == JSON_ARRAY && list->length == 1 && type && strcmp(dot ? dot + 1 : type, "Transformer") == 0 &&
           json_equals(json_get_set(module, "path"), "");
}

static bool check_modules(const char *path, Error *err) {
    JsonDoc *doc = json_parse_file(path, 0, err);
    if (!doc) return false;
    bool alone = is_transformer_alone(json_root(doc));
    json_free(doc);
    return alone ||
           error_set(err,
                     "%s: a cross-encoder of other modules than a Transformer in the folder itself is not known "
                     "here",
                     path);
}

/* modules.json counts where the files say that it is a cross-encoder's, and can name one module: the rest is the
 * model's own. Without it config_sentence_transformers.json is not read. */
static bool read_settings(const char *folder, EmbedPlan *p, Error *err) {
    char path[4096];
    JsonDoc *settings;
    int n = snprintf(path, sizeof path, "%s/modules.json", folder);
    if (n < 0 || (size_t)n >= sizeof path) return error_set(err, "%.200s...: the path is too long", folder);
    if (access(path, F_OK) != 0) return true;
    if (!embed_plan_file(folder, "config_sentence_transformers.json", &settings, err)) return false;
    if (!settings || !json_equals(json_get_set(json_root(settings), "model_type"), "CrossEncoder")) {
        json_free(settings);
        return true;
    }
    p->settings = settings;
    p->has_modules = true;
    return check_modules(path, err);
}

static bool is_torch(const char *class) {
    return class && strncmp(class, "torch.", 6) == 0;
}

/* The text that says the activation; NULL: nothing does. */
static const char *activation_text(const EmbedPlan *p, const JsonValue *config) {
    const JsonValue *settings = p->settings ? json_root(p->settings) : NULL;
    const char *saved = json_string(json_get_set(settings, "activation_fn"));
    if (is_torch(saved)) return saved;
    const JsonValue *section = json_get_set(config, "sentence_transformers");
    if (json_get(section, "activation_fn")) return json_string(json_get(section, "activation_fn"));
    return json_string(json_get_set(config, "sbert_ce_default_activation_function"));
}

/* A class that is not torch's is code of the checkpoint, which the reference does not run unless it is told to. */
static bool choose_activation(const EmbedPlan *p, const JsonValue *config, Activation *out, Error *err) {
    const char *text = activation_text(p, config);
    *out = p->n_labels == 1 ? ACT_SIGMOID : ACT_NONE;
    if (!text) return true;
    if (is_torch(text))
        return embed_plan_activation(text, out) ||
               error_set(err, "the activation \"%.80s\" of the scores is not known here", text);
    log_warn("the activation \"%.80s\" of the scores is code of the checkpoint's own; the usual one is used", text);
    return true;
}

/* A tokenizer that leaves token types out says so by its list of what it gives. */
static bool read_types(const char *folder, EmbedPlan *p, Error *err) {
    JsonDoc *doc;
    if (!embed_plan_file(folder, "tokenizer_config.json", &doc, err)) return false;
    const JsonValue *names = doc ? json_get_set(json_root(doc), "model_input_names") : NULL;
    p->one_type = names && names->type == JSON_ARRAY;
    for (uint32_t i = 0; p->one_type && i < names->length; i++)
        if (json_equals(json_item(names, i), "token_type_ids")) p->one_type = false;
    json_free(doc);
    return true;
}

/* Where there is a chat template, the texts are messages of the roles query and document to the reference, unless the
 * module's own file knows plain text alone. */
static bool read_template(const char *folder, EmbedPlan *p, Error *err) {
    JsonDoc *doc = NULL;
    ChatTemplate *template = template_load(folder, NULL);
    bool there = template != NULL;
    template_free(template);
    if (!there) return true;
    if (p->has_modules && !embed_plan_file(folder, "sentence_bert_config.json", &doc, err)) return false;
    const JsonValue *forms = doc ? json_get_set(json_root(doc), "modality_config") : NULL;
    p->by_template = !forms || json_get_set(forms, "message");
    json_free(doc);
    return true;
}

static bool add_stages(const char *folder, int hidden, EmbedPlan *p, Error *err) {
    JsonDoc *config;
    Activation act = ACT_NONE;
    if (!embed_plan_file(folder, "config.json", &config, err)) return false;
    bool ok = choose_activation(p, config ? json_root(config) : NULL, &act, err);
    json_free(config);
    p->size = p->n_labels;
    EmbedStage *s = ok ? embed_plan_add(p, STAGE_CLASSIFIER, err) : NULL;
    if (!s) return false;
    s->inputs = hidden;
    if (act == ACT_NONE) return true;
    if (!(s = embed_plan_add(p, STAGE_ACT, err))) return false;
    s->act = act;
    return true;
}

bool cross_encoder_plan_read(const char *folder, const Model *m, EmbedPlan *out, Error *err) {
    EmbedPlan plan = {.n_labels = model_labels(m), .pool = {{modes[model_classifier_pool(m)]}, 1}};
    bool ok = read_settings(folder, &plan, err) && read_types(folder, &plan, err) &&
              read_template(folder, &plan, err) && add_stages(folder, model_hidden_size(m), &plan, err) &&
              embed_plan_read_lengths(folder, &plan, err);
    if (ok)
        *out = plan;
    else
        embed_plan_clear(&plan);
    return ok;
}
