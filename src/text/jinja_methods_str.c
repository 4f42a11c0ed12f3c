/* Methods of strings. */
#include "text/jinja_builtins.h"

FunctionTable jinja_string_methods(void) {
    return (FunctionTable){NULL, 0};
}
