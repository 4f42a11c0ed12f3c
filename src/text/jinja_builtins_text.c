/* Filters over text. */
#include "text/jinja_builtins.h"

FilterTable jinja_text_filters(void) {
    return (FilterTable){NULL, 0};
}
