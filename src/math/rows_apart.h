/* Codes and steps row by row: the layout of every instruction set that has no reason for another.
 *
 * No include guard and no includes on purpose: one inclusion per instruction set, before kernels_body.h. */
static inline size_t step_at(const QuantRows *x, int row, int group) {
    return (size_t)row * (size_t)x->n_groups + (size_t)group;
}

static inline void codes_copy(QuantRows *to, int i, const QuantRows *from, int row) {
    size_t bytes = (size_t)from->padded * (size_t)from->bits / 8;
    __builtin_memcpy(to->codes + (size_t)i * bytes, from->codes + (size_t)row * bytes, bytes);
}
