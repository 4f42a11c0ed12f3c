/* What mlx-lm (0.32) does with a family's checkpoint when it converts it: the names and shapes that its classes use,
 * which matrices its classes quantise, and which of them they keep finer. One table, by model_type.
 *
 * In patterns '*' stands for any run of characters and '#' for a number; in what a pattern becomes, '*' stands for the
 * run that was there. A list of patterns is split at '|'. */
#ifndef LOCKSTEP_CONVERT_MLX_FAMILY_H
#define LOCKSTEP_CONVERT_MLX_FAMILY_H

#include "base/json.h"

typedef enum LayoutAction {
    LAYOUT_END,    /* of a list */
    LAYOUT_MOVE,   /* another name */
    LAYOUT_PREFIX, /* `to` before names that do not begin with it */
    LAYOUT_DROP,
    LAYOUT_REFUSE, /* mlx-lm's own conversion of this form is not done here; `to` says why */
    LAYOUT_COPY,   /* also under the name `to`, when nothing has that name */
    /* These end a tensor's way through the list. */
    LAYOUT_STACK,          /* tensors numbered by '#' become one, with a new first axis */
    LAYOUT_JOIN,           /* tensors of one shape become one along the first axis; `other`: the place, "0" first */
    LAYOUT_HALVES,         /* the last axis but one: first half `to`, second half `other` */
    LAYOUT_HALVES_SWAPPED, /* the halves of the last axis, then the last two axes swapped */
    LAYOUT_INTERLEAVED,    /* even places of the last axis `to`, odd ones `other` */
    LAYOUT_INTERLEAVED_SWAPPED, /* the same, then the last two axes swapped */
    LAYOUT_SPLIT,               /* the experts of the first axis apart, each with its number for '#' */
    LAYOUT_SPLIT_SWAPPED,       /* the same, their axes swapped */
    LAYOUT_LATENT,              /* kv_b_proj, per head: keys, swapped, `to`; values `other` */
    /* These change the values or their order, and go on. */
    LAYOUT_SWAP,      /* the last two axes */
    LAYOUT_CONV,      /* [channels, 1, kernel] to [channels, kernel, 1], where it is not so already */
    LAYOUT_ADD_ONE,   /* vectors: 1 added, rounded to their number format */
    LAYOUT_SCALE,     /* times the number at the config's key `to`, "key" or "key[1]"; `other`: its default */
    LAYOUT_SCALE_SSM, /* rows of a Mamba-2 in_proj times ssm_in_multiplier and their section's of ssm_multipliers */
    LAYOUT_UNIT_ROWS, /* each row divided by its length */
    LAYOUT_SQUEEZE,   /* no axes of size 1 */
    LAYOUT_FLATTEN,   /* one axis */
    LAYOUT_HEADS,     /* [hidden / head_dim, head_dim] */
} LayoutAction;

/* Which checkpoints of a family a rule is for. */
typedef enum LayoutWhen {
    WHEN_ALWAYS,
    WHEN_TIED,     /* the output head shares the embedding's weights */
    WHEN_RAW_CONV, /* some convolution has its kernel on the last axis, as in the Hugging Face layout */
    WHEN_HAS,      /* some tensor's name matches `which` */
    WHEN_LACKS,
    WHEN_BESIDE, /* there is a tensor with the name that `which` makes of this one's */
} LayoutWhen;

typedef struct LayoutRule {
    LayoutAction action;
    const char *from, *to, *other;
    LayoutWhen when;
    const char *which;
} LayoutRule;

enum {
    MLX_TIED = 1,         /* tied when the config does not say */
    MLX_KEEPS_HEAD = 2,   /* a head that is there is used, whatever the config says */
    MLX_EXTRA_LAYERS = 4, /* layers past num_hidden_layers are left out */
    MLX_SHARED_KV = 8,    /* so are keys and values of the last num_kv_shared_layers */
};

typedef struct MlxFamily {
    const char *model_types; /* split at '|' */
    unsigned flags;
    const LayoutRule *rules[3]; /* lists, ended by NULL */
    const char *plain;          /* modules with a matrix that mlx-lm has no quantised form of; NULL: none */
    const char *kept;           /* modules that its rule for the family leaves as floats */
    const char *kept_full;      /* those it leaves so in layers without convolutions */
    const char *finer;          /* modules with 8 bits in groups of 64 */
    const char *as_stored;      /* tensors that are not cast to the config's number format */
} MlxFamily;

/* NULL for a model_type that mlx-lm does not have. config: of the checkpoint. */
const MlxFamily *mlx_family_find(const JsonValue *config);
/* Rules for all families, before and after the family's own. */
extern const LayoutRule mlx_rules_first[], mlx_rules_last[];

/* Whether a name matches one of the patterns of a list (NULL: none). */
bool patterns_match(const char *patterns, const char *name);
/* Rewrites a name that matches `from` by `to`; *number gets what '#' stood for (-1: no '#'). False when it does not
 * match, or when the result does not fit. */
bool pattern_rewrite(const char *from, const char *to, const char *name, char *out, size_t capacity, int64_t *number);

#endif
