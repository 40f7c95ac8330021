/* Moves bytes in one of several ways, and tells what each process has moved: counts.c WAY */
#include "ledger.h"

static char room[100000];

/* The other end's process: gives back as many bytes as come, until there is an end. */
static void echoes(int fd)
{
    for (ssize_t came; (came = got(recv(fd, room, sizeof room, 0))) > 0;)
        for (ssize_t gone = 0, part; gone < came; gone += part)
            if ((part = sent(send(fd, room, (size_t)(came - gone), MSG_NOSIGNAL))) <= 0)
                _exit(97);
}

/* A connection to a process that echoes, which runs `before` on its end first. */
static int connected(void (*before)(int))
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &length);
    if (forks() == 0) {
        runs_on(1);
        int fd = accept(listener, NULL, NULL);
        close(listener);
        setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
        if (before)
            before(fd);
        echoes(fd);
        exit(0);
    }
    runs_on(0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        _exit(98);
    close(listener);
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    return fd;
}

static void turns(int fd, int count)
{
    for (int turn = 0; turn < count; turn++)
        if (sent(write(fd, room, 10)) != 10 || got(recv(fd, room, 10, MSG_WAITALL)) != 10)
            _exit(97);
}

/* Three threads accept, read two of four bytes and close; one connects, sends and closes. */
enum { MANY = 3000 };
static int listener;
static _Atomic int closed;

static void *accepts(void *nothing)
{
    while (closed < MANY) {
        int fd = accept(listener, NULL, NULL);
        short two;
        if (fd < 0)
            break;
        got(recv(fd, &two, sizeof two, 0));
        close(fd);
        if (++closed == MANY)
            shutdown(listener, SHUT_RDWR);
    }
    return nothing;
}

static void many(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    pthread_t threads[3];
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 100);
    getsockname(listener, (struct sockaddr *)&address, &length);
    for (int at = 0; at < 3; at++)
        pthread_create(&threads[at], NULL, accepts, NULL);
    for (int turn = 0; turn < MANY; turn++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        connect(fd, (struct sockaddr *)&address, sizeof address);
        sent(send(fd, &turn, sizeof turn, MSG_NOSIGNAL));
        close(fd);
    }
    for (int at = 0; at < 3; at++)
        pthread_join(threads[at], NULL);
}

/* Two threads read and two write at each end of one connection at once. */
static int both[2];
static _Atomic uint64_t arrived;
enum { EACH = 30000 };

static void *writes(void *end)
{
    for (int turn = 0; turn < EACH; turn++)
        sent(send(*(int *)end, "x", 1, MSG_NOSIGNAL));
    return NULL;
}

static void *reads(void *end)
{
    char byte;
    ssize_t came;
    while ((came = got(recv(*(int *)end, &byte, 1, 0))) > 0)
        if (++arrived == 4 * EACH) {
            shutdown(both[0], SHUT_RDWR);
            shutdown(both[1], SHUT_RDWR);
        }
    return NULL;
}

static void threads(void)
{
    pthread_t all[8];
    tcp(both);
    for (int at = 0; at < 4; at++) {
        pthread_create(&all[at], NULL, writes, &both[at % 2]);
        pthread_create(&all[4 + at], NULL, reads, &both[at % 2]);
    }
    for (int at = 0; at < 8; at++)
        pthread_join(all[at], NULL);
}

static void copies(int fd)
{
    dup(fd);
}

/* Both go on with a connection whose other end has two numbers, so that it is on TCP, for a reason that each finds out for itself. */
static void forked(void)
{
    int fd = connected(copies);
    turns(fd, 200);
    if (forks() == 0) {
        turns(fd, 3);
        close(fd);
        _exit(0);
    }
    usleep(100000);
    turns(fd, 3);
    close(fd);
}

