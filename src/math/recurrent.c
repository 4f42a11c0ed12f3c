/* The recurrences' steps, from the chosen instruction set. */
#include "math/recurrent.h"
#include "math/kernel_table.h"

#include <string.h>

void recurrent_outer_step(const OuterStep *step) {
    kernels()->outer_step(step);
}

void recurrent_wkv_step(const WkvStep *step) {
    kernels()->wkv_step(step);
}

void recurrent_scan_step(const ScanStep *step) {
    kernels()->scan_step(step);
}

void recurrent_lru_step(const LruStep *step) {
    kernels()->lru_step(step);
}

void recurrent_conv_step(const ConvStep *s) {
    size_t row = (size_t)s->channels, held = (size_t)(s->kernel - 1) * row;
    kernels()->conv_step(s);
    if (s->kernel < 2) return;
    memmove(s->window, s->window + row, (held - row) * sizeof *s->window);
    memcpy(s->window + held - row, s->x, row * sizeof *s->window);
}
