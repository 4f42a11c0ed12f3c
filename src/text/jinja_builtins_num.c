/* Filters over number. */
#include "text/jinja_builtins.h"

FilterTable jinja_number_filters(void) {
    return (FilterTable){NULL, 0};
}
