/* The two Python library functions behind the filters wordwrap and pprint. */
#ifndef LOCKSTEP_TEXT_JINJA_WRAP_H
#define LOCKSTEP_TEXT_JINJA_WRAP_H

#include "text/jinja_builtins.h"

/* textwrap.wrap(line, width, ...), the lines joined with `joint`, appended to out. */
bool jinja_wrap(Run *run, const String *line, int64_t width, bool break_long_words, bool break_on_hyphens,
                const String *joint, Buffer *out);
/* pprint.pformat(v), as a filter */
bool jinja_pprint(Run *run, Value v, const Value *argv, const Args *args, Value *out);

#endif
