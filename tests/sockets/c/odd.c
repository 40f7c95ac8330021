// What programs seldom do with connections that have rings, both ends in one thread: odd.c WAY
#include "say.h"
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static int listens(struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    *name = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)name, length) || listen(listener, 8) || getsockname(listener, (void *)name, &length)) FAIL("listen");
    return listener;
}

static void gets(int fd, const char *wanted)
{
    char got[100] = "";
    size_t length = strlen(wanted);
    if (recv(fd, got, length, MSG_WAITALL) != (ssize_t)length || memcmp(got, wanted, length)) FAIL("`%s` came, not `%s`", got, wanted);
}

static int here, there;

// A connection that has been used for a while.
static void joins(void)
{
    struct sockaddr_in name;
    int listener = listens(&name);
    here = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(here, (void *)&name, sizeof name) || (there = accept(listener, 0, 0)) < 0) FAIL("connect");
    for (int round = 0; round < 10; round++) {
        if (write(here, "question", 8) != 8) FAIL("write");
        gets(there, "question");
        if (write(there, "answer", 6) != 6) FAIL("write");
        gets(here, "answer");
    }
    close(listener);
}

// What lies unread goes to nobody else when the socket is connected to another one.
static void reconnects(void)
{
    struct sockaddr_in name;
    struct sockaddr none = { .sa_family = AF_UNSPEC };
    int listener = listens(&name), other;
    if (write(here, "for the first alone", 19) != 19) FAIL("write");
    if (connect(here, &none, sizeof none) || connect(here, (void *)&name, sizeof name)) FAIL("connect");
    if ((other = accept(listener, 0, 0)) < 0) FAIL("accept");
    for (int round = 0; round < 10; round++) {
        if (write(here, "for the second", 14) != 14) FAIL("write");
        gets(other, "for the second");
    }
}

// A child by the system call goes on with the connection that its parent closes.
static void clones(void)
{
    static char answer[100000];
    if (write(here, "request", 7) != 7) FAIL("write");
    int child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        usleep(50000);
        gets(there, "request");
        for (size_t done = 0; done < sizeof answer;) {
            ssize_t n = write(there, answer, sizeof answer - done);
            if (n <= 0) FAIL("the answer ends after %zu", done);
            done += n;
        }
        _exit(0);
    }
    close(there);
    size_t got = 0;
    for (ssize_t n; (n = read(here, answer, sizeof answer)) != 0; got += n)
        if (n < 0) FAIL("read after %zu", got);
    if (got != sizeof answer) FAIL("%zu bytes came", got);
    int status;
    if (waitpid(child, &status, 0) != child || status) FAIL("child %d", status);
}

static void *sends(void *file)
{
    // So much of a small stack may be the program's own.
    volatile char own[4000];
    off_t at = 0;
    for (size_t i = 0; i < sizeof own; i += 64) own[i] = 1;
    while (at < 20000)
        if (sendfile(there, *(int *)file, &at, 20000 - at) <= 0) FAIL("sendfile");
    return 0;
}

// On the smallest stack.
static void sends_a_file(void)
{
    static char bytes[20000], got[20000];
    int file = memfd_create("file", 0);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = i * 7;
    if (write(file, bytes, sizeof bytes) != sizeof bytes) FAIL("write");
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &small, sends, &file)) FAIL("thread");
    if (recv(here, got, sizeof got, MSG_WAITALL) != sizeof got || memcmp(bytes, got, sizeof got)) FAIL("the file");
    pthread_join(thread, 0);
}

// Each look begins where the last one ended.
static void peeks(void)
{
    int at = 0;
    char got[5] = "";
    if (setsockopt(here, SOL_SOCKET, SO_PEEK_OFF, &at, sizeof at)) return; // older kernels have none for TCP
    if (write(there, "abcdefgh", 8) != 8) FAIL("write");
    for (int look = 0; look < 2; look++)
        if (recv(here, got, 4, MSG_PEEK) != 4 || memcmp(got, look ? "efgh" : "abcd", 4)) FAIL("look %d: %s", look, got);
}

// Who writes to an end that has shut down both halves is told so by the second write.
static void ends_both(void)
{
    char got[9] = "";
    if (write(here, "before", 6) != 6) FAIL("write");
    gets(there, "before");
    if (shutdown(there, SHUT_RDWR)) FAIL("shutdown");
    if (send(here, "1234", 4, MSG_NOSIGNAL) != 4) FAIL("the first write");
    usleep(50000);
    if (send(here, "1234", 4, MSG_NOSIGNAL) != -1 || errno != EPIPE) FAIL("the second write");
    if (recv(there, got, 8, MSG_DONTWAIT) != -1 || errno != ECONNRESET) FAIL("`%s` came", got);
}

