// Random operations on two sessions of one model against a naive one that keeps tokens and
// recomputes: whatever happened before, outputs of a row depend on the tokens before it alone.
// Usage: test_session_random [STEPS [SEED [WALK]]]; the steps are shared among the walks below, of
// which WALK (0 ..) names one to take alone.
#include "runtime/session_case.h"
#include "runtime/snapshot.h"

#define STEPS 4000
#define POSITIONS 1024
#define N_SESSIONS 2
#define N_SNAPSHOTS 8
#define N_FILES 3

// ---- the naive model: logits by the tokens before, computed from the start in one call

// Logits are kept as hashes by the hash of the prefix. Open addressing; 0: free.
struct known {
    uint64_t *prefix, *logits;
    size_t cap, n;
};

struct naive {
    struct fg_session *s; // emptied before each use, one entry, blocks of all rows
    float *out;           // [POSITIONS][vocab]
    int64_t vocab;
    struct known known;
    uint64_t computed; // rows
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    struct fg_random r = {h ^ (v + 1) * 0xD6E8FEB86659FD93u};
    return fg_random_next(&r);
}

static uint64_t prefix_hash(uint64_t before, int32_t id)
{
    uint64_t h = mix(before, (uint64_t)id);
    return h ? h : 1;
}

static uint64_t *find(const struct known *k, uint64_t prefix)
{
    size_t i = (size_t)prefix & (k->cap - 1);
    while (k->prefix[i] && k->prefix[i] != prefix)
        i = (i + 1) & (k->cap - 1);
    return &k->prefix[i];
}

static void learn(struct known *k, uint64_t prefix, uint64_t logits)
{
    if (2 * k->n >= k->cap) {
        struct known old = *k;
        k->cap = old.cap ? 2 * old.cap : 1u << 16;
        k->prefix = calloc(k->cap, sizeof *k->prefix);
        k->logits = calloc(k->cap, sizeof *k->logits);
        for (size_t i = 0; i < old.cap; i++) {
            if (!old.prefix[i]) continue;
            uint64_t *at = find(k, old.prefix[i]);
            *at = old.prefix[i];
            k->logits[at - k->prefix] = old.logits[i];
        }
        free(old.prefix);
        free(old.logits);
    }
    uint64_t *at = find(k, prefix);
    if (*at) return;
    *at = prefix;
    k->logits[at - k->prefix] = logits;
    k->n++;
}

// Tokens of a session that goes over `n` rows, the last `n_new` of which are to be known.
static void recompute(struct naive *m, const int32_t *ids, int64_t n, int64_t n_new)
{
    struct fg_error err = {0};
    uint64_t h = 0;
    fg_session_reset(m->s);
    must(fg_session_run(m->s, ids, n, m->out, n, NULL, NULL, &err), &err);
    m->computed += (uint64_t)n;
    for (int64_t i = 0; i < n; i++) {
        h = prefix_hash(h, ids[i]);
        if (i >= n - n_new)
            learn(&m->known, h, fg_fnv1a(m->out + i * m->vocab, (uint64_t)m->vocab * 4));
    }
}

// Rows [n - n_new, n) of ids have the logits [n_new][vocab].
static void check_logits(struct naive *m, const int32_t *ids, int64_t n, int64_t n_new,
                         const float *logits)
{
    uint64_t h = 0, at[POSITIONS + FG_SESSION_VERIFY_MAX] = {0};
    bool missing = false;
    for (int64_t i = 0; i < n; i++) {
        h = prefix_hash(h, ids[i]);
        if (i < n - n_new) continue;
        at[i - (n - n_new)] = h;
        missing |= m->known.cap == 0 || !*find(&m->known, h);
    }
    if (missing) recompute(m, ids, n, n_new);
    for (int64_t i = 0; i < n_new; i++) {
        const uint64_t *p = find(&m->known, at[i]);
        assert_true(*p == at[i]);
        if (m->known.logits[p - m->known.prefix] !=
            fg_fnv1a(logits + i * m->vocab, (uint64_t)m->vocab * 4))
            fail_msg("logits at position %" PRId64 " differ", n - n_new + i);
    }
}

// ---- the world

