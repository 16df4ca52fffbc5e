// `forge chat` in a pseudo-terminal and in a pipe (specs: cli 10.2; acceptance A16).
#include "base/progress.h"
#include "support/run.h"
#include "support/scratch.h"
#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <cmocka.h>

#define CHAT FORGE_GOLDEN_DIR "/models/chat-tiny"
#define WAIT_SECONDS 60.0 // until a test gives up on what it waits for
#define SCREEN_MAX (1u << 22)

static struct scratch scratch;

// ---- a terminal with forge in it

struct terminal {
    pid_t pid;
    int fd;
    char *screen;   // all that was printed
    size_t n, seen; // seen: up to where expect has looked
};

static void terminal_open(struct terminal *t, const char *const *more)
{
    const char *argv[24] = {FORGE_BINARY, "chat", "-m", CHAT, "--seed", "1", "--color", "never"};
    int n = 8;
    for (int i = 0; more && more[i]; i++)
        argv[n++] = more[i];
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    *t = (struct terminal){.screen = calloc(1, SCREEN_MAX)};
    assert_non_null(t->screen);
    t->pid = forkpty(&t->fd, NULL, NULL, &size);
    assert_true(t->pid >= 0);
    if (t->pid > 0) return;
    char state[512], home[512];
    snprintf(state, sizeof state, "FORGE_STATE=%s/state", scratch.dir);
    snprintf(home, sizeof home, "HOME=%s", scratch.dir);
    char *env[] = {state, home, (char[]){"TERM=xterm"}, (char[]){"LC_ALL=C.UTF-8"}, NULL};
    execve(argv[0], (char *const *)(uintptr_t)argv, env);
    _exit(99);
}

static void type(struct terminal *t, const char *text)
{
    size_t n = strlen(text);
    assert_int_equal(write(t->fd, text, n), n);
}

// Reads for up to `seconds`; false when nothing came.
static bool pump(struct terminal *t, double seconds)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (poll(&p, 1, (int)(seconds * 1000)) <= 0) return false;
    ssize_t got = read(t->fd, t->screen + t->n, SCREEN_MAX - 1 - t->n);
    if (got <= 0) return false;
    for (ssize_t i = 0; i < got; i++) { // a NUL would end the searches
        if (!t->screen[t->n + (size_t)i]) t->screen[t->n + (size_t)i] = '?';
    }
    t->n += (size_t)got;
    return true;
}

// Waits until `text` has appeared after what was expected before.
static void expect(struct terminal *t, const char *text)
{
    double start = fg_clock();
    for (;;) {
        char *at = strstr(t->screen + t->seen, text);
        if (at) {
            t->seen = (size_t)(at - t->screen) + strlen(text);
            return;
        }
        if (fg_clock() - start > WAIT_SECONDS) break;
        pump(t, 0.5);
    }
    size_t from = t->n > 1500 ? t->n - 1500 : 0;
    print_error("waiting for '%s'; the screen ends:\n%s\n", text, t->screen + from);
    fail();
}

// The prompt, and the editor behind it: it takes the terminal over just after it has printed. What
// is typed in between is echoed by the kernel, and an interrupt would throw it away.
static void expect_prompt(struct terminal *t)
{
    struct termios tio;
    expect(t, "> ");
    double start = fg_clock();
    do {
        assert_int_equal(tcgetattr(t->fd, &tio), 0);
        if (tio.c_lflag & ICANON) usleep(1000);
    } while ((tio.c_lflag & ICANON) && fg_clock() - start < WAIT_SECONDS);
}

