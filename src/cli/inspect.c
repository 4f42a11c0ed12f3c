/* lockstep inspect: a model's blueprint, formats and needs, as the model itself describes them. */
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/setup.h"

int command_inspect(const Args *args) {
    Error err;
    Loaded loaded;
    Buffer out = {0};
    if (!setup_load(args, LOAD_NOT, LOAD_NOT, &loaded, &err)) return complain(&err);
    model_describe(loaded.model, model_context(loaded.model), &out);
    output_buffer(&out);
    buffer_clear(&out);
    loaded_close(&loaded);
    return 0;
}