struct shadow { // what a session should be, and what it goes on with
    int32_t ids[POSITIONS + FG_SESSION_VERIFY_MAX];
    int64_t pos, tried, unapplied;
    int text;
};

struct kept {
    struct fg_snapshot *snap;
    int32_t ids[POSITIONS];
    int64_t pos;
    int owner;  // of the session, -1: it is gone
    bool must;  // it has to be good
    bool whole; // all of it is copied
};

struct world {
    struct fixture f;
    struct naive naive;
    struct fg_random r;
    struct fg_session *s[N_SESSIONS];
    struct shadow shadow[N_SESSIONS];
    struct kept kept[N_SNAPSHOTS];
    struct shadow files[N_FILES];
    bool has_file[N_FILES];
    float *out;
    uint64_t done[20]; // by kind of operation
};

static int64_t below(struct world *w, int64_t n)
{
    return (int64_t)fg_random_below(&w->r, (uint64_t)n);
}

// One of two texts goes on, so that the naive model meets what it knows.
static int32_t next_id(int64_t pos, int32_t before, int text, int64_t vocab)
{
    return (int32_t)(mix(mix((uint64_t)text, (uint64_t)pos), (uint64_t)before) % (uint64_t)vocab);
}

// n tokens to follow; the shadow's ids receive them.
static void write_ids(struct world *w, struct shadow *sh, int64_t n)
{
    for (int64_t at = sh->pos; at < sh->pos + n; at++)
        sh->ids[at] = next_id(at, at ? sh->ids[at - 1] : 0, sh->text, w->naive.vocab);
}

// After going back, what follows may be something else.
static void change_text(struct world *w, struct shadow *sh)
{
    if (below(w, 3) == 0) sh->text = !sh->text;
}

// T rows have run: small calls leave rows unapplied until there is no room for more.
static void ran(struct world *w, int i, int64_t T, bool verify)
{
    struct shadow *sh = &w->shadow[i];
    const bool fits = sh->unapplied + T <= w->s[i]->state.tried_max;
    if (!verify && T <= FG_STATE_ASIDE_MAX && fits)
        sh->unapplied += T;
    else if (!verify || !fits)
        sh->unapplied = 0;
}

static bool cancel_after(void *ctx)
{
    return (*(int64_t *)ctx)-- <= 0;
}

static int64_t room(const struct world *w, int i)
{
    return POSITIONS - w->shadow[i].pos;
}

static void op_feed(struct world *w, int i, bool cancelled)
{
    struct shadow *sh = &w->shadow[i];
    struct fg_error err = {0};
    int64_t n = below(w, 3) ? 1 + below(w, 9) : 1 + below(w, 150), asks = below(w, 12);
    if (n > room(w, i)) n = room(w, i);
    if (n == 0) return;
    write_ids(w, sh, n);
    struct fg_feed feed = {.ids = sh->ids + sh->pos, .n = n, .logits = w->out};
    feed.n_out = 1 + below(w, n);
    if (cancelled) {
        feed.cancel = cancel_after;
        feed.ctx = &asks;
    }
    int rc = fg_session_feed(w->s[i], &feed, &err);
    if (!cancelled) must(rc, &err);
    sh->tried = 0;
    const int64_t fed = fg_session_pos(w->s[i]) - sh->pos;
    assert_true(rc == 0 ? fed == n : rc == FG_EINTERRUPTED && fed < n);
    for (int64_t done = 0, T; done < fed; done += T) {
        T = fed - done < w->s[i]->options.rows_max ? fed - done : w->s[i]->options.rows_max;
        ran(w, i, T, false);
    }
    sh->pos += fed;
    if (rc == 0) check_logits(&w->naive, sh->ids, sh->pos, feed.n_out, w->out);
}

static void op_verify(struct world *w, int i, bool cancelled)
{
    struct shadow *sh = &w->shadow[i];
    struct fg_error err = {0};
    int64_t n = 1 + below(w, 8), asks = below(w, 6);
    if (n > room(w, i)) n = room(w, i);
    if (n == 0) return;
    write_ids(w, sh, n);
    struct fg_feed feed = {.ids = sh->ids + sh->pos, .n = n, .logits = w->out, .n_out = n};
    if (cancelled) {
        feed.cancel = cancel_after;
        feed.ctx = &asks;
    }
    int rc = fg_session_verify(w->s[i], &feed, &err);
    if (!cancelled) must(rc, &err);
    sh->tried = 0;
    assert_true(rc == 0 || rc == FG_EINTERRUPTED);
    if (rc) return;
    ran(w, i, n, true);
    sh->tried = n;
    check_logits(&w->naive, sh->ids, sh->pos + n, n, w->out);
}

