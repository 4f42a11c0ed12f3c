/* The % operator of strings and str.format. */
#include "text/jinja_builtins.h"

bool jinja_percent(Run *run, const String *format, Value args, Value *out) {
    (void)format, (void)args, (void)out;
    return run_fail(run, "the %% operator on strings is not supported yet");
}
