/* Reading config.json so that nothing in it is passed over silently: every key that a family reads is recorded, and in
 * the end each key must have been read, or be known not to matter, or be null, or loading stops and names it.
 *
 * The first mistake sticks: later reads return harmless values, so that a family reads its keys one after the other and
 * asks once, at the end. */
#ifndef LOCKSTEP_MODEL_CONFIG_H
#define LOCKSTEP_MODEL_CONFIG_H

#include "base/error.h"
#include "base/json.h"
#include "model/names.h"

enum { CONFIG_MAX_SIZE = 1 << 28 }; /* no width, count or length in a config is larger */

typedef struct ConfigUse {
    const JsonValue *value;
    bool section; /* its members are accounted for one by one */
} ConfigUse;

typedef struct ConfigRecord {
    const Names *names; /* of the checkpoint's tensors; NULL where only the config is read */
    ConfigUse *used;    /* values that were read; owned */
    int n, capacity;
    bool failed;
    Error error; /* the first mistake */
} ConfigRecord;

/* One object of the config: the root, or a section such as rope_scaling. Plain data, passed by pointer. */
typedef struct Config {
    ConfigRecord *record;
    const JsonValue *object; /* NULL: absent; every key is then absent */
    char path[64];           /* "" or "rope_scaling.", for messages */
} Config;

void config_init(Config *c, ConfigRecord *record, const JsonValue *root);
void config_clear(ConfigRecord *record);
/* The section text_config of a multimodal model, or the config itself. */
Config config_text(const Config *c);
/* Whether the checkpoint has a tensor of this whole name (a template of names.h): what a config does not say about its
 * layout. */
bool config_has_tensor(const Config *c, const char *name, int layer);
/* The size of its axis; 0 where there is none. */
int64_t config_tensor_size(const Config *c, const char *name, int layer, int axis);
/* The same with its shape; NULL when absent. */
const Tensor *config_tensor(const Config *c, const char *name, int layer);
/* What the text model's tensor names begin with: "model.", "language_model.model."; "" where only the config is read.
 */
const char *config_tensor_root(const Config *c);

/* A null value counts as absent, here and everywhere below. Does not record the key. */
bool config_has(const Config *c, const char *key);
/* The key is there and null: some families mean "none" by it, where an absent key means a default. */
bool config_is_null(const Config *c, const char *key);
/* A whole number from 1 to CONFIG_MAX_SIZE. Without a fallback, an absent key is a mistake (and 1 is returned). */
int config_size(const Config *c, const char *key);
int config_size_or(const Config *c, const char *key, int fallback);
/* The same, but it may be 0. */
int config_count_or(const Config *c, const char *key, int fallback);
/* A finite number. */
double config_number(const Config *c, const char *key);
double config_number_or(const Config *c, const char *key, double fallback);
/* The same for keys where null says that there is none: 0 then, and `absent` when the key is not there. */
int config_size_unless_null(const Config *c, const char *key, int absent);
double config_number_unless_null(const Config *c, const char *key, double absent);
bool config_bool_or(const Config *c, const char *key, bool fallback);
/* The string, borrowed from the config; or the fallback, which may be NULL. */
const char *config_string_or(const Config *c, const char *key, const char *fallback);
/* An array with n items, as a whole; NULL when absent. n < 0: any number. */
const JsonValue *config_array(const Config *c, const char *key, int n);
/* Item i of a list of n of them, one for each layer. Mistakes as above. */
int config_size_at(const Config *c, const char *key, int n, int i);
double config_number_at(const Config *c, const char *key, int n, int i);
/* The number, or item i of a list of them; the fallback where the key, or the item, is absent or null. */
double config_number_each(const Config *c, const char *key, int i, double fallback);
int config_size_each(const Config *c, const char *key, int i, int fallback);
/* A section, whose own keys must then be read one by one. A value that is no object is a mistake. */
Config config_section(const Config *c, const char *key);
/* Records the key and all within it as read: another reader looks after it. NULL when absent. */
const JsonValue *config_whole(const Config *c, const char *key);

/* Sets the first mistake, "config.json: ..."; returns false. */
bool config_fail(const Config *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool config_ok(const Config *c);

/* After all reading: the first mistake, or the keys of `c` that were neither read nor in one of the lists
 * (NULL-terminated). */
typedef struct ConfigLists {
    const char *family;            /* for the message */
    const char *const *irrelevant; /* the family's; NULL: none; they hold within text_config as well */
    const char *const *ignore;     /* --ignore-config, dotted for a section's key */
    int n_ignore;
} ConfigLists;
bool config_finish(const Config *c, const ConfigLists *lists, Error *err);

#endif