static void op_verify_both(struct world *w)
{
    struct fg_error err = {0};
    int64_t n[N_SESSIONS], sum = 0, at = 0;
    int32_t ids[N_SESSIONS * FG_SESSION_VERIFY];
    for (int i = 0; i < N_SESSIONS; i++) {
        n[i] = 1 + below(w, FG_SESSION_VERIFY);
        if (n[i] > room(w, i)) return;
        write_ids(w, &w->shadow[i], n[i]);
        memcpy(ids + sum, w->shadow[i].ids + w->shadow[i].pos, (size_t)n[i] * sizeof *ids);
        sum += n[i];
    }
    const struct fg_feed feed = {.ids = ids, .n = sum, .logits = w->out, .n_out = sum};
    must(fg_session_verify_batch(w->s, n, N_SESSIONS, &feed, &err), &err);
    for (int i = 0; i < N_SESSIONS; i++) {
        struct shadow *sh = &w->shadow[i];
        ran(w, i, n[i], true);
        sh->tried = n[i];
        check_logits(&w->naive, sh->ids, sh->pos + n[i], n[i], w->out + at * w->naive.vocab);
        at += n[i];
    }
}

static void op_accept(struct world *w, int i)
{
    struct shadow *sh = &w->shadow[i];
    struct fg_error err = {0};
    const int64_t k = below(w, sh->tried + 1);
    must(fg_session_accept(w->s[i], k, &err), &err);
    if (sh->tried == 0) return;
    sh->pos += k;
    sh->unapplied += k;
    sh->tried = 0;
}

static void op_rewind(struct world *w, int i)
{
    struct shadow *sh = &w->shadow[i];
    const bool dense = w->f.m->config.n_linear == 0;
    int64_t to = sh->pos - below(w, below(w, 4) ? 6 : 100);
    if (to < 0) to = 0;
    const bool can = to == 0 || dense || sh->pos - to <= sh->unapplied;
    if (to == 0 && below(w, 4)) return;
    assert_int_equal(fg_session_rewind(w->s[i], to), can);
    if (!can) return;
    sh->unapplied -= sh->pos - to < sh->unapplied ? sh->pos - to : sh->unapplied;
    sh->pos = to;
    sh->tried = 0;
    change_text(w, sh);
}

static void op_take(struct world *w, int i)
{
    struct shadow *sh = &w->shadow[i];
    struct kept *k = &w->kept[below(w, N_SNAPSHOTS)];
    struct fg_error err = {0};
    const bool live = below(w, 4) == 0;
    fg_snapshot_free(k->snap);
    must(fg_snapshot_take(&k->snap, w->s[i], live ? FG_SNAPSHOT_LIVE : FG_SNAPSHOT_DETACH, &err),
         &err);
    sh->tried = sh->unapplied = 0;
    memcpy(k->ids, sh->ids, (size_t)sh->pos * sizeof *k->ids);
    k->pos = sh->pos;
    k->owner = i;
    k->must = !live;
    k->whole = false;
}

static void op_detach(struct world *w)
{
    struct kept *k = &w->kept[below(w, N_SNAPSHOTS)];
    struct fg_error err = {0};
    if (!k->snap) return;
    const bool valid = fg_snapshot_valid(k->snap);
    const int64_t row = below(w, 2) ? 0 : below(w, k->pos + 1);
    if (k->must) assert_true(valid);
    assert_int_equal(fg_snapshot_detach(k->snap, row, &err), valid ? 0 : FG_EFAILED);
    if (valid && row == 0) k->must = k->whole = true;
}

