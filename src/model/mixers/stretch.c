/* Finding stretches, and running a convolution along one. */
#include "model/mixers/stretch.h"
#include "math/recurrent.h"

Stretch *stretches_of(Step *s, int *n) {
    Stretch *list = arena_array(s->arena, (size_t)s->n, sizeof *list);
    *n = 0;
    for (int r = 0; list && r < s->n; r++) {
        if (*n > 0 && list[*n - 1].state == s->rows[r].state)
            list[*n - 1].n++;
        else
            list[(*n)++] = (Stretch){s->rows[r].state, r, 1};
    }
    return list;
}

void stretch_conv(const Stretch *t, const Conv *conv, int channels, int kernel, float *window, const float *x,
                  float *y) {
    for (int i = 0; i < t->n; i++) {
        size_t at = (size_t)(t->first + i) * (size_t)channels;
        ConvStep step = {channels, kernel, conv->weights, conv->bias, window, x + at, y + at};
        recurrent_conv_step(&step);
    }
}
