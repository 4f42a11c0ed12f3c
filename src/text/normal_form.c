/* The algorithm of the Unicode standard (annex 15): decompose, sort marks by class, compose. The tables hold full
 * decompositions, so one step is enough; Hangul is arithmetic. */
#include "text/normal_form.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <string.h>

enum { HANGUL = 0xAC00, N_HANGUL = 11172, INSERTION = 16 };

void code_list_clear(CodeList *list) {
    mem_free(list->codes);
    *list = (CodeList){0};
}

static bool push(CodeList *list, uint32_t code) {
    uint32_t *codes = mem_room(list->codes, list->n, &list->capacity, sizeof *codes);
    if (!codes) return false;
    list->codes = codes;
    list->codes[list->n++] = code;
    return true;
}

static bool decompose(uint32_t code, bool compatible, CodeList *out) {
    if (code < (compatible ? 0xA0u : 0xC0u)) return push(out, code);
    if (code >= HANGUL && code < HANGUL + N_HANGUL) {
        uint32_t s = code - HANGUL, t = s % 28;
        return push(out, 0x1100 + s / 588) && push(out, 0x1161 + s % 588 / 28) && (t == 0 || push(out, 0x11A7 + t));
    }
    size_t n = 0;
    const uint32_t *text = compatible ? unicode_map(&unicode_compatible, code, &n) : NULL;
    if (!text) text = unicode_map(&unicode_canonical, code, &n);
    if (!text) return push(out, code);
    for (size_t i = 0; i < n; i++) {
        if (!push(out, text[i])) return false;
    }
    return true;
}

static unsigned class_of(uint32_t code) {
    return code < 0x300 ? 0 : unicode_value(&unicode_combining, code);
}

/* Stable: marks of one class keep their order. */
static void insertion_sort(uint32_t *codes, size_t n) {
    for (size_t i = 1; i < n; i++) {
        uint32_t code = codes[i];
        unsigned class = class_of(code);
        size_t k = i;
        for (; k > 0 && class_of(codes[k - 1]) > class; k--) codes[k] = codes[k - 1];
        codes[k] = code;
    }
}

/* Long runs of marks exist only in hostile text: counting keeps them linear. */
static bool counting_sort(uint32_t *codes, size_t n) {
    size_t start[257] = {0};
    uint32_t *sorted = mem_array(n, sizeof *sorted);
    if (!sorted) return false;
    for (size_t i = 0; i < n; i++) start[class_of(codes[i]) + 1]++;
    for (int i = 0; i < 256; i++) start[i + 1] += start[i];
    for (size_t i = 0; i < n; i++) sorted[start[class_of(codes[i])]++] = codes[i];
    memcpy(codes, sorted, n * sizeof *codes);
    mem_free(sorted);
    return true;
}

static bool sort_marks(CodeList *list) {
    for (size_t i = 0; i < list->n;) {
        if (class_of(list->codes[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < list->n && class_of(list->codes[end]) != 0) end++;
        if (end - i <= INSERTION)
            insertion_sort(list->codes + i, end - i);
        else if (!counting_sort(list->codes + i, end - i))
            return false;
        i = end;
    }
    return true;
}

/* A mark joins the last starter unless something of its class or higher (or a starter) stands between them. */
static void compose(CodeList *list) {
    size_t n = 0, starter = SIZE_MAX;
    unsigned last_class = 0;
    for (size_t i = 0; i < list->n; i++) {
        uint32_t code = list->codes[i];
        unsigned class = class_of(code);
        bool adjacent = starter != SIZE_MAX && starter + 1 == n;
        if (starter != SIZE_MAX && (adjacent || last_class < class)) {
            uint32_t joined = unicode_compose(list->codes[starter], code);
            if (joined) {
                list->codes[starter] = joined;
                continue;
            }
        }
        if (class == 0) starter = n;
        last_class = class;
        list->codes[n++] = code;
    }
    list->n = n;
}

static bool is_ascii(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] >= 0x80) return false;
    }
    return true;
}

bool normal_form(NormalForm form, const char *text, size_t n, CodeList *work, Buffer *out) {
    if (is_ascii(text, n)) {
        buffer_append(out, text, n);
        return !out->failed;
    }
    work->n = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code = 0xFFFD;
        int length = utf8_decode(text + i, n - i, &code);
        if (!decompose(code, form.compatible, work)) return false;
        i += length ? (size_t)length : 1;
    }
    if (!sort_marks(work)) return false;
    if (form.compose) compose(work);
    for (size_t i = 0; i < work->n; i++) {
        if (!buffer_reserve(out, 4)) return false;
        out->length += (size_t)utf8_encode(work->codes[i], out->data + out->length);
    }
    if (out->data) out->data[out->length] = 0;
    return !out->failed;
}
