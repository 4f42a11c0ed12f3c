/* The factor 1 + beta * ln(1 + floor((position + offset) / length)), formed in double and rounded once. */
#include "model/mixers/position_scale.h"
#include "math/rope.h"

#include <math.h>

void position_scale_apply(const PositionScale *p, const Step *s, float *q, int width) {
    if (p->beta == 0) return;
    for (int r = 0; r < s->n; r++) {
        double steps = floor((double)(s->positions[r] + p->offset) / p->length);
        float factor = (float)(1 + p->beta * rope_log(1 + steps));
        for (int i = 0; i < width; i++) q[(size_t)r * (size_t)width + (size_t)i] *= factor;
    }
}
