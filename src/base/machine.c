// base/machine.c: reading /proc and /sys.
#include "base/machine.h"
#include "base/num.h"
#include <gnu/libc-version.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CPUS_MAX 8192

// Our name of a feature, and the kernel's in /proc/cpuinfo.
static const char *const features[FG_CPU_FEATURES][2] = {
    {"avx2", "avx2"},
    {"fma", "fma"},
    {"f16c", "f16c"},
    {"avx512f", "avx512f"},
    {"avx512bw", "avx512bw"},
    {"avx512vl", "avx512vl"},
    {"avx512vbmi", "avx512vbmi"},
    {"avx512vnni", "avx512_vnni"},
    {"avx512bf16", "avx512_bf16"},
    {"amx_tile", "amx_tile"},
    {"amx_int8", "amx_int8"},
    {"amx_bf16", "amx_bf16"},
};

const char *fg_cpu_feature_name(int i)
{
    return features[i][0];
}

// First line of a small file without its newline. False, and out empty, when it can't be read.
static bool read_line(const char *path, char *out, size_t cap)
{
    out[0] = '\0';
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(out, (int)cap, f) != NULL;
    fclose(f);
    out[strcspn(out, "\n")] = '\0';
    return ok;
}

static bool read_u64(const char *path, uint64_t *out)
{
    char line[64];
    return read_line(path, line, sizeof line) && fg_parse_u64(line, out);
}

// The text after "key" and separators when line starts with key; NULL otherwise.
static const char *after_key(const char *line, const char *key)
{
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0) return NULL;
    return line + n + strspn(line + n, " \t:=\"");
}

static void copy_value(char *out, size_t cap, const char *value)
{
    snprintf(out, cap, "%s", value);
    out[strcspn(out, "\"\n")] = '\0';
}

static void probe_system(struct fg_machine *m)
{
    struct utsname u;
    if (uname(&u) == 0) {
        snprintf(m->kernel, sizeof m->kernel, "%s %s", u.sysname, u.release);
        snprintf(m->arch, sizeof m->arch, "%.31s", u.machine);
    }
    snprintf(m->libc, sizeof m->libc, "glibc %s", gnu_get_libc_version());
    char line[256];
    FILE *f = fopen("/etc/os-release", "re");
    while (f && fgets(line, sizeof line, f)) {
        const char *v = after_key(line, "PRETTY_NAME");
        if (v) copy_value(m->os, sizeof m->os, v);
    }
    if (f) fclose(f);
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += n) {
        bool starts = at == words || at[-1] == ' ';
        if (starts && (at[n] == ' ' || at[n] == '\n' || !at[n])) return true;
    }
    return false;
}

static void probe_cpuinfo(struct fg_machine *m)
{
    static const size_t cap = 1u << 16; // the line of flags is a few KB
    char *line = malloc(cap);
    FILE *f = fopen("/proc/cpuinfo", "re");
    bool flags_seen = false;
    while (line && f && fgets(line, (int)cap, f)) {
        const char *v = after_key(line, "model name");
        if (v && !m->cpu[0]) copy_value(m->cpu, sizeof m->cpu, v);
        v = after_key(line, "flags");
        if (!v || flags_seen) continue;
        flags_seen = true;
        for (int i = 0; i < FG_CPU_FEATURES; i++)
            m->feature[i] = has_word(v, features[i][1]);
    }
    if (f) fclose(f);
    free(line);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int count_distinct(uint64_t *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_u64);
    int distinct = 0;
    for (int i = 0; i < n; i++)
        distinct += i == 0 || v[i] != v[i - 1];
    return distinct;
}

static void probe_topology(struct fg_machine *m)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN), configured = sysconf(_SC_NPROCESSORS_CONF);
    m->threads = online > 0 ? (int)online : 1;
    int n_cpus = configured > 0 && configured < CPUS_MAX ? (int)configured : 0;
    uint64_t *core = malloc(((size_t)n_cpus + 1) * sizeof *core);
    uint64_t *socket = malloc(((size_t)n_cpus + 1) * sizeof *socket);
    int n = 0;
    for (int cpu = 0; core && socket && cpu < n_cpus; cpu++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id",
                 cpu);
        if (!read_u64(path, &socket[n])) continue; // offline
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        if (!read_u64(path, &core[n])) continue;
        core[n] |= socket[n] << 32;
        n++;
    }
    m->sockets = n ? count_distinct(socket, n) : 1;
    m->cores = n ? count_distinct(core, n) : m->threads;
    free(core);
    free(socket);

    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t set_bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    m->allowed = m->threads;
    if (set && sched_getaffinity(0, set_bytes, set) == 0) m->allowed = CPU_COUNT_S(set_bytes, set);
    if (set) CPU_FREE(set);

    for (;;) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d", m->numa_nodes);
        if (access(path, F_OK) != 0) break;
        m->numa_nodes++;
    }
    if (m->numa_nodes == 0) m->numa_nodes = 1;
}

static void probe_caches(struct fg_machine *m)
{
    for (int i = 0; i < FG_CACHES_MAX; i++) {
        char path[96], text[64];
        uint64_t level, bytes;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_u64(path, &level)) break;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (!read_line(path, text, sizeof text) || !fg_parse_bytes(text, &bytes)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        read_line(path, text, sizeof text);
        m->caches[m->n_caches++] = (struct fg_cache){.level = (int)level,
                                                     .kind = text[0] == 'D'   ? 'd'
                                                             : text[0] == 'I' ? 'i'
                                                                              : 'u',
                                                     .bytes = bytes};
    }
}

