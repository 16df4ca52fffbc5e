#!/usr/bin/env bash
# Does the logits test notice? Each mutation is a mistake that an implementation of the forward pass
# could make (most were made by others). It is applied to a copy of the sources, the copy is rebuilt,
# and test_logits' comparison with the reference must fail, by a wrong number (or one that is none, which the forward pass refuses) and not by a crash.
#
#   tests/mutation/run.sh [PATTERN]     only mutations whose name matches the extended expression
#
# Only the plain C kernels are built: every level computes the same bits (tests of kernels/). A text
# to be replaced must occur exactly once, so that a changed source shows here and is not passed over.
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
PATTERN=${1:-.}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/tests" "$WORK/obj"
cp -r "$ROOT/src" "$ROOT/include" "$WORK/"
cp -r "$ROOT/tests/model" "$ROOT/tests/support" "$WORK/tests/"
cd "$WORK"

CC=${CC:-cc}
NATIVE=$(case $(uname -m) in x86_64) echo -march=native ;; esac) # fmaf as an instruction
read -ra LIBS <<<"$(pkg-config --cflags --libs json-c libcrypto libpcre2-8 libutf8proc openblas lapacke cmocka)"
FLAGS=(-std=gnu17 -O2 -w $NATIVE -ffp-contract=off -fno-math-errno -D_GNU_SOURCE -DFORGE_REF_ONLY -Iinclude -Isrc
    -Itests "-DFORGE_GOLDEN_DIR=\"$ROOT/tests/golden\"" "${LIBS[@]}")

