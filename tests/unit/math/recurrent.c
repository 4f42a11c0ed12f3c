/* Steps of recurrences: against the formulas in double, and every instruction set against scalar, byte for byte. */
#include "math/recurrent.h"
#include "base/memory.h"
#include "support/random.h"
#include "support/tables.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { K_DIM = 24, V_DIM = 150, STEPS = 3, CHANNELS = 37, KERNEL = 4 };

static float small(void) {
    return (float)random_below(2001) / 1000 - 1;
}

static void fill(float *x, int n) {
    for (int i = 0; i < n; i++) x[i] = small();
}

/* The formula, as recurrent.h states it. */
static void outer_in_double(const OuterStep *s, double *state, double *out) {
    for (int c = 0; c < s->v_dim; c++) {
        double held = 0, u;
        out[c] = 0;
        for (int i = 0; i < s->k_dim; i++) {
            state[i * s->v_dim + c] *= (double)s->decay[s->decay_each ? i : 0];
            held += state[i * s->v_dim + c] * (double)s->k[i];
        }
        u = ((double)s->v[c] - (s->correct ? held : 0)) * (double)s->beta;
        for (int i = 0; i < s->k_dim; i++) {
            state[i * s->v_dim + c] += (double)s->k[i] * u;
            out[c] += state[i * s->v_dim + c] * (double)s->q[i];
        }
    }
}

static void a_matrix_state_follows_its_formula_on_every_instruction_set(void **unused) {
    (void)unused;
    for (int kind = 0; kind < 4; kind++) {
        static float first[STEPS][V_DIM], state[K_DIM * V_DIM], out[V_DIM];
        static float k[STEPS][K_DIM], q[STEPS][K_DIM], v[STEPS][V_DIM], decay[K_DIM];
        fill(k[0], STEPS * K_DIM);
        fill(q[0], STEPS * K_DIM);
        fill(v[0], STEPS * V_DIM);
        for (int i = 0; i < K_DIM; i++) decay[i] = (float)exp(-(double)random_below(100) / 100);
        for (int t = n_kernel_tables - 1; t >= 0; t--) { /* scalar comes first */
            static double wide[K_DIM * V_DIM], wide_out[V_DIM];
            if (!kernel_tables[t]->supported()) continue;
            kernels_use(kernel_tables[t]);
            memset(state, 0, sizeof state);
            memset(wide, 0, sizeof wide);
            for (int step = 0; step < STEPS; step++) {
                OuterStep s = {.state = state,
                               .k_dim = K_DIM,
                               .v_dim = V_DIM,
                               .decay = decay,
                               .decay_each = kind & 1,
                               .k = k[step],
                               .q = q[step],
                               .v = v[step],
                               .beta = 0.7f,
                               .correct = kind & 2,
                               .out = out};
                recurrent_outer_step(&s);
                outer_in_double(&s, wide, wide_out);
                for (int c = 0; c < V_DIM; c++) assert_true(fabs((double)out[c] - wide_out[c]) < 1e-4);
                if (kernel_tables[t] == &kernels_scalar) memcpy(first[step], out, sizeof out);
                assert_floats_equal(first[step], out, V_DIM, kernel_tables[t]->name);
            }
        }
    }
}

static void a_convolution_sees_its_own_past_alone(void **unused) {
    static float weights[KERNEL * CHANNELS], bias[CHANNELS], x[6][CHANNELS], first[6][CHANNELS];
    (void)unused;
    fill(weights, KERNEL * CHANNELS);
    fill(bias, CHANNELS);
    fill(x[0], 6 * CHANNELS);
    for (int t = n_kernel_tables - 1; t >= 0; t--) { /* scalar comes first */
        float window[(KERNEL - 1) * CHANNELS] = {0}, y[CHANNELS];
        if (!kernel_tables[t]->supported()) continue;
        kernels_use(kernel_tables[t]);
        for (int now = 0; now < 6; now++) {
            ConvStep s = {CHANNELS, KERNEL, weights, bias, window, x[now], y};
            recurrent_conv_step(&s);
            for (int c = 0; c < CHANNELS; c++) {
                double sum = (double)bias[c];
                for (int j = 0; j < KERNEL; j++)
                    if (now - KERNEL + 1 + j >= 0)
                        sum += (double)weights[j * CHANNELS + c] * (double)x[now - KERNEL + 1 + j][c];
                assert_true(fabs((double)y[c] - sum) < 1e-5);
            }
            if (kernel_tables[t] == &kernels_scalar) memcpy(first[now], y, sizeof y);
            assert_floats_equal(first[now], y, CHANNELS, kernel_tables[t]->name);
        }
    }
}