static void probe_memory(struct fg_machine *m)
{
    static const char *const keys[] = {"MemTotal", "MemAvailable",   "SwapTotal",
                                       "SwapFree", "HugePages_Free", "Hugepagesize"};
    uint64_t *const values[] = {&m->ram_bytes,       &m->available_bytes, &m->swap_bytes,
                                &m->swap_free_bytes, &m->huge_pages_free, &m->huge_page_bytes};
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        for (int i = 0; i < 6; i++) {
            size_t n = strlen(keys[i]);
            if (strncmp(line, keys[i], n) != 0 || line[n] != ':') continue;
            uint64_t v = strtoull(line + n + 1, NULL, 10);
            *values[i] = strstr(line, " kB") ? v * 1024 : v;
        }
    }
    if (f) fclose(f);

    // "always [madvise] never": the one in brackets counts.
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    const char *open = strchr(line, '[');
    if (open) {
        snprintf(m->transparent_huge_pages, sizeof m->transparent_huge_pages, "%.15s", open + 1);
        m->transparent_huge_pages[strcspn(m->transparent_huge_pages, "]")] = '\0';
    }
}

static void probe_limits(struct fg_machine *m)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_MEMLOCK, &r) == 0)
        m->memlock_bytes = r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0)
        m->open_files = r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
}

// Page cache that a group's memory.stat counts and would give up: it is no use of ours.
static uint64_t inactive_file(const char *dir)
{
    char path[PATH_MAX + 64], line[96];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ' ');
        if (!value) continue;
        *value++ = '\0';
        value[strcspn(value, "\n")] = '\0';
        // Version 1 counts the groups below only in the total.
        if (strcmp(line, "total_inactive_file") == 0 || strcmp(line, "inactive_file") == 0)
            fg_parse_u64(value, &bytes);
    }
    if (f) fclose(f);
    return bytes;
}

// One cgroup directory: version 2 names its files memory.max and cpu.max, version 1 has a tree per
// controller. What is tighter than before is kept.
static void take_cgroup(struct fg_machine *m, const char *dir)
{
    static const char *const files[2][2] = {{"memory.max", "memory.current"},
                                            {"memory.limit_in_bytes", "memory.usage_in_bytes"}};
    char path[PATH_MAX + 64], line[64];
    uint64_t limit, used, quota, period;
    for (int v = 0; v < 2; v++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[v][0]);
        // Version 1 writes "no limit" as a number near 2^63.
        if (!read_u64(path, &limit) || limit > (uint64_t)1 << 62) continue;
        if (m->cgroup_bytes && m->cgroup_bytes <= limit) continue;
        m->cgroup_bytes = limit;
        snprintf(path, sizeof path, "%s/%s", dir, files[v][1]);
        m->cgroup_used_bytes = read_u64(path, &used) ? used : 0;
        uint64_t cache = inactive_file(dir);
        m->cgroup_used_bytes -= cache < m->cgroup_used_bytes ? cache : m->cgroup_used_bytes;
    }
    bool limited = false;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (read_line(path, line, sizeof line)) {
        char *space = strchr(line, ' ');
        if (space) *space = '\0';
        limited = space && fg_parse_u64(line, &quota) && fg_parse_u64(space + 1, &period);
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir); // -1: no limit
        limited = read_u64(path, &quota);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        limited = limited && read_u64(path, &period);
    }
    if (!limited || period == 0) return;
    double cpus = (double)quota / (double)period;
    if (m->cgroup_cpus == 0 || cpus < m->cgroup_cpus) m->cgroup_cpus = cpus;
}

// A limit may stand at any level from our group up to the root of the tree.
static void probe_cgroups(struct fg_machine *m)
{
    char line[PATH_MAX], dir[PATH_MAX];
    FILE *f = fopen("/proc/self/cgroup", "re"); // "4:memory:/group", version 2: "0::/group"
    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(++controllers, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (controllers[0] && strcmp(controllers, "memory") != 0 &&
            strncmp(controllers, "cpu", 3) != 0)
            continue;
        int root =
            snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s", controllers[0] ? "/" : "", controllers);
        if (root < 0 || (size_t)root + strlen(group) >= sizeof dir) continue;
        memcpy(dir + root, group, strlen(group) + 1);
        for (;;) {
            take_cgroup(m, dir);
            char *slash = strrchr(dir, '/');
            if (!slash || slash < dir + root) break;
            *slash = '\0';
        }
    }
    if (f) fclose(f);
}

double fg_cgroup_cpus(void)
{
    struct fg_machine m = {0};
    probe_cgroups(&m);
    return m.cgroup_cpus;
}

void fg_machine_probe(struct fg_machine *m)
{
    *m = (struct fg_machine){0};
    probe_system(m);
    probe_cpuinfo(m);
    probe_topology(m);
    probe_caches(m);
    probe_memory(m);
    probe_limits(m);
    probe_cgroups(m);
}

uint64_t fg_machine_free_bytes(const struct fg_machine *m)
{
    uint64_t bytes = m->available_bytes;
    if (m->cgroup_bytes) {
        uint64_t left =
            m->cgroup_bytes > m->cgroup_used_bytes ? m->cgroup_bytes - m->cgroup_used_bytes : 0;
        if (left < bytes) bytes = left;
    }
    return bytes;
}

uint64_t fg_disk_free_bytes(const char *path)
{
    char at[PATH_MAX];
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return 0;
    struct statvfs v;
    while (statvfs(at, &v) != 0) {
        char *slash = strrchr(at, '/');
        if (!slash) return statvfs(".", &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
        if (slash == at) slash++; // "/" itself stays
        if (!*slash) return 0;
        *slash = '\0';
    }
    return (uint64_t)v.f_bavail * v.f_frsize;
}
