/* What `inspect` prints of a model: its blueprint in words, what its weights are stored as, what was passed over, and
 * the memory that it needs at a context length. Equal layers are told once. */
#include "model/describe.h"
#include "model/mechanism.h"

#include <string.h>

static void describe_bytes(double bytes, Buffer *out) {
    if (bytes >= 1e9)
        buffer_printf(out, "%.2f GB", bytes / 1e9);
    else if (bytes >= 1e6)
        buffer_printf(out, "%.1f MB", bytes / 1e6);
    else
        buffer_printf(out, "%.1f kB", bytes / 1e3);
}

/* The text of one layer, the key by which equal layers are grouped. */
static void layer_text(const LayerSpec *spec, Buffer *out) {
    if (spec->mixer) spec->mixer->describe(spec, out);
    if (spec->mixer && spec->ffn) buffer_text(out, spec->parallel ? "; in parallel " : "; ");
    if (spec->ffn) spec->ffn->describe(spec, out);
    if (!spec->mixer && !spec->ffn) buffer_text(out, "nothing");
}

static bool layers_equal(const Blueprint *b, int i, int j) {
    Buffer x = {0}, y = {0};
    layer_text(&b->layers[i], &x);
    layer_text(&b->layers[j], &y);
    bool equal = strcmp(buffer_string(&x), buffer_string(&y)) == 0;
    buffer_clear(&x);
    buffer_clear(&y);
    return equal;
}

/* " 0-11, 13": the runs of layers equal to layer i, which is the first of them. */
static void describe_runs(const Blueprint *b, int i, Buffer *out) {
    const char *separator = " ";
    for (int first = i, end; first < b->n_layers; first = end + 1) {
        for (end = first; end < b->n_layers && layers_equal(b, i, end);) end++;
        if (end == first) continue;
        buffer_printf(out, "%s%d", separator, first);
        if (end - first > 1) buffer_printf(out, "-%d", end - 1);
        separator = ", ";
    }
}

/* "layers 0-11, 13: attention ..." for every kind of layer, at the first layer of the kind. */
static void describe_layers(const Blueprint *b, Buffer *out) {
    for (int i = 0; i < b->n_layers; i++) {
        bool told = false;
        for (int j = 0; j < i && !told; j++) told = layers_equal(b, i, j);
        if (told) continue;
        buffer_text(out, "  layers");
        describe_runs(b, i, out);
        buffer_text(out, ": ");
        layer_text(&b->layers[i], out);
        buffer_text(out, "\n");
    }
}

static void describe_ropes(const Blueprint *b, Buffer *out) {
    for (int i = 0; i < b->n_ropes; i++) {
        const RopeSpec *r = &b->ropes[i];
        buffer_printf(out, "  rope: %s, theta %g, %d dims%s", strcmp(r->rule, "default") == 0 ? "plain" : r->rule,
                      r->theta, r->table.dims, r->table.interleaved ? ", interleaved pairs" : "");
        if (r->factor != 1) buffer_printf(out, ", factor %g", r->factor);
        if (r->table.scale != 1) buffer_printf(out, ", scale %.4g", (double)r->table.scale);
        if (r->boundary) buffer_printf(out, "; past %d tokens its long table", r->boundary);
        if (r->long_table.scale != r->table.scale && r->boundary)
            buffer_printf(out, ", scale %.4g", (double)r->long_table.scale);
        buffer_text(out, "\n");
    }
}

/* "affine 4-bit g64: 210 matrices, 61.2 MB" per format. */
static void describe_formats(const Weights *w, Buffer *out) {
    for (int i = 0; i < w->n_linears; i++) {
        int n = 0;
        double bytes = 0;
        bool told = false;
        for (int j = 0; j < i && !told; j++) told = strcmp(w->formats[i], w->formats[j]) == 0;
        for (int j = i; j < w->n_linears && !told; j++)
            if (strcmp(w->formats[i], w->formats[j]) == 0) {
                n++;
                bytes += (double)linear_bytes(w->linears[j]);
            }
        if (told) continue;
        buffer_printf(out, "  %s: %d matri%s, ", w->formats[i], n, n == 1 ? "x" : "ces");
        describe_bytes(bytes, out);
        buffer_text(out, "\n");
    }
}