static int terminal_close(struct terminal *t)
{
    double start = fg_clock();
    int status = 0;
    pid_t done = 0;
    while ((done = waitpid(t->pid, &status, WNOHANG)) == 0 && fg_clock() - start < WAIT_SECONDS)
        pump(t, 0.05);
    if (done == 0) kill(t->pid, SIGKILL);
    if (done == 0) print_error("did not end:\n%s\n", t->screen + t->seen);
    assert_int_equal(done, t->pid);
    while (pump(t, 0.05)) {
    }
    close(t->fd);
    free(t->screen);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_session(void **state)
{
    (void)state;
    static const char *const few[] = {"-n", "8", NULL};
    struct terminal t;
    terminal_open(&t, few);
    expect(&t, "/help lists commands");
    expect_prompt(&t);
    type(&t, "helo\b\blo\r"); // edited: hello
    expect(&t, "[8 tok, ");
    type(&t, "/stats\r");
    expect(&t, "last reply: 8 tokens");
    type(&t, "/ctx\r");
    expect(&t, "2 messages");
    type(&t, "/sett\r");
    expect(&t, "did you mean /set?");
    type(&t, "/set temperature 3\r");
    expect(&t, "expected a number from 0.0 to 2.0, found 3");
    type(&t, "/set temperature 0.25\r");
    expect_prompt(&t);
    type(&t, "/show\r");
    expect(&t, "temperature 0.25");
    type(&t, "/think maybe\r");
    expect(&t, "expected on or off, found maybe");
    type(&t, "/think on\r");
    expect_prompt(&t);
    type(&t, "again\r");
    expect(&t, "<think>");
    expect(&t, "[8 tok, ");
    type(&t, "/undo\r");
    expect_prompt(&t);
    type(&t, "/ctx\r");
    expect(&t, "2 messages");
    type(&t, "/reset\r");
    expect_prompt(&t);
    type(&t, "/ctx\r");
    expect(&t, "0 of ");
    type(&t, "/undo\r");
    expect(&t, "expected a message that was asked before");
    type(&t, "/quit\r");
    assert_int_equal(terminal_close(&t), 0);

    // What was typed is remembered, for this user only.
    struct stat st;
    char path[512];
    snprintf(path, sizeof path, "%s/state/history", scratch.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/state", scratch.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    terminal_open(&t, few);
    expect_prompt(&t);
    type(&t, "\033[A"); // up: the newest line
    expect(&t, "/quit");
    type(&t, "\r");
    assert_int_equal(terminal_close(&t), 0);
}

// A damaged history gives what is readable; one that is no file is refused.
static void test_history(void **state)
{
    (void)state;
    static const char damaged[] = "first\\nsecond\\\\x\n\\\xFF\n\xFF\\777\n\n\\\nplain\\";
    static const char kept[] = "first\\nsecond\\\\x\n\\\\\nplain\\\\\n/quit\n";
    struct terminal t;
    char found[sizeof kept + 8], path[512];
    snprintf(path, sizeof path, "%s/state", scratch.dir);
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    scratch_write(&scratch, "state/history", damaged, sizeof damaged - 1);
    terminal_open(&t, NULL);
    expect_prompt(&t);
    type(&t, "\033[A");
    expect(&t, "plain\\");
    type(&t, "\025/quit\r");
    assert_int_equal(terminal_close(&t), 0);
    FILE *f = fopen(scratch_path(&scratch, "state/history"), "rb");
    assert_non_null(f);
    size_t n = fread(found, 1, sizeof found, f);
    fclose(f);
    assert_int_equal(n, sizeof kept - 1);
    assert_memory_equal(found, kept, n);

    assert_int_equal(remove(scratch.path), 0);
    assert_int_equal(mkfifo(scratch.path, 0600), 0);
    terminal_open(&t, NULL);
    expect(&t, "a regular file, found a special file");
    assert_int_equal(terminal_close(&t), 2);
    assert_int_equal(remove(scratch_path(&scratch, "state/history")), 0);
}

static void test_interrupted_reply(void **state)
{
    (void)state;
    static const char *const large[] = {"--ctx", "128K", "--temperature", "0", NULL};
    struct terminal t;
    terminal_open(&t, large);
    expect_prompt(&t);
    type(&t, "talk\r");
    while (t.n < t.seen + 400) // some of the reply
        assert_true(pump(&t, WAIT_SECONDS));
    type(&t, "\003");
    expect(&t, " tok, ");
    expect_prompt(&t);
    type(&t, "/ctx\r"); // the stopped reply is kept
    expect(&t, "2 messages");
    type(&t, "/set tokens 5\r");
    expect_prompt(&t);
    type(&t, "and then?\r");
    expect(&t, "[5 tok, ");
    expect_prompt(&t);
    type(&t, "\004");
    assert_int_equal(terminal_close(&t), 0);
}

static void test_interrupt_at_prompt(void **state)
{
    (void)state;
    struct terminal t;
    terminal_open(&t, NULL);
    expect_prompt(&t);
    type(&t, "/nonsense");
    expect(&t, "nonsense");
    type(&t, "\003"); // drops the line
    expect(&t, "^C");
    expect_prompt(&t);
    type(&t, "\003");
    expect(&t, "Ctrl-C again");
    expect_prompt(&t);
    type(&t, "/ctx\r"); // in between: the count starts again
    expect(&t, "0 of ");
    expect_prompt(&t);
    type(&t, "\003");
    expect(&t, "Ctrl-C again");
    expect_prompt(&t);
    type(&t, "\003");
    assert_int_equal(terminal_close(&t), 0);
}

static void test_lines_and_resize(void **state)
{
    (void)state;
    static const char *const few[] = {"-n", "4", NULL};
    char path[512];
    snprintf(path, sizeof path, "%s/saved.json", scratch.dir);
    struct terminal t;
    terminal_open(&t, few);
    expect_prompt(&t);
    type(&t, "one\\\r");
    expect(&t, "... ");
    struct winsize size = {.ws_row = 24, .ws_col = 60};
    ioctl(t.fd, TIOCSWINSZ, &size);
    type(&t, "tw\xC3\xB6\r");
    expect(&t, "[4 tok, ");
    type(&t, "\"\"\"a\r");
    expect(&t, "... ");
    type(&t, "b\"\"\"\r");
    expect(&t, "[4 tok, ");
    char line[600];
    snprintf(line, sizeof line, "/save %s\r", path);
    type(&t, line);
    expect(&t, "4 messages saved");
    snprintf(line, sizeof line, "/load %s\r", path);
    type(&t, line);
    expect(&t, "4 messages loaded");
    expect_prompt(&t);
    type(&t, "/quit\r");
    assert_int_equal(terminal_close(&t), 0);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char text[4096];
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    assert_non_null(strstr(text, "\"content\": \"one\\ntw\xC3\xB6\""));
    assert_non_null(strstr(text, "\"content\": \"a\\nb\""));
}

static void test_terminated(void **state)
{
    (void)state;
    static const struct {
        int sig, code;
    } cases[] = {{SIGTERM, 143}, {SIGHUP, 129}};
    for (int i = 0; i < 2; i++) {
        struct terminal t;
        terminal_open(&t, NULL);
        expect_prompt(&t);
        kill(t.pid, cases[i].sig);
        assert_int_equal(terminal_close(&t), cases[i].code);
    }
}

// ---- without a terminal

static struct run_result piped(const char *input, const char *a, const char *b, const char *c,
                               const char *d)
{
    const char *argv[] = {FORGE_BINARY, "chat", "-q", "-m", CHAT, "--seed", "1",
                          "-n",         "6",    a,    b,    c,    d,        NULL};
    return run_program(argv, NULL, input);
}

static void test_pipe(void **state)
{
    (void)state;
    struct run_result r = piped("one\n\ntwo", NULL, NULL, NULL, NULL);
    if (r.code || r.n_err) print_error("%s\n", r.err);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.n_err, 0);
    size_t lines = 0;
    for (size_t i = 0; i < r.n_out; i++) {
        lines += r.out[i] == '\n';
        assert_true(r.out[i] != '\033');
    }
    assert_int_equal(lines, 2); // no prompt, a line per reply
    run_free(&r);
    // A turn that fails ends a script with its code.
    r = piped("ok\nbad \xFF\nok\n", NULL, NULL, NULL, NULL);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "field byte 4"));
    run_free(&r);
}