enum { DIMS = 5, ALL = 74, SCANNED = 43, SCAN_FROM = 3 };

/* The formula of a selective scan, as recurrent.h states it, for one channel. */
static double scan_in_double(const ScanStep *s, int c, double *state) {
    double out = (double)s->skip[c] * (double)s->x[c];
    for (int i = 0; i < s->dims; i++) {
        double *held = &state[i * s->channels + c];
        *held *= exp((double)s->dt[c] * (double)s->rate[i * s->channels + c]);
        *held += (double)s->dt[c] * (double)s->x[c] * (double)s->b[i];
        out += *held * (double)s->q[i];
    }
    return out;
}

/* Whole vectors and a rest, from a channel that is not the first; the others stay as they are. */
static void a_scan_follows_its_formula_and_keeps_to_its_channels(void **unused) {
    static float rate[DIMS * ALL], x[STEPS][ALL], dt[STEPS][ALL], skip[ALL];
    static float b[STEPS][DIMS], q[STEPS][DIMS], first[STEPS][ALL];
    (void)unused;
    for (int i = 0; i < DIMS * ALL; i++) rate[i] = small() * 4 - 4;
    fill(x[0], STEPS * ALL);
    for (int now = 0; now < STEPS; now++)
        for (int c = 0; c < ALL; c++) dt[now][c] = small() + 1;
    fill(skip, ALL);
    fill(b[0], STEPS * DIMS);
    fill(q[0], STEPS * DIMS);
    for (int t = n_kernel_tables - 1; t >= 0; t--) { /* scalar comes first */
        float state[DIMS * ALL] = {0}, out[ALL] = {0};
        double wide[DIMS * ALL] = {0};
        if (!kernel_tables[t]->supported()) continue;
        kernels_use(kernel_tables[t]);
        for (int now = 0; now < STEPS; now++) {
            ScanStep s = {.channels = ALL,
                          .dims = DIMS,
                          .from = SCAN_FROM,
                          .n = SCANNED,
                          .state = state,
                          .rate = rate,
                          .dt = dt[now],
                          .x = x[now],
                          .skip = skip,
                          .b = b[now],
                          .q = q[now],
                          .out = out};
            recurrent_scan_step(&s);
            for (int c = 0; c < ALL; c++) {
                bool scanned = c >= SCAN_FROM && c < SCAN_FROM + SCANNED;
                double expected = scanned ? scan_in_double(&s, c, wide) : 0;
                assert_true(fabs((double)out[c] - expected) < 1e-5);
                if (!scanned) assert_true(state[c] == 0);
            }
            if (kernel_tables[t] == &kernels_scalar) memcpy(first[now], out, sizeof out);
            assert_floats_equal(first[now], out, ALL, kernel_tables[t]->name);
        }
    }
}

/* The formula of RWKV 7, as recurrent.h states it. */
static void wkv_in_double(const WkvStep *s, double *state, double *out) {
    for (int c = 0; c < s->v_dim; c++) {
        double u = 0;
        out[c] = 0;
        for (int i = 0; i < s->k_dim; i++) u += state[i * s->v_dim + c] * (double)s->a[i];
        for (int i = 0; i < s->k_dim; i++) {
            double *held = &state[i * s->v_dim + c];
            *held = *held * (double)s->decay[i] + (double)s->k[i] * (double)s->v[c] + (double)s->b[i] * u;
            out[c] += *held * (double)s->q[i];
        }
    }
}