static double weight_bytes(const Weights *w) {
    double bytes = 0;
    for (int i = 0; i < w->n_linears; i++) bytes += (double)linear_bytes(w->linears[i]);
    return bytes;
}

static void describe_passed_over(const DescribeInput *in, Buffer *out) {
    for (int i = 0; i < in->n_ignored; i++)
        buffer_printf(out, "%s%s", i ? ", " : "config keys passed over at your word: ", in->ignored[i]);
    if (in->n_ignored) buffer_text(out, "\n");
    int n = in->weights->n_skipped;
    if (n == 1) buffer_printf(out, "tensor not needed: %s\n", in->weights->skipped[0]);
    if (n > 1)
        buffer_printf(out, "tensors not needed: %d, from %s to %s\n", n, in->weights->skipped[0],
                      in->weights->skipped[n - 1]);
}

/* The norm that tells what kind they are: the last one of all. */
static const NormSpec *telling_norm(const Blueprint *b) {
    return b->final_norm.kind == NORM_NONE && b->n_layers ? &b->layers[b->n_layers - 1].output_norm : &b->final_norm;
}

static const char *const classifier_pools[] = {[CLASSIFIER_FIRST] = "the first row",
                                               [CLASSIFIER_MEAN] = "the mean of all rows",
                                               [CLASSIFIER_LAST] = "the last row"};

void describe_model(const DescribeInput *in, Buffer *out) {
    const Blueprint *b = in->blueprint;
    const NormSpec *norm = telling_norm(b);
    double weights = weight_bytes(in->weights), cache = (double)state_bytes_at(in->state_shape, in->context);
    buffer_printf(out, "family: %s\n", in->family->name);
    buffer_printf(out, "blueprint: %d layers, hidden %d, vocabulary %d, context %d, %s norm eps %g\n", b->n_layers,
                  b->hidden, b->vocab, b->max_context, norm->kind == NORM_LAYER ? "layer" : "rms", (double)norm->eps);
    if (b->ngram.longest)
        buffer_printf(out,
                      "  embedding: of the token and of n-grams up to %d, %d tables of %d rows and more for each\n",
                      b->ngram.longest, b->ngram.tables, b->ngram.rows);
    if (b->residual_block)
        buffer_printf(out, "  residuals: a softmax over those before each %d layers and the last\n", b->residual_block);
    describe_layers(b, out);
    describe_ropes(b, out);
    if (b->context_note) buffer_printf(out, "  context: no more, because %s\n", b->context_note);
    if (b->classifier.n_labels)
        buffer_printf(out, "  sequence classifier: %d label%s of %s\n", b->classifier.n_labels,
                      b->classifier.n_labels > 1 ? "s" : "", classifier_pools[b->classifier.pool]);
    buffer_printf(out, "  output head: %s\n",
                  b->classifier.n_labels                        ? "none: it scores pairs of texts (rerank)"
                  : !in->weights->head                          ? "none: it gives vectors (embed)"
                  : in->weights->head == in->weights->embedding ? "the embedding (tied)"
                                                                : "its own");
    buffer_text(out, "weights:\n");
    if (in->weights->quantization) buffer_printf(out, "  quantised by %s\n", in->weights->quantization);
    describe_formats(in->weights, out);
    describe_passed_over(in, out);
    buffer_printf(out, "settings: kv %s, activations %d bits\n", kv_format_name(in->numeric->kv),
                  in->numeric->activation_bits);
    buffer_printf(out, "memory at %d positions: weights ", in->context);
    describe_bytes(weights, out);
    buffer_text(out, " + keys and values ");
    describe_bytes(cache, out);
    buffer_text(out, " = ");
    describe_bytes(weights + cache, out);
    buffer_text(out, "\n");
}
