/* Two write to one connection at the same time, of which the C library knows one: a process and its copy, made by a system call that nobody sees, or,
   with the argument `clone` or `assembly`, a thread and one that the program has made by itself. What each writes arrives whole. */
#include "loopback.h"
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { MESSAGES = 200000, BYTES = 8 };

static long quietly_forks(void)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_fork) : "rcx", "r11", "memory");
    return result;
}

static void writes(int fd, char kind)
{
    char message[BYTES];
    memset(message, kind, BYTES);
    for (int number = 0; number < MESSAGES; number++)
        must(write(fd, message, BYTES) == BYTES, "write");
}

static void reads(int fd)
{
    char message[BYTES], whole[BYTES];
    int of[256] = {0};
    for (size_t done = 0;;) {
        ssize_t count = read(fd, message + done, BYTES - done);
        if (count <= 0)
            break;
        if ((done += (size_t)count) < BYTES)
            continue;
        memset(whole, message[0], BYTES);
        must(memcmp(message, whole, BYTES) == 0, "a message is torn");
        of[(unsigned char)message[0]]++;
        done = 0;
    }
    printf("of the parent %d, of the child %d\n", of['p'], of['c']);
    fflush(stdout);
    _exit(of['p'] != MESSAGES || of['c'] != MESSAGES);
}

static int shared_fd;
static volatile int thread_id = 1;

static int thread(void *unused)
{
    (void)unused;
    writes(shared_fd, 'c');
    return 0;
}

static long quietly_clones(int flags, char *stack, char *self)
{
    long result;
    register volatile int *id __asm__("r10") = &thread_id;
    register char *block __asm__("r8") = self;
    register int (*begin)(void *) __asm__("r9") = thread;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\txor %%ebp, %%ebp\n\tcall *%%r9\n\txor %%edi, %%edi\n\tmov $60, %%eax\n\tsyscall\n1:"
                     : "=a"(result)
                     : "0"((long)SYS_clone), "D"((long)flags), "S"(stack), "d"(0L), "r"(id), "r"(block), "r"(begin)
                     : "rcx", "r11", "memory");
    return result;
}

/* A thread with a block of its own, as the psABI wants one: its first word is its own address. */
static void makes_a_thread(const char *how, int fd)
{
    enum { STACK = 1 << 18, BLOCK = 1 << 14 };
    char *stack = aligned_alloc(64, STACK), *block = aligned_alloc(64, 2 * BLOCK);
    must(stack != NULL && block != NULL, "memory");
    memset(block, 0, 2 * BLOCK);
    char *self = block + BLOCK;
    memcpy(self, &self, sizeof self);
    shared_fd = fd;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
    long made = strcmp(how, "clone") == 0 ? clone(thread, stack + STACK, flags, NULL, NULL, self, &thread_id)
                                          : quietly_clones(flags, stack + STACK, self);
    must(made > 0, how);
}

static void waits_for_the_thread(void)
{
    while (thread_id != 0)
        syscall(SYS_futex, &thread_id, FUTEX_WAIT, 1, NULL, NULL, 0);
}

int main(int count, char **arguments)
{
    int listener = listens();
    pid_t reader = fork();
    if (reader == 0) {
        int fd = connects();
        asks(fd);
        reads(fd);
    }
    int fd = accept(listener, NULL, NULL), said;
    answers(fd);
    if (count > 1) {
        makes_a_thread(arguments[1], fd);
        writes(fd, 'p');
        waits_for_the_thread();
    } else {
        long child = quietly_forks();
        writes(fd, child == 0 ? 'c' : 'p');
        if (child == 0)
            _exit(0);
        must(waitpid((pid_t)child, NULL, 0) == child, "waitpid");
    }
    close(fd);
    must(waitpid(reader, &said, 0) == reader && said == 0, "what was written has not arrived");
    return 0;
}
