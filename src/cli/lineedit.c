/* libedit behind a small door.
 *
 * Two things libedit does not do by itself. It reads characters through a function of ours, which notices Ctrl-C and
 * knows at that moment whether the line was empty. And it knows nothing of bracketed paste, so ESC [ 200 ~ is bound to
 * a function that takes everything up to ESC [ 201 ~ into the line, newlines included: a pasted paragraph is one
 * message and not one per line. */
#define _GNU_SOURCE
#include "cli/lineedit.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_ENTRIES = 1000 };

#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_BEGIN "\033[200~"
#define PASTE_END L"\033[201~"

struct LineEdit {
    EditLine *edit;
    History *history;
    Buffer history_path; /* empty: nowhere to keep it */
    const char *prompt;
    bool interrupted, was_empty;
};

static LineEdit *owner_of(EditLine *edit) {
    void *data = NULL;
    el_get(edit, EL_CLIENTDATA, &data);
    return data;
}

static char *show_prompt(EditLine *edit) {
    /* libedit wants char *, and only reads it */
    return (char *)(uintptr_t)owner_of(edit)->prompt;
}

/* One character from the terminal, decoded here so that the locale has no say. 1, 0 at the end, -1 on Ctrl-C. */
static int read_character(EditLine *edit, wchar_t *out) {
    LineEdit *e = owner_of(edit);
    char bytes[4];
    size_t n = 0;
    for (;;) {
        ssize_t got = interrupt_noted() ? -1 : read(STDIN_FILENO, bytes + n, 1);
        if (got < 0 && interrupt_noted()) {
            const LineInfo *line = el_line(edit);
            e->interrupted = true;
            e->was_empty = line->lastchar == line->buffer;
            return -1;
        }
        if (got < 0 && errno == EINTR) {
            el_resize(edit); /* most likely the window's size */
            continue;
        }
        if (got <= 0) return 0;
        uint32_t code;
        n++;
        if (utf8_decode(bytes, n, &code)) {
            *out = (wchar_t)code;
            return 1;
        }
        if (n < 4 && utf8_incomplete_tail(bytes, n) == n) continue;
        *out = 0xFFFD;
        return 1;
    }
}

/* Bound to the terminal's "a paste begins". */
static unsigned char take_paste(EditLine *edit, int key) {
    (void)key;
    enum { END_LENGTH = sizeof PASTE_END / sizeof(wchar_t) - 1 };
    size_t n = 0, capacity = 0;
    wchar_t *text = NULL, c;
    while (el_wgetc(edit, &c) == 1) {
        wchar_t *more = mem_room(text, n + 1, &capacity, sizeof *text); /* and the NUL */
        if (!more) break;
        text = more;
        text[n++] = c == L'\r' ? L'\n' : c;
        if (n >= END_LENGTH && wmemcmp(text + n - END_LENGTH, PASTE_END, END_LENGTH) == 0) {
            n -= END_LENGTH;
            break;
        }
    }
    if (text) {
        text[n] = 0;
        el_winsertstr(edit, text);
    }
    mem_free(text);
    return CC_REFRESH;
}

/* XDG_STATE_HOME/lockstep/history, made with its folder, for this user's eyes only. */
static void find_history(Buffer *path) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        buffer_text(path, state);
    else if (home && *home)
        buffer_printf(path, "%s/.local/state", home);
    else
        return;
    buffer_text(path, "/lockstep");
    for (size_t i = 1; !path->failed && i <= path->length; i++) {
        if (i < path->length && path->data[i] != '/') continue;
        char kept = path->data[i];
        path->data[i] = 0;
        mkdir(path->data, 0700); /* where it can not be made, nothing is kept */
        path->data[i] = kept;
    }
    buffer_text(path, "/history");
}

static void open_history(LineEdit *e) {
    HistEvent event;
    e->history = history_init();
    if (!e->history) return;
    history(e->history, &event, H_SETSIZE, HISTORY_ENTRIES);
    history(e->history, &event, H_SETUNIQUE, 1);
    find_history(&e->history_path);
    if (e->history_path.length > 0 && !e->history_path.failed)
        history(e->history, &event, H_LOAD, e->history_path.data);
    el_set(e->edit, EL_HIST, history, e->history);
}

/* libedit encodes and measures characters through the locale: it must know UTF-8. Numbers keep their C form. */
static void set_locale(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

LineEdit *lineedit_new(Error *err) {
    LineEdit *e = mem_zeroed(1, sizeof *e);
    if (e) {
        set_locale();
        e->prompt = "";
        e->edit = el_init("lockstep", stdin, stdout, stderr);
    }
    if (!e || !e->edit) {
        mem_free(e);
        error_set(err, "the terminal can not be set up for line editing");
        return NULL;
    }
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_PROMPT, show_prompt);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_SIGNAL, 0);
    el_wset(e->edit, EL_GETCFN, read_character);
    el_wset(e->edit, EL_ADDFN, L"lockstep-paste", L"take pasted text", take_paste); /* el_set would leak copies */
    el_set(e->edit, EL_BIND, PASTE_BEGIN, "lockstep-paste", NULL);
    open_history(e);
    return e;
}

void lineedit_free(LineEdit *e) {
    if (!e) return;
    if (e->history) history_end(e->history);
    el_end(e->edit);
    buffer_clear(&e->history_path);
    mem_free(e);
}

LineResult lineedit_read(LineEdit *e, const char *prompt, Buffer *out) {
    int n = 0;
    e->prompt = prompt;
    e->interrupted = false;
    buffer_reset(out);
    fputs(PASTE_ON, stdout);
    fflush(stdout);
    const char *line = el_gets(e->edit, &n);
    fputs(PASTE_OFF, stdout);
    if (e->interrupted || !line || n <= 0) fputs("\n", stdout);
    fflush(stdout);
    if (e->interrupted) {
        interrupt_forget();
        el_reset(e->edit);
        return e->was_empty ? LINE_INTERRUPT_EMPTY : LINE_INTERRUPTED;
    }
    if (!line || n <= 0) return LINE_END;
    buffer_append(out, line, (size_t)n - (line[n - 1] == '\n'));
    return LINE_TEXT;
}

void lineedit_remember(LineEdit *e, const char *text) {
    HistEvent event;
    if (!e->history || !*text) return;
    history(e->history, &event, H_ENTER, text);
    if (e->history_path.length == 0 || e->history_path.failed) return;
    mode_t mask = umask(077);
    history(e->history, &event, H_SAVE, e->history_path.data);
    umask(mask);
}