static void op_restore(struct world *w, int i)
{
    struct kept *k = &w->kept[below(w, N_SNAPSHOTS)];
    struct shadow *sh = &w->shadow[i];
    struct fg_error err = {0};
    if (!k->snap) return;
    const bool valid = fg_snapshot_valid(k->snap);
    if (k->must) assert_true(valid);
    int rc = fg_snapshot_restore(w->s[i], k->snap, below(w, 3) ? 0 : below(w, POSITIONS), &err);
    if (k->owner == i || k->whole) assert_int_equal(rc, valid ? 0 : FG_EFAILED);
    if (rc) {
        assert_int_equal(rc, FG_EFAILED);
        return;
    }
    assert_int_equal(fg_snapshot_pos(k->snap), k->pos);
    assert_memory_equal(fg_snapshot_ids(k->snap), k->ids, (size_t)k->pos * sizeof *k->ids);
    memcpy(sh->ids, k->ids, (size_t)k->pos * sizeof *k->ids);
    sh->pos = k->pos;
    sh->tried = sh->unapplied = 0;
    change_text(w, sh);
}

static void op_file(struct world *w, int i, bool save)
{
    struct shadow *sh = &w->shadow[i];
    struct fg_error err = {0};
    char name[16], path[600];
    const int64_t n = below(w, N_FILES);
    snprintf(name, sizeof name, "s%d", (int)n);
    snprintf(path, sizeof path, "%s/%s", w->f.tmp.dir, name);
    if (save) {
        must(fg_session_save(w->s[i], path, &err), &err);
        sh->tried = sh->unapplied = 0;
        w->files[n] = *sh;
        w->has_file[n] = true;
    } else if (w->has_file[n]) {
        must(fg_session_load(w->s[i], path, &err), &err);
        *sh = w->files[n];
        change_text(w, sh);
    }
}

// Frees a session: snapshots of it that are not wholly copied are lost.
static void op_replace(struct world *w, int i)
{
    fg_session_free(w->s[i]);
    w->s[i] = session(&w->f, 32);
    w->shadow[i].pos = w->shadow[i].tried = w->shadow[i].unapplied = 0;
    for (int j = 0; j < N_SNAPSHOTS; j++) {
        struct kept *k = &w->kept[j];
        if (!k->snap || k->owner != i) continue;
        k->owner = -1;
        if (!k->whole) k->must = false;
        if (!fg_snapshot_valid(k->snap)) continue;
        k->whole = k->must = true;
    }
}

// All that the session holds, against the naive one.
static void op_compare(struct world *w, int i)
{
    struct shadow *sh = &w->shadow[i];
    struct fg_error err = {0};
    fg_session_reset(w->naive.s);
    if (sh->pos)
        must(fg_session_run(w->naive.s, sh->ids, sh->pos, NULL, 0, NULL, NULL, &err), &err);
    check_same(w->s[i], w->naive.s);
    sh->tried = sh->unapplied = 0;
}

static void op_fit(struct world *w, int i)
{
    struct fg_error err = {0};
    const int64_t rows = below(w, POSITIONS) + 1;
    must(fg_session_fit(w->s[i], rows, &err), &err);
    assert_true(fg_session_entry(w->s[i]) >= rows);
}

static void step(struct world *w)
{
    const int i = (int)below(w, N_SESSIONS);
    const int64_t pick = below(w, 1000);
    static const int shares[] = {250, 470, 500, 600, 660, 690, 720, 760, 820,
                                 850, 900, 910, 930, 950, 970, 990, 1000};
    int op = 0;
    while (pick >= shares[op])
        op++;
    w->done[op]++;
    switch (op) {
    case 0: op_feed(w, i, false); break;
    case 1: op_verify(w, i, false); break;
    case 2: op_verify_both(w); break;
    case 3: op_accept(w, i); break;
    case 4:
        fg_session_flush(w->s[i]);
        w->shadow[i].tried = w->shadow[i].unapplied = 0;
        break;
    case 5: op_feed(w, i, true); break;
    case 6: op_verify(w, i, true); break;
    case 7: op_rewind(w, i); break;
    case 8: op_take(w, i); break;
    case 9: op_detach(w); break;
    case 10: op_restore(w, i); break;
    case 11:
        fg_session_reset(w->s[i]);
        w->shadow[i].pos = w->shadow[i].tried = w->shadow[i].unapplied = 0;
        change_text(w, &w->shadow[i]);
        assert_int_equal(fg_session_entry(w->s[i]), w->f.entries[0]);
        break;
    case 12: op_fit(w, i); break;
    case 13: op_file(w, i, true); break;
    case 14: op_file(w, i, false); break;
    case 15: op_compare(w, i); break;
    default:
        if (below(w, 4) == 0) op_replace(w, i);
        break;
    }
    for (int j = 0; j < N_SESSIONS; j++) {
        const struct shadow *sh = &w->shadow[j];
        assert_int_equal(fg_session_pos(w->s[j]), sh->pos);
        assert_int_equal(fg_session_tried(w->s[j]), sh->tried);
        assert_int_equal(w->s[j]->state.n_pending, sh->unapplied);
        assert_memory_equal(fg_session_ids(w->s[j]), sh->ids,
                            (size_t)(sh->pos + sh->tried) * sizeof *sh->ids);
        assert_true(fg_session_entry(w->s[j]) >= sh->pos);
    }
}

