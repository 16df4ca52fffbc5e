// cli/version.c: `forge version` and `forge --version`.
#include "cli/cli.h"
#include "forge/forge.h"
#include <cblas.h>
#include <histedit.h>
#include <json-c/json.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

// "0.3.21" of "OpenBLAS 0.3.21 DYNAMIC_ARCH ...".
static const char *blas_version(char out[32])
{
    const char *text = strchr(openblas_get_config(), ' ');
    const size_t n = text ? strcspn(text + 1, " ") : 0;
    snprintf(out, 32, "%.*s", (int)(n < 31 ? n : 31), text ? text + 1 : "");
    return out;
}

void fg_version_libraries(struct fg_jwrite *w)
{
    char pcre2[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    char edit[32];
    snprintf(edit, sizeof edit, "%d.%d", LIBEDIT_MAJOR, LIBEDIT_MINOR);
    fg_jwrite_object(w, "libraries");
    fg_jwrite_str(w, "json-c", json_c_version());
    fg_jwrite_str(w, "libcrypto", OpenSSL_version(OPENSSL_VERSION_STRING));
    fg_jwrite_str(w, "pcre2", pcre2);
    fg_jwrite_str(w, "utf8proc", utf8proc_version());
    fg_jwrite_str(w, "libedit", edit);
    char blas[32];
    fg_jwrite_str(w, "openblas", blas_version(blas));
    fg_jwrite_end_object(w);
}

static int print_json(struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "version", forge_version());
    fg_jwrite_str(&w, "commit", forge_commit());
    fg_jwrite_str(&w, "build_type", forge_build_type());
    fg_jwrite_str(&w, "compiler", forge_compiler());
    fg_jwrite_array(&w, "backends");
    fg_jwrite_str(&w, NULL, "cpu");
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "isa");
    for (int i = 0; i < forge_isa_count(); i++)
        fg_jwrite_str(&w, NULL, forge_isa_name(i));
    fg_jwrite_end_array(&w);
    fg_version_libraries(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

int fg_version_print(struct fg_cli *cli, struct fg_error *err)
{
    if (cli->json) return print_json(err);
    printf("forge %s (%s, %s, isa", forge_version(), forge_commit(), forge_build_type());
    for (int i = 0; i < forge_isa_count(); i++)
        printf(" %s", forge_isa_name(i));
    printf(", backends cpu)\n");
    return fg_out_flush(err);
}

static int run_version(struct fg_cli *cli, struct fg_error *err)
{
    int rc = fg_version_print(cli, err);
    if (rc || cli->json) return rc;
    char pcre2[64] = "", blas[32];
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    printf("compiler %s\njson-c %s, libcrypto %s, pcre2 %s, utf8proc %s, libedit %d.%d, "
           "openblas %s\n",
           forge_compiler(), json_c_version(), OpenSSL_version(OPENSSL_VERSION_STRING), pcre2,
           utf8proc_version(), LIBEDIT_MAJOR, LIBEDIT_MINOR, blas_version(blas));
    return fg_out_flush(err);
}

const struct fg_command fg_cmd_version = {
    .name = "version",
    .group = "Self",
    .summary = "print version, compiler, kernel paths and libraries",
    .args = "",
    .run = run_version,
};
