/* lockstep serve: from flags to the server's options. */
#include "serve/server.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/probe.h"
#include "cli/setup.h"
#include "serve/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show_address(const char *host, int port) {
    bool v6 = strchr(host, ':') != NULL;
    fprintf(stderr, "lockstep: listening on http://%s%s%s:%d\n", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static bool parse_batch(const Args *args, int *out, Error *err) {
    const char *text = args_text(args, FLAG_BATCH);
    char *end;
    if (!text) return true;
    long rows = strtol(text, &end, 10);
    if (*end || rows < 1 || rows > 65536) return error_set(err, "--batch %s: it must be from 1 to 65536", text);
    *out = (int)rows;
    return true;
}

/* By itself, before anybody is served: the probe changes the instruction set of the whole process. What is not exact is
 * served all the same, as whoever asked is told. */
static bool check_model(LoadOptions load, const char *model, ServedCheck *out, Error *err) {
    Loaded loaded;
    CheckReport report;
    load.model = model;
    load.tokenizer = load.chat_template = LOAD_NOT;
    if (!loaded_open(&load, &loaded, err)) return false;
    bool ok = probe_run(loaded.model, (CheckOptions){0}, &report, err) || error_prefix(err, "checking %s", model);
    if (ok) *out = (ServedCheck){checkpoint_hash(loaded.checkpoint), report.exact, report.runs, ""};
    if (ok) memcpy(out->difference, report.difference, sizeof out->difference);
    loaded_close(&loaded);
    return ok;
}

static bool check_models(const ServeOptions *o, ServedCheck **out, Error *err) {
    ServedCheck *checks = mem_zeroed((size_t)o->n_models, sizeof *checks);
    bool ok = checks || error_memory(err, "the models' checks");
    for (int i = 0; ok && i < o->n_models; i++) {
        ok = check_model(o->load, o->models[i], &checks[i], err);
        if (ok && checks[i].exact)
            fprintf(stderr, "lockstep: %s is exact: %d runs, no byte differs\n", o->models[i], checks[i].runs);
        if (ok && !checks[i].exact) log_warn("%s is not exact: %s", o->models[i], checks[i].difference);
    }
    *out = checks;
    return ok;
}

int command_serve(const Args *args) {
    Error err;
    const char **keys = NULL;
    ServedCheck *checks = NULL;
    ServeOptions o = {.models = args->positional,
                      .n_models = args->n_positional,
                      .host = args_has(args, FLAG_HOST) ? args_text(args, FLAG_HOST) : "127.0.0.1",
                      .port = args_int(args, FLAG_PORT, 8080),
                      .key_file = args_text(args, FLAG_API_KEY_FILE),
                      .origins = args_text(args, FLAG_CORS),
                      .engine = {.max_running = args_int(args, FLAG_PARALLEL, 0),
                                 .max_waiting = args_int(args, FLAG_QUEUE, 0),
                                 .memory = (size_t)(args_number(args, FLAG_MEMORY, 0) * 1e9)},
                      .max_connections = args_int(args, FLAG_CONNECTIONS, 0),
                      .request_seconds = args_int(args, FLAG_REQUEST_TIMEOUT, 0),
                      .keep_seconds = args_int(args, FLAG_KEEP, 0),
                      .ready = show_address};
    if (!parse_batch(args, &o.engine.chunk, &err) || !setup_options(args, &o.load, &err)) return complain(&err);
    o.load.tokenizer = o.load.chat_template = LOAD_IF_THERE;
    bool ok = args_list(args, FLAG_API_KEY, &keys, &o.n_keys, &err);
    o.keys = keys;
    if (ok && !o.n_keys && !o.key_file && !host_is_local(o.host))
        log_warn("whoever reaches %s can use this server: --api-key-file FILE makes it ask for a key", o.host);
    if (ok && args_has(args, FLAG_CHECK)) ok = check_models(&o, &checks, &err);
    o.checks = checks;
    ok = ok && serve(&o, &err);
    mem_free(checks);
    mem_free(keys);
    setup_options_clear(&o.load);
    return ok ? 0 : complain(&err);
}
