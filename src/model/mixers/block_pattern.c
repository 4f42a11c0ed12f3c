/* Heads whose numbers differ by a multiple of the stride see the same blocks, and rows of one block the same positions
 * but for how many of their own block: so a list per block and residue, which rows and heads share. */
#include "model/mixers/block_pattern.h"

typedef struct BlockLists {
    int block;           /* of the rows that share these */
    AttendKeys *residue; /* [stride]: of heads h with (h + 1) % stride; NULL positions: not made yet */
    struct BlockLists *next;
} BlockLists;

static bool sees(const BlockPattern *p, int own, int block, int residue) {
    return own - block < p->local || (block + residue) % p->stride == 0;
}

/* All positions of the blocks that are seen from block `own`, itself included. */
static bool list_positions(const BlockPattern *p, Arena *arena, int own, int residue, AttendKeys *out) {
    int n = 0, *positions;
    for (int b = 0; b <= own; b++) n += sees(p, own, b, residue) ? p->block : 0;
    if (!(positions = arena_array(arena, (size_t)n, sizeof *positions))) return false;
    *out = (AttendKeys){positions, n};
    for (int b = 0; b <= own; b++)
        for (int i = 0; i < p->block && sees(p, own, b, residue); i++) *positions++ = b * p->block + i;
    return true;
}

static BlockLists *find_lists(const BlockPattern *p, Arena *arena, int block, BlockLists **all) {
    for (BlockLists *l = *all; l; l = l->next)
        if (l->block == block) return l;
    BlockLists *l = arena_array(arena, 1, sizeof *l);
    AttendKeys *residue = arena_array(arena, (size_t)p->stride, sizeof *residue);
    if (!l || !residue) return NULL;
    for (int i = 0; i < p->stride; i++) residue[i] = (AttendKeys){NULL, 0};
    *l = (BlockLists){block, residue, *all};
    return *all = l;
}

bool block_pattern_apply(const BlockPattern *p, Step *s, int n_heads, AttendRow *rows) {
    BlockLists *all = NULL;
    for (int r = 0; r < s->n; r++) {
        int own = rows[r].position / p->block, later = p->block - 1 - rows[r].position % p->block;
        BlockLists *lists = find_lists(p, s->arena, own, &all);
        AttendKeys *keys = arena_array(s->arena, (size_t)n_heads, sizeof *keys);
        if (!lists || !keys) return false;
        for (int h = 0; h < n_heads; h++) {
            AttendKeys *whole = &lists->residue[(h + 1) % p->stride];
            if (!whole->positions && !list_positions(p, s->arena, own, (h + 1) % p->stride, whole)) return false;
            keys[h] = (AttendKeys){whole->positions, whole->n - later};
        }
        rows[r].keys = keys;
        rows[r].keys_per_head = true;
    }
    return true;
}
