/* Filters over html. */
#include "text/jinja_builtins.h"

FilterTable jinja_html_filters(void) {
    return (FilterTable){NULL, 0};
}
