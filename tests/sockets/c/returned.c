// What a read was told of comes, also while its writer has no processor in the middle of returning it: returned.c
//
// The reader looks at bytes in the ring (MSG_PEEK, or FIONREAD alone). Another thread copies the descriptor, for which they go back to the kernel; a filter holds
// the writer's sendto() for a while. The read that follows does not wait (MSG_DONTWAIT), but these bytes it has been shown.
#define _GNU_SOURCE
#include "loopback.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { LENGTH = 100, ROUNDS = 5, HELD_US = 100000, NOT_TRIED = 77 };
static _Atomic int *is_held, *is_looked_at;
static int notes, copied;

// Lets each sendto() wait.
static void *holds(void *unused)
{
    struct seccomp_notif note;
    for (;;) {
        memset(&note, 0, sizeof note);
        if (ioctl(notes, SECCOMP_IOCTL_NOTIF_RECV, &note)) return unused;
        *is_held = 1;
        usleep(HELD_US);
        struct seccomp_notif_resp answer = { .id = note.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
        ioctl(notes, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

// For this thread alone, and unseen by the library, which leaves programs alone that filter calls.
static int filters(void)
{
#if !defined __x86_64__
    return -1;
#else
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    long result;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(SECCOMP_FILTER_FLAG_NEW_LISTENER), "d"(&program)
                     : "rcx", "r11", "memory");
    return (int)result;
#endif
}

static void writer(void)
{
    char some[LENGTH], byte;
    pthread_t thread;
    int peer = connects();
    asks(peer);
    notes = filters();
    if (notes < 0) { printf("not tried: the kernel takes no filter\n"); exit(NOT_TRIED); }
    must(pthread_create(&thread, 0, holds, 0) == 0, "pthread_create");
    memset(some, 'a', LENGTH);
    must(write(peer, some, LENGTH) == LENGTH, "write");
    while (!*is_looked_at) continue;
    // Before it sleeps it returns what is wanted back.
    must(read(peer, &byte, 1) == 1, "read");
    _exit(0);
}

static void *copies(void *fd)
{
    copied = dup((int)(intptr_t)fd);
    return 0;
}

// Whether the writer was held.
static int a_round(int listener, int round)
{
    char some[LENGTH];
    pthread_t thread;
    int told = 0, status, is_over = 0;
    *is_held = *is_looked_at = 0;
    pid_t child = fork(), other;
    if (!child) { prctl(PR_SET_PDEATHSIG, SIGKILL); writer(); }
    int fd = accept(listener, 0, 0);
    must(fd >= 0, "accept");
    answers(fd);
    // Somebody else has the descriptor, too.
    other = fork();
    if (!other) { prctl(PR_SET_PDEATHSIG, SIGKILL); pause(); _exit(0); }
    while (told < LENGTH && !is_over) {
        must(ioctl(fd, FIONREAD, &told) == 0, "FIONREAD");
        is_over = waitpid(child, &status, WNOHANG) == child;
    }
    if (is_over) exit(WEXITSTATUS(status) == NOT_TRIED ? 0 : 1);
    if (round % 2) must(recv(fd, some, LENGTH, MSG_PEEK | MSG_DONTWAIT) == LENGTH, "the peek");
    must(pthread_create(&thread, 0, copies, (void *)(intptr_t)fd) == 0, "pthread_create");
    usleep(HELD_US / 10);
    *is_looked_at = 1;
    for (double end = now() + 0.3; !*is_held && now() < end;) continue;
    struct pollfd one = { fd, POLLIN, 0 };
    if (round % 4 > 1) must(poll(&one, 1, 0) == 1, "the second look");
    must(recv(fd, some, LENGTH, MSG_DONTWAIT) == LENGTH, "the read of what was looked at");
    must(some[0] == 'a' && some[LENGTH - 1] == 'a', "the bytes");
    pthread_join(thread, 0);
    must(write(fd, some, 1) == 1, "write");
    must(waitpid(child, &status, 0) == child && status == 0, "the writer");
    close(copied);
    kill(other, SIGKILL);
    waitpid(other, 0, 0);
    close(fd);
    return *is_held;
}

int main(void)
{
    is_held = mmap(0, 2 * sizeof *is_held, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(is_held != MAP_FAILED, "mmap");
    is_looked_at = is_held + 1;
    int listener = listens(), held = 0;
    for (int round = 0; round < ROUNDS; round++) held += a_round(listener, round);
    printf("%d times a writer was held while it returned bytes, and they came\n", held);
    return 0;
}