static void walk(const char *model, struct kind kind, enum fg_kv_backing backing, int64_t steps,
                 uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    printf("%s %s %s%s %s: %" PRId64 " steps, seed %" PRIu64 "\n", model,
           kind.fast ? "fast" : "exact", fg_kv_format_name(kind.kv), kind.rotated ? " rotated" : "",
           backing == FG_KV_COPY ? "copy" : "extend", steps, seed);
    fflush(stdout);
    open_case(&w->f, model, kind, 1, 0, 1);
    w->r = fg_random_seeded(seed);
    w->naive.vocab = w->f.m->config.vocab;
    w->naive.out = calloc(POSITIONS * vocab(&w->f), sizeof(float));
    w->f.entries[0] = POSITIONS;
    w->naive.s = session(&w->f, POSITIONS);
    static const int64_t entries[] = {256, 300, 512, POSITIONS};
    memcpy(w->f.entries, entries, sizeof entries);
    w->f.n_entries = FG_COUNT(entries);
    w->f.backing = backing;
    w->out = calloc(POSITIONS * vocab(&w->f), sizeof *w->out);
    for (int i = 0; i < N_SESSIONS; i++)
        w->s[i] = session(&w->f, 32);
    for (int64_t i = 0; i < steps; i++)
        step(w);
    printf("    %zu prefixes, %" PRIu64 " rows recomputed\n", w->naive.known.n, w->naive.computed);
    for (int i = 0; i < N_SESSIONS; i++) {
        op_compare(w, i);
        fg_session_free(w->s[i]);
    }
    for (int i = 0; i < N_SNAPSHOTS; i++)
        fg_snapshot_free(w->kept[i].snap);
    fg_session_free(w->naive.s);
    free(w->naive.known.prefix);
    free(w->naive.known.logits);
    free(w->naive.out);
    free(w->out);
    close_case(&w->f);
    free(w);
}

static int64_t steps_wanted = STEPS;
static uint64_t seed_wanted = 1;
static int64_t walk_wanted = -1; // all

static void random_operations(void **state)
{
    (void)state;
    // A hybrid, gated; another with layers in another order; a dense one.
    static const struct {
        const char *model;
        struct kind kind;
        enum fg_kv_backing backing;
    } walks[] = {
        {"a-s0", {true, FG_KV_KV8, true}, FG_KV_EXTEND},
        {"h-s0", {true, FG_KV_KV8, true}, FG_KV_COPY},
        {"b-s0", {false, FG_KV_F32, false}, FG_KV_COPY},
        {"e-s0", {true, FG_KV_V8, true}, FG_KV_EXTEND},
        {"h-s0", {false, FG_KV_FP16, false}, FG_KV_EXTEND},
    };
    const int64_t n = FG_COUNT(walks);
    for (int64_t i = 0; i < n; i++) {
        // What is left over goes to the first.
        int64_t steps = i ? steps_wanted / n : steps_wanted - steps_wanted / n * (n - 1);
        if (walk_wanted >= 0 && walk_wanted != i) continue;
        walk(walks[i].model, walks[i].kind, walks[i].backing, steps, seed_wanted + (uint64_t)i);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) steps_wanted = strtoll(argv[1], NULL, 10);
    if (argc > 2) seed_wanted = strtoull(argv[2], NULL, 10);
    if (argc > 3) walk_wanted = strtoll(argv[3], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_operations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