/* Values of four vectors at once, of single ones and a rest; the output in the place of the values. */
static void a_corrected_state_follows_its_formula_on_every_instruction_set(void **unused) {
    static float first[STEPS][V_DIM], state[K_DIM * V_DIM], out[V_DIM];
    static float rows[STEPS][5][K_DIM], v[STEPS][V_DIM];
    (void)unused;
    fill(rows[0][0], STEPS * 5 * K_DIM);
    fill(v[0], STEPS * V_DIM);
    for (int t = n_kernel_tables - 1; t >= 0; t--) { /* scalar comes first */
        static double wide[K_DIM * V_DIM], wide_out[V_DIM];
        if (!kernel_tables[t]->supported()) continue;
        kernels_use(kernel_tables[t]);
        memset(state, 0, sizeof state);
        memset(wide, 0, sizeof wide);
        for (int now = 0; now < STEPS; now++) {
            const float(*r)[K_DIM] = rows[now];
            WkvStep s = {state, K_DIM, V_DIM, r[0], r[1], r[2], r[3], r[4], out, out};
            memcpy(out, v[now], sizeof out);
            wkv_in_double(&s, wide, wide_out);
            recurrent_wkv_step(&s);
            for (int c = 0; c < V_DIM; c++) assert_true(fabs((double)out[c] - wide_out[c]) < 1e-3);
            if (kernel_tables[t] == &kernels_scalar) memcpy(first[now], out, sizeof out);
            assert_floats_equal(first[now], out, V_DIM, kernel_tables[t]->name);
        }
    }
}

/* The formula of a gated linear unit, as recurrent.h states it, for one channel. */
static double lru_in_double(const LruStep *s, int c, double held) {
    double l = (double)s->rate[c] * (double)s->gate[c];
    return s->first ? (double)s->x[c] : held * exp(l) + (double)s->x[c] * sqrt(1 - exp(2 * l));
}

/* From far to no fading at all, in whole vectors and a rest, in place; the others stay as they are. */
static void a_gated_linear_unit_follows_its_formula_and_keeps_to_its_channels(void **unused) {
    static float rate[ALL], gate[STEPS][ALL], x[STEPS][ALL], first[STEPS][ALL];
    (void)unused;
    fill(x[0], STEPS * ALL);
    for (int c = 0; c < ALL; c++) rate[c] = c % 5 ? small() * 4 - 4 : -1e-9f;
    for (int now = 0; now < STEPS; now++)
        for (int c = 0; c < ALL; c++) gate[now][c] = c % 7 ? (small() + 1) / 2 : 0;
    for (int t = n_kernel_tables - 1; t >= 0; t--) { /* scalar comes first */
        float state[ALL] = {0}, out[ALL];
        double held[ALL] = {0};
        if (!kernel_tables[t]->supported()) continue;
        kernels_use(kernel_tables[t]);
        for (int now = 0; now < STEPS; now++) {
            LruStep s = {SCAN_FROM, SCANNED, state, rate, gate[now], x[now], now == 0, out};
            memcpy(out, x[now], sizeof out);
            s.x = out;
            for (int c = SCAN_FROM; c < SCAN_FROM + SCANNED; c++) held[c] = lru_in_double(&s, c, held[c]);
            recurrent_lru_step(&s);
            for (int c = 0; c < ALL; c++) {
                bool run = c >= SCAN_FROM && c < SCAN_FROM + SCANNED;
                assert_true(fabs((double)out[c] - (run ? held[c] : (double)x[now][c])) < 1e-4);
                assert_true(state[c] == (run ? out[c] : 0));
            }
            if (kernel_tables[t] == &kernels_scalar) memcpy(first[now], out, sizeof out);
            assert_floats_equal(first[now], out, ALL, kernel_tables[t]->name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_state_follows_its_formula_on_every_instruction_set),
        cmocka_unit_test(a_corrected_state_follows_its_formula_on_every_instruction_set),
        cmocka_unit_test(a_convolution_sees_its_own_past_alone),
        cmocka_unit_test(a_scan_follows_its_formula_and_keeps_to_its_channels),
        cmocka_unit_test(a_gated_linear_unit_follows_its_formula_and_keeps_to_its_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
