// cli/signals.c: signals become flags that long jobs look at between blocks of work.
#include "cli/cli.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t pending;
static volatile sig_atomic_t resized;
static pthread_t waiter; // the thread that looks at the flags

// A signal goes to any thread that lets it in. One that comes while the waiter, about to wait,
// holds it back would reach another thread, and the wait would never end: that thread hands it on.
static bool handed_on(int sig)
{
    if (pthread_equal(pthread_self(), waiter)) return false;
    const int saved = errno;
    pthread_kill(waiter, sig);
    errno = saved;
    return true;
}

static void on_stop(int sig)
{
    if (handed_on(sig)) return;
    if (pending == SIGINT && sig == SIGINT) _exit(FG_EINTERRUPTED);
    pending = sig;
}

static void on_resize(int sig)
{
    if (!handed_on(sig)) resized = 1;
}

// A mapped file was truncated, or its disk failed, while a kernel read it: there is nothing to go
// on with. Only calls that are safe in a handler.
static void on_bus(int sig)
{
    static const char text[] = "forge: a file in use was cut short or can't be read any more\n";
    (void)sig;
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(FG_EFAILED);
}

void fg_signals_guard_maps(void)
{
    struct sigaction sa = {.sa_handler = on_bus};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, NULL);
}

void fg_signals_catch(void)
{
    // Writes go on after a signal: one that came back half done would lose output and leave stdout
    // in error. Waiting for input is ppoll, which comes back all the same.
    struct sigaction sa = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    waiter = pthread_self();
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    sa.sa_handler = on_resize;
    sigaction(SIGWINCH, &sa, NULL);
}

int fg_signals_pending(void)
{
    return pending;
}

void fg_signals_clear(void)
{
    pending = 0;
}

bool fg_signals_resized(void)
{
    bool was = resized;
    resized = 0;
    return was;
}

int fg_signals_exit_code(int sig)
{
    return 128 + sig;
}
