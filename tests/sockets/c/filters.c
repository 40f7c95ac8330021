/*
 * Filters of system calls (seccomp) that end the process at calls which the program does not make: set by the program, by a child
 * in its memory, or before it was executed.
 */
#include "say.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

/* Calls that a library in the program might make, and neither the program nor the loader nor the C library does here. */
static const int forbidden[] = {SYS_getpid, SYS_gettid, SYS_madvise, SYS_getsockopt, SYS_fstat, SYS_fstatfs, SYS_geteuid,
                                SYS_getrlimit, SYS_kill, SYS_process_vm_readv, SYS_prctl, SYS_seccomp};

static void forbid(void)
{
    enum { COUNT = sizeof forbidden / sizeof *forbidden };
    struct sock_filter filter[COUNT + 3];
    struct sock_fprog program = {COUNT + 3, filter};
    filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int at = 0; at < COUNT; at++)
        filter[at + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[at], COUNT - at, 0);
    filter[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    SAY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Uses connections, copies, forks and vforks. */
static void live(void)
{
    char room[4];
    int pair[2];
    tcp(pair);
    for (int turn = 0; turn < 2000; turn++)
        if (write(pair[0], "x", 1) != 1 || read(pair[1], room, 1) != 1)
            _exit(97);
    int copy = dup(pair[0]);
    SAY(write(copy, "abc", 3));
    SAY(read(pair[1], room, sizeof room));
    pid_t child = fork();
    if (child == 0) {
        SAY(write(copy, "de", 2));
        close(copy);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    say("child: %x\n", status);
    SAY(read(pair[1], room, sizeof room));
    child = vfork();
    if (child == 0) {
        close(pair[0]);
        dup2(pair[1], copy);
        execl("/bin/echo", "echo", "executed", (char *)NULL);
        _exit(4);
    }
    waitpid(child, &status, 0);
    say("child: %x\n", status);
    SAY(write(pair[0], "fg", 2));
    SAY(read(pair[1], room, sizeof room));
    close(pair[0]);
    close(pair[1]);
    close(copy);
}

static int in_child(void (*what)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        what();
        syscall(SYS_exit, 0);
    }
    waitpid(child, &status, 0);
    return status;
}

static void strict(void)
{
    int pair[2];
    tcp(pair);
    unshare(CLONE_FILES);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    for (int turn = 0; turn < 10; turn++)
        if (write(pair[0], "x", 1) != 1)
            syscall(SYS_exit, 5);
    write(1, "strict\n", 7);
}

static void forbidden_and_alive(void)
{
    forbid();
    live();
}

/* The child has its parent's memory when it sets the filter. */
static void forbidden_in_vfork(void)
{
    int status;
    pid_t child = vfork();
    if (child == 0) {
        forbid();
        dup2(1, 5);
        close(5);
        execl("/bin/echo", "echo", "executed under a filter", (char *)NULL);
        _exit(4);
    }
    waitpid(child, &status, 0);
    say("child: %x\n", status);
    live();
}

int main(int count, char **words)
{
    if (count > 1) {
        /* Executed under the filter. */
        live();
        return 0;
    }
    say("set by itself: %x\n", in_child(forbidden_and_alive));
    say("set in a child of vfork: %x\n", in_child(forbidden_in_vfork));
    say("strict: %x\n", in_child(strict));
    forbid();
    execl("/proc/self/exe", words[0], "again", (char *)NULL);
    return 1;
}