// /undo equals never having asked, and a conversation that is saved and resumed goes on the same.
static void test_undo_and_resume(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "talk.json"));
    struct run_result plain = piped("one\nthree\n", NULL, NULL, NULL, NULL);
    struct run_result undone = piped("one\ntwo\n/undo\nthree\n", NULL, NULL, NULL, NULL);
    assert_int_equal(plain.code, 0);
    assert_int_equal(undone.code, 0);
    const char *last = strchr(plain.out, '\n') + 1, *last_undone = undone.out;
    for (int i = 0; i < 2; i++)
        last_undone = strchr(last_undone, '\n') + 1;
    assert_string_equal(last, last_undone);

    struct run_result first = piped("one\n", "--save", path, NULL, NULL);
    struct run_result resumed = piped("three\n", "--resume", path, NULL, NULL);
    assert_int_equal(first.code, 0);
    assert_int_equal(resumed.code, 0);
    assert_string_equal(resumed.out, last);
    struct run_result single = piped(NULL, "--resume", path, "-p", "three");
    assert_string_equal(single.out, last);
    run_free(&single);
    run_free(&resumed);
    run_free(&first);
    run_free(&undone);
    run_free(&plain);
}

static void test_bad_conversations(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"{}", "field messages: expected an array, found nothing"},
        {"[{\"role\": \"user\"}]", "field messages[0].content: expected a text, found nothing"},
        {"[{\"role\": \"tool\", \"content\": \"\"}]", "field messages[0].role"},
        {"[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"system\", \"content\": \"x\"}]",
         "field messages[1].role: expected user or assistant, found system"},
        {"[{\"role\": \"user\", \"content\": \"x\"}", "field 1:34"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path =
            scratch_write(&scratch, "bad.json", cases[i].json, strlen(cases[i].json));
        struct run_result r = piped("x\n", "--resume", path, NULL, NULL);
        if (r.code != 2 || !strstr(r.err, cases[i].says))
            print_error("%s\n%s\n", cases[i].json, r.err);
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, cases[i].says));
        run_free(&r);
    }
}

static void test_full_context(void **state)
{
    (void)state;
    // 48 positions: the second message does not fit any more.
    struct run_result r =
        piped("one\nand this one is longer than all that is left\n", "--ctx", "48", NULL, NULL);
    if (r.code != 2) print_error("%s\n", r.err);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "context full: expected less than 48 tokens"));
    run_free(&r);
}

static int group_setup(void **state)
{
    (void)state;
    scratch_open(&scratch);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_interrupted_reply),
        cmocka_unit_test(test_interrupt_at_prompt),
        cmocka_unit_test(test_lines_and_resize),
        cmocka_unit_test(test_terminated),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_undo_and_resume),
        cmocka_unit_test(test_bad_conversations),
        cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_history),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
