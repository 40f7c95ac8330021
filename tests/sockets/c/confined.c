/* A program that gives up rights: system calls, its root, its user. The library's own calls must not be what ends it. */
#include "say.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

/* What this program itself does afterwards; anything else ends the process. */
static void filter(void)
{
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 8, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvfrom, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_dup2, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_wait4, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        say("no filter: %s\n", strerrorname_np(errno));
}

static void talk(int ends[2])
{
    char byte = 0;
    SAY(send(ends[0], "x", 1, 0));
    SAY(read(ends[1], &byte, 1));
    SAY(dup2(ends[0], 50));
    SAY(write(50, "y", 1));
    SAY(recv(ends[1], &byte, 1, 0));
    SAY(close(50));
    SAY(write(50, "z", 1));
}

static void in_child(const char *what, void (*give_up)(void))
{
    int ends[2], status;
    tcp(ends);
    fflush(stdout);
    if (fork() == 0) {
        give_up();
        talk(ends);
        _exit(4);
    }
    wait(&status);
    say("%s: %x\n", what, status);
    closefrom(3);
}

static void new_root(void)
{
    chdir("/");
    OK(chroot("/proc/self/fdinfo"));
}

static void new_user(void)
{
    if (getuid() == 0) {
        SAY(setgid(65534));
        SAY(setuid(65534));
    }
}

static void no_room(void)
{
    struct rlimit limit = {0, 0};
    SAY(setrlimit(RLIMIT_FSIZE, &limit));
    SAY(setrlimit(RLIMIT_DATA, &limit));
    limit.rlim_cur = limit.rlim_max = 51;
    SAY(setrlimit(RLIMIT_NOFILE, &limit));
}

int main(void)
{
    in_child("filter", filter);
    in_child("root", new_root);
    in_child("user", new_user);
    in_child("limits", no_room);
    return 0;
}
