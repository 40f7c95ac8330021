/* What a program finds when it starts: descriptors, signals, limits, and nothing that somebody left. */
#include "say.h"

int main(int argc, char **argv)
{
    char out[4096];
    int at = 0;
    (void)argc;
    for (int fd = 0; fd < 256; fd++) {
        char link[64], name[256] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, name, sizeof name - 1) > 0) {
            /* Pipes have numbers of their own. */
            char *end = strchr(name, '[');
            if (end)
                *end = 0;
            at += snprintf(out + at, sizeof out - (size_t)at, "%d %s %x\n", fd, name, fcntl(fd, F_GETFL));
        }
    }
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            at += snprintf(out + at, sizeof out - (size_t)at, "signal %d %p\n", number, (void *)action.sa_handler);
    }
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 65; number++)
        if (sigismember(&mask, number) == 1)
            at += snprintf(out + at, sizeof out - (size_t)at, "blocked %d\n", number);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    stack_t stack;
    sigaltstack(NULL, &stack);
    mode_t mode = umask(0);
    at += snprintf(out + at, sizeof out - (size_t)at, "limit %ld, umask %o, stack %d, name %s, SIGPIPE %d\n",
                   (long)limit.rlim_cur, mode, stack.ss_flags, argv[0], SIGPIPE);
    if (write(1, out, (size_t)at) < 0)
        return 1;
    return 0;
}
