/* One place knows what became of standard output, because every command needs the same answer to it: SIGPIPE is
 * ignored, EPIPE ends in silence with success, anything else is said once, at the end. */
#define _POSIX_C_SOURCE 200809L
#include "cli/output.h"
#include "base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_error; /* errno of the first write that failed */
static bool progress_drawn;

/* Past stdio, which forgets what it held when Ctrl-C comes in the middle of a write. */
bool output_write(const char *text, size_t n) {
    if (write_error) return false;
    errno = 0;
    if (fflush(stdout) != 0) write_error = errno ? errno : EIO;
    while (n > 0 && !write_error) {
        ssize_t written = write(STDOUT_FILENO, text, n);
        if (written == 0 || (written < 0 && errno != EINTR)) write_error = written ? errno : EIO;
        if (written <= 0) continue;
        text += written;
        n -= (size_t)written;
    }
    return !write_error;
}

bool output_text(const char *text) {
    return output_write(text, strlen(text));
}

bool output_buffer(const Buffer *b) {
    if (b->failed && !write_error) write_error = ENOMEM;
    return output_write(buffer_string(b), b->length);
}

bool output_byte(char c) {
    return output_write(&c, 1);
}

void output_line_end(const Buffer *text) {
    bool ended = text->length > 0 && text->data[text->length - 1] == '\n';
    if (!ended && isatty(STDOUT_FILENO)) output_byte('\n');
}

bool output_error_line(const Error *error) {
    Buffer out = {0};
    buffer_text(&out, "{\"error\": ");
    json_write_string(&out, error->text, strlen(error->text), false);
    buffer_text(&out, "}\n");
    bool ok = output_buffer(&out);
    buffer_clear(&out);
    return ok;
}

int output_finish(int status) {
    progress_clear();
    if (!write_error || write_error == EPIPE) return status;
    fprintf(stderr, "lockstep: cannot write the output: %s\n", strerror(write_error));
    return 1;
}

int complain(const Error *err) {
    progress_clear();
    fflush(stdout);
    fprintf(stderr, "lockstep: %s\n", err->text);
    return 1;
}

void progress_show(const char *what, long long done, long long total) {
    if (!isatty(STDERR_FILENO)) return;
    progress_drawn = true;
    if (total > 0)
        fprintf(stderr, "\r\033[K%s %lld/%lld", what, done, total);
    else
        fprintf(stderr, "\r\033[K%s", what);
    fflush(stderr);
}

void progress_clear(void) {
    if (progress_drawn) fputs("\r\033[K", stderr);
    progress_drawn = false;
}

const char *style(int file_descriptor, const char *sequence) {
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    bool plain = (no_color && *no_color) || !terminal || strcmp(terminal, "dumb") == 0;
    return plain || !isatty(file_descriptor) ? "" : sequence;
}