/* What is in a ring is taken back again and again, by a child that waits where nothing is seen. */
static void handed(void)
{
    int fd = connected(NULL);
    turns(fd, 100);
    for (int round = 0; round < 30; round++) {
        /* More than the other one has read when this one sleeps. */
        for (int turn = 0; turn < 20; turn++)
            sent(send(fd, room, 2000, MSG_NOSIGNAL));
        usleep(500);
        for (size_t left = 20 * 2000; left > 0;) {
            ssize_t came = got(recv(fd, room, left < sizeof room ? left : sizeof room, 0));
            if (came <= 0)
                _exit(97);
            left -= (size_t)came;
        }
    }
    close(fd);
}

/* A child writes until it is killed; what it has written by its own account is all that can have been, but for the call that it was in. */
static void killed(void)
{
    int fd = connected(NULL);
    turns(fd, 100);
    for (int round = 0; round < 20; round++) {
        pid_t child = forks();
        if (child == 0)
            for (;;) {
                sent(send(fd, room, 100, MSG_DONTWAIT | MSG_NOSIGNAL));
                recv(fd, room, 1, MSG_DONTWAIT | MSG_PEEK);
            }
        usleep(3000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while (got(recv(fd, room, sizeof room, MSG_DONTWAIT)) > 0) {
        }
    }
    shutdown(fd, SHUT_WR);
    while (got(recv(fd, room, sizeof room, 0)) > 0) {
    }
    close(fd);
}

/* Two processes write small records at once, more than there is room for; each comes whole. Where a process was told that a part was taken, which
   the kernel may do to whoever does not wait, another one's may come before the rest. */
enum { RECORD = 200, RECORDS = 20000 };

static void takes_records(int fd)
{
    static char record[RECORD];
    for (int at = 0; at < 100; at++)
        if (got(recv(fd, record, 1, 0)) != 1 || sent(send(fd, record, 1, 0)) != 1)
            _exit(97);
    long parents = 0;
    for (int at = 0; at < 2 * RECORDS; at++) {
        if (got(recv(fd, record, RECORD, MSG_WAITALL)) != RECORD)
            _exit(97);
        for (int byte = 0; byte < RECORD; byte++) {
            parents += record[byte] == 'p';
            if (record[byte] != record[0] && ledger->parts == 0 && usleep(100000) == 0 && ledger->parts == 0) {
                say("record %d is of two writers\n", at);
                _exit(95);
            }
        }
        computes(1e-6);
    }
    if (parents != (long)RECORD * RECORDS) {
        say("%ld bytes of the first writer, and not as many as it wrote\n", parents);
        _exit(95);
    }
}

static void whole(void)
{
    int fd = connected(takes_records);
    for (int at = 0; at < 100; at++)
        if (sent(write(fd, room, 1)) != 1 || got(recv(fd, room, 1, 0)) != 1)
            _exit(97);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int));
    pid_t child = forks();
    memset(room, child == 0 ? 'c' : 'p', RECORD);
    for (int at = 0, done = 0; at < RECORDS;) {
        size_t rest = (size_t)(RECORD - done);
        ssize_t gone = sent(send(fd, room, rest, (at & 1 && done == 0 ? MSG_DONTWAIT : 0) | MSG_NOSIGNAL));
        if (gone <= 0 && errno != EAGAIN)
            _exit(97);
        done += gone > 0 ? (int)gone : 0;
        if (done == RECORD)
            at++, done = 0;
        else if (gone > 0)
            ledger->parts++;
    }
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    close(fd);
}

/* The user stays who it is, but that is for the kernel to know. */
static void user(void)
{
    int fd = connected(NULL);
    turns(fd, 50);
    if (syscall(SYS_setresuid, -1, -1, -1) != 0)
        _exit(97);
    turns(fd, 50);
    close(fd);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"many", many}, {"threads", threads}, {"forked", forked}, {"handed", handed}, {"killed", killed},
              {"whole", whole},     {"user", user}};
    alarm(100);
    opens_account();
    for (size_t at = 0; count > 1 && at < sizeof ways / sizeof *ways; at++)
        if (strcmp(words[1], ways[at].name) == 0) {
            ways[at].run();
            int status, failed = 0;
            while (wait(&status) > 0)
                failed |= status != 0;
            tells_accounts();
            return failed;
        }
    return 2;
}
