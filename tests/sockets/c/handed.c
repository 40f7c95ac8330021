/* All that a program is handed at its start, as far as it can be asked for; and with the argument `oddly` a start with odd things of
   every kind: what follows is executed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void text(const char *what, const char *bytes)
{
    unsigned long hash = 5381;
    size_t length = strlen(bytes);
    for (size_t at = 0; at < length; at++)
        hash = hash * 33 + (unsigned char)bytes[at];
    printf("%s %zu %lx %.200s\n", what, length, hash, bytes);
}

static void signals(void)
{
    sigset_t mask, pending;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigpending(&pending);
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("signal %d %p\n", number, (void *)action.sa_handler);
        if (sigismember(&mask, number) == 1)
            printf("blocked %d%s\n", number, sigismember(&pending, number) == 1 ? ", pending" : "");
    }
}

static void show(int argc, char **argv)
{
    for (int at = 0; at < argc; at++)
        text("argument", argv[at]);
    for (char **at = environ; *at; at++)
        text("variable", *at);
    text("executed", (const char *)getauxval(AT_EXECFN));
    signals();
    for (int which = 0; which < RLIM_NLIMITS; which++) {
        struct rlimit limit;
        if (getrlimit(which, &limit) == 0)
            printf("limit %d %lu %lu\n", which, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
    for (int fd = 0; fd < 64; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("descriptor %d %x %x at %ld\n", fd, fcntl(fd, F_GETFD), fcntl(fd, F_GETFL), (long)lseek(fd, 0, SEEK_CUR));
    int death = 0, reaper = 0;
    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    printf("death %d, reaper %d, dumpable %d, rights %d, slack %d, huge pages %d, secure %lu\n", death, reaper,
           prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_TIMERSLACK),
           prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), getauxval(AT_SECURE));
    cpu_set_t processors;
    sched_getaffinity(0, sizeof processors, &processors);
    char folder[4096] = "";
    printf("nice %d, mask %o, personality %x, alarm %d, processors %d, policy %d, leader %d, session %d, terminal %d, in %s\n",
           getpriority(PRIO_PROCESS, 0), umask(0), personality(0xffffffff), alarm(0) > 0, CPU_COUNT(&processors),
           sched_getscheduler(0), getpgrp() == getpid(), getsid(0) == getpid(), open("/dev/tty", O_RDWR) >= 0,
           getcwd(folder, sizeof folder) ? folder : "nowhere");
}

static void odd_state(void)
{
    for (int number = 1; number < 65; number++)
        if (number % 3 == 0 || number == SIGXFSZ)
            signal(number, SIG_IGN);
    sigset_t mask;
    sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGPIPE);
    close(0);
    dup2(1, 40);
    fcntl(40, F_SETFD, 0);
    umask(027);
    nice(3);
    alarm(1000);
    prctl(PR_SET_PDEATHSIG, SIGUSR2);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_TIMERSLACK, 12345);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    personality(ADDR_NO_RANDOMIZE);
    struct rlimit few = {50, 60}, no_core = {0, 0};
    setrlimit(RLIMIT_NOFILE, &few);
    setrlimit(RLIMIT_CORE, &no_core);
    chdir("/tmp");
}

int main(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], "oddly") != 0) {
        show(argc, argv);
        return 0;
    }
    odd_state();
    /* What was there, and odd ones around it. */
    static char *variables[1000];
    static char *odd[] = {"NOEQUALS", "", "=weird", "=", "A=1", "A=2", "B\xff=\xfe", "LD_PRELOAD=", "EMPTY=", "LD_PRELOADS=x"};
    size_t at = 0;
    for (size_t from = 0; from < sizeof odd / sizeof *odd; from++)
        variables[at++] = odd[from];
    for (char **from = environ; *from && at < 990; from++)
        variables[at++] = *from;
    variables[at++] = "LAST";
    static char long_one[128 * 1024];
    memset(long_one, 'l', sizeof long_one - 1);
    char *more[] = {"", "\xff\xfe", "a b", "--strict", "--", long_one, "line\nbreak"};
    char *words[100];
    int count = 0;
    for (int from = 2; from < argc && count < 80; from++)
        words[count++] = argv[from];
    for (size_t from = 0; from < sizeof more / sizeof *more; from++)
        words[count++] = more[from];
    words[count] = NULL;
    execve(words[0], words, variables);
    fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
    return 99;
}
