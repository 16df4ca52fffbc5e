// base/machine.h: what this machine is, as /proc, /sys and the C library tell it. Nothing here
// fails: what can't be found out stays empty or zero.
#ifndef FG_BASE_MACHINE_H
#define FG_BASE_MACHINE_H
#include <stdbool.h>
#include <stdint.h>

#define FG_CACHES_MAX 8
#define FG_CPU_FEATURES 12

struct fg_cache {
    int level;
    char kind; // 'd' data, 'i' instructions, 'u' both
    uint64_t bytes;
};

struct fg_machine {
    char os[128], kernel[160], arch[32], libc[64];
    char cpu[128];                         // model name
    int sockets, cores, threads;           // that are online
    int allowed;                           // threads that affinity allows
    double cgroup_cpus;                    // CPUs' worth of time that cgroups grant; 0: no limit
    bool feature[FG_CPU_FEATURES];         // see fg_cpu_feature_name
    struct fg_cache caches[FG_CACHES_MAX]; // of the first CPU
    int n_caches;
    int numa_nodes;
    uint64_t ram_bytes, available_bytes, swap_bytes, swap_free_bytes;
    uint64_t cgroup_bytes, cgroup_used_bytes; // memory limit of cgroups; 0: none. Use without page
                                              // cache that would be given up
    uint64_t huge_page_bytes, huge_pages_free;
    char transparent_huge_pages[16];    // "always", "madvise", "never"
    uint64_t memlock_bytes, open_files; // limits of this process; UINT64_MAX: none
};

void fg_machine_probe(struct fg_machine *m);

// CPUs' worth of time that the cgroups of this process grant, the tightest on the way up; 0: no
// limit.
double fg_cgroup_cpus(void);

// Name of feature i in [0, FG_CPU_FEATURES): "avx2", "avx512bf16", ...
const char *fg_cpu_feature_name(int i);

// Memory that a new allocation may use: what is available, within the cgroup's limit.
uint64_t fg_machine_free_bytes(const struct fg_machine *m);

// Free bytes for ordinary users in the file system that holds `path`, or its nearest parent that
// exists. 0 when unknown.
uint64_t fg_disk_free_bytes(const char *path);
#endif