// A filter that forbids what the program does not do itself.
static void filters(void)
{
    static const int own[] = { SYS_read, SYS_write, SYS_recvfrom, SYS_sendto, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_ctl, SYS_epoll_wait, SYS_dup, SYS_dup2, SYS_close, SYS_exit_group, SYS_fstat, SYS_newfstatat };
    enum { OWN = sizeof own / sizeof *own };
    int set = epoll_create1(0), event = eventfd(1, 0), copy;
    struct sock_filter rules[2 * OWN + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    for (int i = 0; i < OWN; i++) {
        rules[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own[i], 0, 1);
        rules[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    rules[2 * OWN + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog all = { 2 * OWN + 2, rules };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) FAIL("filter");
    struct timeval soon = { 0, 1000 };
    struct timespec at_once = { 0, 1000000 };
    struct pollfd one = { event, POLLIN, 0 };
    struct epoll_event wanted = { .events = EPOLLIN };
    fd_set some;
    FD_ZERO(&some);
    FD_SET(event, &some);
    if (select(event + 1, &some, 0, 0, &soon) != 1) FAIL("select");
    if (ppoll(&one, 1, &at_once, 0) != 1) FAIL("ppoll");
    if (epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted) || epoll_wait(set, &wanted, 1, 0) != 1) FAIL("epoll");
    if ((copy = dup(event)) < 0 || dup2(event, copy) != copy) FAIL("dup");
    if (write(here, "still", 5) != 5) FAIL("write");
    gets(there, "still");
    if (dup2(event, there) != there || close(here)) FAIL("close");
}

static volatile int is_over;

static void *limits(void *nothing)
{
    while (!is_over) {
        struct rlimit none = { 0, RLIM_INFINITY }, all = { RLIM_INFINITY, RLIM_INFINITY };
        setrlimit(RLIMIT_FSIZE, &none);
        setrlimit(RLIMIT_FSIZE, &all);
    }
    return nothing;
}

// Another thread lowers the limit of file sizes while ends meet.
static void is_limited(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, limits, 0);
    for (int i = 0; i < 100; i++) {
        close(here);
        close(there);
        joins();
    }
    is_over = 1;
    pthread_join(thread, 0);
}

// The listener was made before this program was executed.
static void accepts(int listener)
{
    if ((there = accept(listener, 0, 0)) < 0) FAIL("accept");
    for (int round = 0; round < 200; round++) {
        gets(there, "question");
        if (write(there, "answer", 6) != 6) FAIL("write");
    }
    _exit(0);
}

static void executes(void)
{
    struct sockaddr_in name;
    char number[20];
    int status, listener = listens(&name), child = fork();
    if (child == 0) {
        sprintf(number, "%d", listener);
        execl("/proc/self/exe", "odd", "accepts", number, NULL);
        FAIL("exec");
    }
    here = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(here, (void *)&name, sizeof name)) FAIL("connect");
    for (int round = 0; round < 200; round++) {
        if (write(here, "question", 8) != 8) FAIL("write");
        gets(here, "answer");
    }
    if (waitpid(child, &status, 0) != child || status) FAIL("child %d", status);
}

static void rounds(int count, int is_client)
{
    for (int round = 0; round < count; round++) {
        if (is_client && write(here, "question", 8) != 8) FAIL("write");
        gets(is_client ? here : there, is_client ? "answer" : "question");
        if (!is_client && write(there, "answer", 6) != 6) FAIL("write");
    }
}

// A server that makes a child for each connection, after some uses of it.
static void forks(void)
{
    struct sockaddr_in name;
    int listener = listens(&name), status;
    for (int before = 0; before < 8; before++) {
        for (int after = 1; after < 5; after++) {
            if (fork() == 0) {
                here = socket(AF_INET, SOCK_STREAM, 0);
                if (connect(here, (void *)&name, sizeof name)) FAIL("connect");
                rounds(before + after, 1);
                _exit(0);
            }
            there = accept(listener, 0, 0);
            rounds(before, 0);
            if (fork() == 0) {
                rounds(after, 0);
                _exit(0);
            }
            close(there);
            for (int child = 0; child < 2; child++)
                if (wait(&status) < 0 || status) FAIL("child %d", status);
        }
    }
}

int main(int count, char **words)
{
    static const struct { const char *name; void (*does)(void); } ways[] = {
        { "reconnects", reconnects }, { "clones", clones }, { "sends a file", sends_a_file }, { "peeks", peeks }, { "filters", filters }, { "is limited", is_limited }, { "executes", executes }, { "forks", forks }, { "ends both", ends_both },
    };
    alarm(60);
    if (count == 3) accepts(atoi(words[2]));
    joins();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (count == 2 && !strcmp(words[1], ways[i].name)) {
            ways[i].does();
            if (write(1, "as it should be\n", 16) != 16) return 1;
            _exit(0);
        }
    return 2;
}
