/* Children of all kinds, what they inherit, and what they execute. Their memory is copied, lent, or left. */
#include "say.h"
#include <pty.h>
#include <sched.h>
#include <spawn.h>

extern char **environ;
extern pid_t _Fork(void), __fork(void), __vfork(void);
static int ends[2];

static void wait_for(const char *what, pid_t child)
{
    int status = -1;
    pid_t ended = waitpid(child, &status, 0);
    say("%s: %s %x\n", what, ended == child && child > 0 ? "ended" : "lost", status);
}

static void child_of_fork(void)
{
    char byte;
    SAY(read(ends[0], &byte, 1));
    SAY(write(ends[0], "c", 1));
    SAY(close(ends[0]));
    SAY(socket(AF_INET, SOCK_STREAM, 0));
    _exit(3);
}

static void forks(const char *what, pid_t (*make)(void))
{
    char byte = 'p';
    tcp(ends);
    write(ends[1], "1", 1);
    pid_t child = make();
    if (child == 0)
        child_of_fork();
    wait_for(what, child);
    /* What the child closed is open here. */
    SAY(read(ends[1], &byte, 1));
    SAY(write(ends[0], "x", 1));
    SAY(recv(ends[1], &byte, 1, 0));
    closefrom(3);
}

/* A child in this memory: what it closes and replaces must not be forgotten here. */
static void vforks(const char *what, pid_t (*make)(void))
{
    char bytes[4] = "";
    static const char *arguments[] = {"true", NULL};
    tcp(ends);
    write(ends[0], "a", 1);
    pid_t child = make();
    if (child == 0) {
        dup2(ends[1], 0);
        close(ends[0]);
        close(ends[1]);
        close_range(3, ~0U, 0);
        execve("/bin/true", (char **)arguments, environ);
        _exit(1);
    }
    wait_for(what, child);
    SAY(recv(ends[1], bytes, 4, 0));
    SAY(write(ends[1], "b", 1));
    SAY(read(ends[0], bytes, 4));
    closefrom(3);
}

static int cloned(void *text)
{
    return ((char *)text)[0] == 'c' ? (close(ends[0]), 4) : 5;
}

static void clones(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    tcp(ends);
    wait_for("clone", clone(cloned, stack + sizeof stack, SIGCHLD, "c", NULL, NULL, NULL));
    SAY(write(ends[0], "x", 1));
    wait_for("clone vfork", clone(cloned, stack + sizeof stack, SIGCHLD | CLONE_VM | CLONE_VFORK, "c", NULL, NULL, NULL));
    SAY(write(ends[0], "x", 1));
    wait_for("clone files", clone(cloned, stack + sizeof stack, SIGCHLD | CLONE_VM | CLONE_FILES | CLONE_VFORK, "c", NULL, NULL, NULL));
    SAY(write(ends[0], "x", 1));
    closefrom(3);
}

static void executes(const char *own)
{
    static const char *say_arguments[] = {"sh", "-c", "echo executed $0 $A", "x", NULL}, *environment[] = {"A=1", NULL};
    char **arguments = (char **)say_arguments, **with = (char **)environment;
    for (int way = 0; way < 9; way++) {
        pid_t child = fork();
        if (child == 0) {
            switch (way) {
            case 0: execl("/bin/sh", "sh", "-c", "echo execl $0 $1 $2 $3 $4 $5 $6", "a", "b", "c", "d", "e", "f", "g", NULL); break;
            case 1: execle("/bin/sh", "sh", "-c", "echo execle $0 $A", "y", NULL, environment); break;
            case 2: execlp("sh", "sh", "-c", "echo execlp $0", "z", NULL); break;
            case 3: execv("/bin/sh", arguments); break;
            case 4: execve("/bin/sh", arguments, with); break;
            case 5: execvp("sh", arguments); break;
            case 6: execvpe("sh", arguments, with); break;
            case 7: fexecve(open("/bin/sh", O_RDONLY), arguments, with); break;
            case 8: execveat(AT_FDCWD, "/bin/sh", arguments, with, 0); break;
            }
            SAY(way);
            _exit(9);
        }
        wait_for("exec", child);
    }
    SAY(execv("/nowhere/x", arguments));
    SAY(execl("/nowhere/x", "x", NULL));
    SAY(execvp("no-such-program", arguments));
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    tcp(ends);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    write(ends[1], "echo spawned\nexit 6\n", 20);
    static const char *shell[] = {"sh", NULL};
    /* What it says comes whenever it likes, so nothing is said before its end. */
    int spawned = posix_spawn(&child, "/bin/sh", &actions, NULL, (char **)shell, environ);
    wait_for("posix_spawn", child);
    say("posix_spawn: %d\n", spawned);
    write(ends[1], "exit 7\n", 7);
    SAY(posix_spawnp(&child, "sh", &actions, NULL, (char **)shell, environ));
    wait_for("posix_spawnp", child);
    SAY(posix_spawn(&child, "/nowhere/x", &actions, NULL, (char **)shell, environ));
    SAY(write(ends[0], "x", 1));
    SAY(system("exit 3") >> 8);
    /* This program again, with a connection that it finds by its number. */
    char number[16];
    snprintf(number, sizeof number, "%d", ends[0]);
    child = fork();
    if (child == 0) {
        execl(own, own, number, NULL);
        _exit(9);
    }
    write(ends[1], "q", 1);
    wait_for("again", child);
    closefrom(3);
}

static void demons(void)
{
    int tube[2];
    char got[64] = "";
    pipe(tube);
    tcp(ends);
    if (fork() == 0) {
        int made = daemon(1, 0);
        ssize_t sent = write(ends[0], "d", 1), null = write(1, "unseen", 6);
        dprintf(tube[1], "daemon %d %zd %zd", made, sent, null);
        _exit(0);
    }
    wait(NULL);
    close(tube[1]);
    for (ssize_t at = 0, more; (more = read(tube[0], got + at, sizeof got - 1 - (size_t)at)) > 0;)
        at += more;
    say("%s\n", got);
    int terminal;
    pid_t child = forkpty(&terminal, NULL, NULL, NULL);
    if (child == 0) {
        write(1, "terminal", 8);
        _exit(isatty(0) ? 2 : 1);
    }
    memset(got, 0, sizeof got);
    for (size_t at = 0; at < 8;)
        at += (size_t)read(terminal, got + at, 8 - at);
    say("%s\n", got);
    wait_for("forkpty", child);
    closefrom(3);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        char byte = 0;
        ssize_t got = read(atoi(argv[1]), &byte, 1);
        say("executed again: %zd %c\n", got, byte);
        return 8;
    }
    forks("fork", fork);
    forks("__fork", __fork);
    forks("_Fork", _Fork);
    vforks("vfork", vfork);
    vforks("__vfork", __vfork);
    clones();
    executes(argv[0]);
    demons();
    descriptors("at the end");
    return 0;
}