object() { echo "obj/$(tr / _ <<<"$1").o"; }
compile() { "$CC" "${FLAGS[@]}" -c "$1" -o "$(object "$1")"; }
link() { "$CC" obj/*.o -o test_logits "${LIBS[@]}" -lpthread -lm; }
export -f object compile

# replace FILE OLD NEW: exactly once.
replace() {
    OLD=$2 NEW=$3 perl -0777 -i -pe '
        $n += s/\Q$ENV{OLD}\E/$ENV{NEW}/g; END { die "found $n times in '"$1"': $ENV{OLD}\n" if $n != 1 }' "$1"
}

for file in src/base/*.c src/format/*.c src/quant/*.c src/model/*.c src/kernels/*.c src/kernels/ref/*.c \
    tests/model/test_logits.c; do
    [ ! -e "$file" ] || echo "$file"
done >sources
declare -p FLAGS CC >settings
xargs -P 2 -I{} bash -c '. ./settings; compile {}' <sources
link
./test_logits test_reference >log 2>&1 || {
    cat log
    echo "the test fails without a mutation"
    exit 1
}

n=0
survived=()
# mutate NAME (FILE OLD NEW)...
mutate() {
    local name=$1 code=0 i
    shift
    [[ $name =~ $PATTERN ]] || return 0
    n=$((n + 1))
    local files=()
    for ((i = 1; i <= $#; i += 3)); do
        local file=${!i} old=$((i + 1)) new=$((i + 2))
        replace "$file" "${!old}" "${!new}"
        [[ " ${files[*]} " == *" $file "* ]] || files+=("$file")
    done
    for file in "${files[@]}"; do compile "$file"; done
    link
    ./test_logits test_reference >log 2>&1 || code=$?
    if ((code > 0 && code < 128)) && grep -qE 'relative L2 [^,]*, top-1|numerical error' log; then
        printf 'caught    %-50s %s\n' "$name" "$(grep -oE '[a-z]-s[0-9], row.*L2 [^,]*|numerical error.*' log | head -1)"
    else
        printf 'SURVIVED  %-50s exit %d\n' "$name" "$code"
        survived+=("$name")
    fi
    for file in "${files[@]}"; do
        cp "$ROOT/$file" "$file"
        compile "$file"
    done
}

NORM=src/kernels/ref/norm.c
DELTA=src/kernels/ref/deltanet.c
GDN=src/kernels/ref/gdn.c
ATTN=src/kernels/ref/attn.c
ELEMENT=src/kernels/ref/elementwise.c

# ---- the list of specs/model.md, section 15
mutate 'w for 1 + w: layer norms' src/model/weights.c \
    '"MLP";
    float one = c->norm_zero_centred ? 1 : 0;' '"MLP";
    float one = 0;'
mutate 'w for 1 + w: query and key norms' src/model/weights.c \
    '2 * q : q;
    float one = c->norm_zero_centred ? 1 : 0;' '2 * q : q;
    float one = 0;'
mutate 'w for 1 + w: final norm' src/model/weights.c 'cfg->norm_zero_centred ? 1 : 0' '0'
mutate 'head map j mod nk' src/kernels/parallel.c 'j / (c->nv / c->nk)' 'j % c->nk'
mutate 'gate and query halves swapped' src/model/attention.c \
    '+ h * q_step;' '+ h * q_step + (c->output_gate ? D : 0);' \
    src/model/attention.c '(2 * i + 1) * D' '2 * i * D'
mutate 'gates after all queries' src/model/attention.c '+ h * q_step;' '+ h * D;' \
    src/model/attention.c '(2 * i + 1) * D' \
    '(i / j->c->n_heads * 2 * j->c->n_heads + j->c->n_heads + i % j->c->n_heads) * D'
mutate 'query norm after rotary' src/model/attention.c \
    'kn->rms_norm(q, src, j->l->q_norm, D, c->norm_eps);' 'memcpy(q, src, (size_t)D * sizeof *q);' \
    src/model/attention.c 'kn->rope(q, cs, sn, c->rot);' \
    'kn->rope(q, cs, sn, c->rot);
            if (c->qk_norm) kn->rms_norm(q, q, j->l->q_norm, D, c->norm_eps);'
mutate 'key norm after rotary' src/model/attention.c \
    'if (c->qk_norm) kn->rms_norm(k, k, j->l->k_norm, D, c->norm_eps);
            kn->rope(k, cs, sn, c->rot);' 'kn->rope(k, cs, sn, c->rot);
            if (c->qk_norm) kn->rms_norm(k, k, j->l->k_norm, D, c->norm_eps);'
mutate 'rotary over the whole head' src/model/rope.c '(int64_t)((double)cfg->head_dim * partial)' 'cfg->head_dim'
mutate 'interleaved rotary' "$ELEMENT" \
    'float a = x[i], b = x[i + h];
        x[i] = fmaf(-b, s[i], a * c[i]);
        x[i + h] = ' 'float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = fmaf(-b, s[i], a * c[i]);
        x[2 * i + 1] = '
mutate 'l2 by the mean' "$NORM" 'sqrtf(sumsq(x, n) + eps)' 'sqrtf(sumsq(x, n) / (float)n + eps)'
mutate 'query without dk^(-1/2)' src/model/deltanet.c 'dk, L2_EPS, scale' 'dk, L2_EPS, 1.0f'
mutate 'decay after the update' "$GDN" \
    'beta * fmaf(-g, m[j], v[j])' 'beta * (v[j] - m[j])' \
    "$GDN" 'fmaf(kq, d[j], g * p[j])' 'g * fmaf(kq, d[j], p[j])' \
    "$GDN" 'fmaf(k[i], d[j], g * S[i * dv + j])' 'g * fmaf(k[i], d[j], S[i * dv + j])'
mutate 'no SiLU after the convolution' "$DELTA" '= fg_silu_f32(acc)' '= acc'
mutate 'convolution kernel reversed' "$DELTA" 'w[c * K + j]' 'w[c * K + K - 1 - j]'
mutate 'sigmoid for SiLU on z' "$NORM" 'fg_silu_f32(z[i])' 'fg_sigmoid_f32(z[i])'
mutate 'output gate after o_proj' src/model/attention.c \
    'fg_parallel_for(&ws->par, T, FG_GRAPH_ROWS_GRAIN, gate_rows, &j);' '' \
    src/model/attention.c \
    'fg_graph_linear(ws, &(struct fg_term){&l->o, l->o_bias, ws->y}, 1, ws->o, T);' \
    'fg_graph_linear(ws, &(struct fg_term){&l->o, l->o_bias, ws->y}, 1, ws->o, T);
    for (int64_t t = 0; c->output_gate && t < T; t++)
        ws->par.kernels->sigmoid_mul(ws->y + t * c->hidden, ws->y + t * c->hidden,
                                     ws->q_proj + t * 2 * q_row + D, c->hidden < D ? c->hidden : D);'
mutate 'no epsilon: norms' "$NORM" '/ (float)n + eps' '/ (float)n'
mutate 'no epsilon: l2' "$NORM" 'sumsq(x, n) + eps' 'sumsq(x, n)'
mutate 'l2 with the epsilon of the config' src/model/deltanet.c 'dk, L2_EPS, 1.0f' 'dk, c->norm_eps, 1.0f'

# ---- others
mutate 'gated norm with 1 + w' src/model/weights.c 'c->v_head_dim, 0)' 'c->v_head_dim, 1)'
mutate 'z gates before the norm' "$NORM" \
    'float s = rms_scale(x, n, eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i] * fg_silu_f32(z[i]);' \
    'for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * fg_silu_f32(z[i]);
    fg_rms_norm_ref(y, y, w, n, eps);'
mutate 'no beta' "$DELTA" 'beta[i] = fg_sigmoid_f32(b[i])' 'beta[i] = 1.0f'
mutate 'no dt_bias' "$DELTA" 'a[i] + dt_bias[i]' 'a[i]'
mutate 'A_log without exp' src/model/weights.c '-fg_exp_f32(l->neg_exp_A[j])' '-l->neg_exp_A[j]'
mutate 'output from the state before the update' "$GDN" 'fmaf(kq, d[j], g * p[j])' 'g * p[j]'
mutate 'convolution rows not kept between calls' src/model/deltanet.c \
    'last_rows(j->state->conv[!s->cur], j->hist, ws->u + j->t0 * channels, j->T,' \
    'last_rows(j->state->conv[!s->cur], j->hist, j->hist, 0,'
mutate 'positions start anew with each call' src/model/graph.c \
    'fg_rope_table(c, parts[i].state->pos,' 'fg_rope_table(c, 0,'
mutate 'query head h to KV head h mod nkv' src/kernels/parallel.c \
    '&job->call->kv[kv]' '&job->call->kv[job->call->n_kv - 1 - kv]'
mutate 'attention sees one position too few' src/kernels/parallel.c 'c->pos + r / job->G;' \
    'c->pos + r / job->G - (c->pos + r / job->G > 0);'
mutate 'attention without scale' "$ATTN" 'sum * rows->scale' 'sum'
mutate 'attention does not rescale between tiles' "$ATTN" 'fmaf(o[d], a, o2[d] * b)' 'o[d] + o2[d] * b'
mutate 'yarn without its attention factor' src/model/rope.c '0.1 * log(factor) + 1' '1'
mutate 'yarn ramp upside down' src/model/rope.c 'w * (1 - ramp) + w / factor * ramp' 'w * ramp + w / factor * (1 - ramp)'
mutate 'llama3 without the smooth part' src/model/rope.c 'w = (1 - t) * w / factor + t * w' 'w = t > 2 ? w / factor : w'
mutate 'SiLU on up, not on gate' "$ELEMENT" 'fg_silu_f32(gate[i]) * up[i]' 'fg_silu_f32(up[i]) * gate[i]'
mutate 'biases left out' src/kernels/parallel_linear.c 'for (int64_t t = 0; m->bias && t < t1 - t0; t++)' \
    'for (int64_t t = 0; false && t < t1 - t0; t++)'
mutate 'no residual around the MLP' src/model/graph.c \
    'fg_graph_mlp(ws, m, i, pos, T);
        fg_graph_add(ws, ws->x, ws->y, H, T);' 'fg_graph_mlp(ws, m, i, pos, T);'

echo "$n mutations, ${#survived[@]} survived"
((n > 0 && ${#survived[@]} == 0))
