/* lockstep inspect: a model's blueprint, formats and needs, as the model itself describes them. */
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/setup.h"
#include "engine/embed.h"

/* How vectors would be made of it. */
static bool describe_vectors(const Loaded *l, Buffer *out, Error *err) {
    EmbedPlan plan;
    if (!embedder_plan_read(l->folder.data, l->model, &plan, err)) return false;
    embed_plan_describe(&plan, model_is_encoder(l->model), out);
    embed_plan_clear(&plan);
    return true;
}

int command_inspect(const Args *args) {
    Error err;
    Loaded loaded;
    Buffer out = {0};
    if (!setup_load(args, LOAD_NOT, LOAD_NOT, &loaded, &err)) return complain(&err);
    model_describe(loaded.model, model_context(loaded.model), &out);
    bool ok = describe_vectors(&loaded, &out, &err);
    output_buffer(&out);
    buffer_clear(&out);
    loaded_close(&loaded);
    return ok ? 0 : complain(&err);
}
