/* Fuzz target: any text as a chat template, rendered with two messages and a tool, or with the JSON object behind the
 * first NUL as a client's request. It may fail with an error, it may not run for ever, read outside its values or leak.
 * The template lives in a folder of its own, as in a checkpoint. */
#define _GNU_SOURCE
#include "fuzz/input.h"

#include "base/json.h"
#include "text/template.h"

#include <stdlib.h>
#include <string.h>

static const char variables_text[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"a b\"},{\"role\":\"user\",\"content\":\"\\u00e9<1>\","
    "\"n\":-7,\"x\":1.5,\"l\":[1,null,\"k\"]}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\"}";

static char folder[] = "/dev/shm/lockstep-template-XXXXXX";
static char file[sizeof folder + 32];
static JsonDoc *variables;

static void remove_folder(void) {
    unlink(file);
    rmdir(folder);
    json_free(variables);
    variables = NULL;
}

static void make_folder(void) {
    if (variables) return;
    Error err;
    variables = json_parse(variables_text, strlen(variables_text), 0, &err);
    if (!variables || !mkdtemp(folder)) __builtin_trap();
    snprintf(file, sizeof file, "%s/chat_template.jinja", folder);
    atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    make_folder();
    FILE *out = fopen(file, "wb");
    if (!out) return 0;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    fwrite(data, 1, end ? (size_t)(end - data) : size, out);
    fclose(out);
    Error err;
    Buffer text = {0};
    ChatTemplate *t = template_load(folder, &err);
    JsonDoc *sent = t && end ? json_parse((const char *)end + 1, size - 1 - (size_t)(end - data), 0, &err) : NULL;
    if (t) template_render_chat(t, json_root(sent ? sent : variables), &text, &err);
    json_free(sent);
    template_free(t);
    buffer_clear(&text);
    return 0;
}
