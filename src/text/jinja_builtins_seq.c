/* Filters over sequence. */
#include "text/jinja_builtins.h"

FilterTable jinja_sequence_filters(void) {
    return (FilterTable){NULL, 0};
}
