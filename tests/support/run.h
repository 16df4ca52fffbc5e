// tests/support/run.h: runs a program and keeps what it says.
#ifndef FG_TESTS_RUN_H
#define FG_TESTS_RUN_H
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN_OUTPUT_MAX (1u << 20)

struct run_result {
    int code; // exit code; 128 + signal when one ended it
    char *out, *err;
    size_t n_out, n_err;
};

static inline void run_free(struct run_result *r)
{
    free(r->out);
    free(r->err);
    *r = (struct run_result){0};
}

static inline size_t run_append(char *buf, size_t n, int fd, struct pollfd *p)
{
    ssize_t got = read(fd, buf + n, RUN_OUTPUT_MAX - 1 - n);
    if (got <= 0) p->fd = -1;
    return got > 0 ? n + (size_t)got : n;
}

// argv and env ("NAME=VALUE", on top of PATH and HOME) end with NULL; env NULL: nothing more.
// input: what standard input holds.
static inline struct run_result run_program(const char *const *argv, const char *const *env,
                                            const char *input)
{
    struct run_result r = {.out = malloc(RUN_OUTPUT_MAX), .err = malloc(RUN_OUTPUT_MAX)};
    int in[2], out[2], err[2];
    if (!r.out || !r.err || pipe(in) || pipe(out) || pipe(err)) abort();
    signal(SIGPIPE, SIG_IGN); // a program that ends before it has read its input
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        char home[300];
        snprintf(home, sizeof home, "HOME=%s", getenv("HOME") ? getenv("HOME") : "/");
        const char *full[32] = {"PATH=/usr/bin:/bin", home};
        for (int i = 0; env && env[i] && i < 29; i++)
            full[i + 2] = env[i];
        execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)full);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    if (input && write(in[1], input, strlen(input)) < 0 && errno != EPIPE) perror("write");
    close(in[1]);
    struct pollfd p[2] = {{.fd = out[0], .events = POLLIN}, {.fd = err[0], .events = POLLIN}};
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, 2, -1) < 0) break;
        if (p[0].fd >= 0 && p[0].revents) r.n_out = run_append(r.out, r.n_out, out[0], &p[0]);
        if (p[1].fd >= 0 && p[1].revents) r.n_err = run_append(r.err, r.n_err, err[0], &p[1]);
    }
    close(out[0]);
    close(err[0]);
    int status;
    waitpid(pid, &status, 0);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    r.out[r.n_out] = r.err[r.n_err] = '\0';
    return r;
}
#endif
