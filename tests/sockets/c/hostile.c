// A program whose connection's other end is hostile: hostile.c WAY SECONDS SEED
//
// The victim is under the library. The other end is not: it speaks the pairing's language by itself, and then does what it likes with
// its words. The victim must go on: every call ends in time, another connection of the same process is served, and the process ends.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, "%s: ", way); fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)
enum { WORDS = 4096, RING = 256 << 10, REGION = WORDS + RING };

static const char *way;
static uint64_t state = 88172645463325252ull;
static uint64_t any(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
static unsigned below(unsigned n) { return any() % n; }
static int is(const char *what) { return !strcmp(way, what); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

// ---------------------------------------------------------------------------------------------------------------------
// The hostile end

struct letter { uint64_t magic, cookie, inode, process, number; };
static const char MAGIC[8] = "TLsring1";

static volatile uint64_t *at(void *region, size_t offset) { return (volatile uint64_t *)((char *)region + offset); }
// Where the words of a region are.
enum { TAIL = 128, BESIDE = 136, CUT = 256, BASE = 264, PATH = 272, RECALL = 280, OPENING = 288, PLAIN = 296, GIVEN = 304, EXTRA = 312, WRITE_LOCK = 384, CONSENT = 512, ASLEEP = 520, PROCESSOR = 528, HEAD = 640, READ_LOCK = 768 };
static const int words[] = { TAIL, BESIDE, CUT, BASE, PATH, RECALL, OPENING, PLAIN, GIVEN, EXTRA, WRITE_LOCK, CONSENT, ASLEEP, PROCESSOR, HEAD, READ_LOCK };

static socklen_t name_of(int fd, int own_first, struct sockaddr_un *name)
{
    struct sockaddr_in a, b;
    socklen_t n = sizeof a;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    if (getsockname(fd, (void *)&a, &n)) return 0;
    n = sizeof b;
    if (getpeername(fd, (void *)&b, &n)) return 0;
    if (!own_first) { struct sockaddr_in c = a; a = b; b = c; }
    static const char word[] = "\0tieline/2/";
    unsigned char *to = (void *)name->sun_path;
    name->sun_family = AF_UNIX;
    memcpy(to, word, 11);
    to += 11;
    struct sockaddr_in *ends[] = { &a, &b };
    for (int i = 0; i < 2; i++) {
        static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
        unsigned char end[18];
        memcpy(end, mapped, 12);
        memcpy(end + 12, &ends[i]->sin_addr, 4);
        memcpy(end + 16, &ends[i]->sin_port, 2);
        for (int k = 0; k < 18; k++) { *to++ = "0123456789abcdef"[end[k] >> 4]; *to++ = "0123456789abcdef"[end[k] & 15]; }
    }
    return to - (unsigned char *)name;
}

static int region_of(unsigned seals, size_t length)
{
    int memory = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 || ftruncate(memory, length)) FAIL("memfd");
    if (seals && fcntl(memory, F_ADD_SEALS, seals)) FAIL("seals");
    return memory;
}

static ssize_t post(int meeting, const void *bytes, size_t length, const int *fds, int count)
{
    union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int) * 253)]; } control;
    struct iovec part = { (void *)bytes, length };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int) * count), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * count);
    }
    return sendmsg(meeting, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// A connection that keeps whoever closes it last, unless he knows better.
static int lingering(void)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct linger hour = { 1, 3600 };
    int small = 4096;
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("lingering");
    connect(fd, (void *)&name, sizeof name);
    static char much[1 << 16];
    while (write(fd, much, sizeof much) > 0) {}
    fcntl(fd, F_SETFL, 0);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof hour);
    return fd;
}

static struct letter honest(int fd)
{
    struct letter letter = { .process = getpid(), .number = fd };
    struct stat stat;
    socklen_t length = sizeof letter.cookie;
    memcpy(&letter.magic, MAGIC, 8);
    if (fstat(fd, &stat) || getsockopt(fd, SOL_SOCKET, 57 /* SO_COOKIE */, &letter.cookie, &length)) FAIL("cookie");
    letter.inode = stat.st_ino;
    return letter;
}

// A letter that is none.
static void mislead(int meeting, int fd)
{
    struct letter letter = honest(fd);
    char much[4096] = { 0 };
    int pipes[2], many[253], good = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    memcpy(much, &letter, sizeof letter);
    switch (below(14)) {
    case 0: post(meeting, much, below(sizeof letter), 0, 0); break;
    case 1: post(meeting, much, sizeof letter + 1 + below(4000), 0, 0); break;
    case 2: if (!pipe(pipes)) { post(meeting, &letter, sizeof letter, pipes, 1); close(pipes[0]); close(pipes[1]); } break;
    case 3: { int fd = region_of(0, REGION); post(meeting, &letter, sizeof letter, &fd, 1); close(fd); break; }
    case 4: { int fd = region_of(good, REGION - 4096); post(meeting, &letter, sizeof letter, &fd, 1); close(fd); break; }
    case 5: { int fd = region_of(good, (size_t)1 << 40); post(meeting, &letter, sizeof letter, &fd, 1); close(fd); break; }
    case 6: { int fd = region_of(good | F_SEAL_WRITE, REGION); post(meeting, &letter, sizeof letter, &fd, 1); close(fd); break; }
    case 7: for (int i = 0; i < 253; i++) many[i] = below(2) ? 0 : meeting; post(meeting, &letter, sizeof letter, many, 253); break;
    case 8: for (int i = 0; i < 20; i++) many[i] = fd; post(meeting, &letter, sizeof letter, many, 2 + below(18)); break;
    case 9: letter.cookie++; post(meeting, &letter, sizeof letter, 0, 0); break;
    case 10: letter.inode = any(); post(meeting, &letter, sizeof letter, 0, 0); break;
    case 11: letter.process = any(); letter.number = any(); post(meeting, &letter, sizeof letter, 0, 0); break;
    case 12: for (int i = 0; i < 30; i++) post(meeting, &letter, sizeof letter, 0, 0); break;
    // Left open: whoever closes it last waits for long, and that is not to be this one.
    case 13: { int fd = lingering(); letter.magic = 0; post(meeting, &letter, sizeof letter, &fd, 1); break; }
    }
}

static int meet(int fd)
{
    struct sockaddr_un name = { 0 };
    int meeting = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = name_of(fd, 1, &name);
    if (meeting < 0 || bind(meeting, (void *)&name, length)) FAIL("bind");
    return meeting;
}

static int finds(int meeting, int fd)
{
    struct sockaddr_un name = { 0 };
    socklen_t length = name_of(fd, 0, &name);
    return length && connect(meeting, (void *)&name, length) == 0;
}

// What it gets, it says again, for as long as nothing else is to be done.
static void echo(int fd, int wait)
{
    char some[5000];
    struct pollfd one = { fd, POLLIN, 0 };
    if (poll(&one, 1, wait) != 1) return;
    ssize_t n = recv(fd, some, sizeof some, MSG_DONTWAIT);
    if (n == 0 || n < 0 && errno != EAGAIN) _exit(0);
    if (n > 0) send(fd, some, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static uint64_t number(void *own, void *its)
{
    static const uint64_t odd[] = { 0, 1, 2, 3, 4, 7, 100, RING - 1, RING, RING + 1, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - RING };
    switch (below(6)) {
    case 0: return any();
    case 1: return odd[below(sizeof odd / sizeof *odd)];
    case 2: return below(5000);
    case 3: return *at(its, words[below(16)]);
    case 4: return *at(its, TAIL) - below(64);
    default: return *at(own, TAIL) + below(200);
    }
}

static void scribble(void *own, void *its)
{
    for (int i = 0; i < 2000; i++) {
        if (below(3)) {
            // As an end that may be written to, so that it is.
            *at(own, HEAD) = *at(its, TAIL);
            *at(own, ASLEEP) = 0;
            *at(own, CONSENT) = 1;
            *at(own, PROCESSOR) = below(8);
        }
        if (below(4) == 0) *at(own, TAIL) += below(300);
        *at(own, words[below(16)]) = number(own, its);
        if (below(50) == 0) memset((char *)own + WORDS + below(RING - 100), below(256), 100);
        if (below(200) == 0) usleep(below(300));
    }
}

// An end that can be written to and read from, and then says what the way wants.
static void hold(void *own, void *its)
{
    *at(own, CONSENT) = 1;
    *at(own, ASLEEP) = 0;
    *at(own, HEAD) = *at(its, TAIL) - (is("lock") && *at(its, TAIL) ? 1 : 0);
    *at(own, PROCESSOR) = 200;
    if (is("lock")) *at(own, READ_LOCK) = (uint64_t)getpid() << 32 | 1;
    if (is("recall")) { *at(own, PATH) = 1; *at(own, TAIL) = 100; *at(own, RECALL) = 1; }
    if (is("cut")) { *at(own, PATH) = 1; *at(own, TAIL) = 100; *at(own, CUT) = 1ull << 40; }
    if (is("back")) { *at(own, PATH) = 2; *at(own, TAIL) = 100; *at(own, BASE) = 50; *at(own, CUT) = 1ull << 20; }
}

static void pair(int fd, void **own, void **its)
{
    int meeting = meet(fd), memory = region_of(0, REGION), sent = 0, said = 0;
    uint64_t magic;
    memcpy(&magic, MAGIC, 8);
    *own = mmap(0, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    *at(*own, 0) = magic ^ RING;
    *at(*own, ASLEEP) = 1;
    if (*own == MAP_FAILED || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) FAIL("own");
    double end = now() + 20;
    for (*its = 0; !*its || !sent;) {
        if (now() > end) FAIL("the victim does not pair");
        echo(fd, 1);
        if (!said && finds(meeting, fd)) {
            struct letter letter = honest(fd);
            said = post(meeting, &letter, sizeof letter, 0, 0) > 0;
        }
        union { struct cmsghdr head; char room[256]; } control;
        struct letter letter;
        struct iovec part = { &letter, sizeof letter };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
        if (recvmsg(meeting, &message, MSG_DONTWAIT) < 0) continue;
        if (message.msg_controllen && control.head.cmsg_type == SCM_RIGHTS) {
            int got;
            memcpy(&got, CMSG_DATA(&control.head), sizeof got);
            *its = mmap(0, REGION, PROT_READ, MAP_SHARED, got, 0);
            if (*its == MAP_FAILED || *at(*its, 0) != (magic ^ RING)) FAIL("the victim's region");
        }
        if (!sent && finds(meeting, fd)) {
            letter = honest(fd);
            sent = post(meeting, &letter, sizeof letter, &memory, 1) > 0;
        }
    }
    close(meeting);
}

// Somebody else than the end of the connection says that he is it.
static void steal(int fd)
{
    void *own, *its;
    struct letter letter = honest(fd);
    int meeting = meet(fd), memory = region_of(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, REGION);
    (void)own, (void)its;
    pid_t thief = fork();
    if (thief) { close(meeting); for (;;) echo(fd, 1000); }
    struct sockaddr_un name = { 0 };
    socklen_t length = name_of(fd, 0, &name);
    // What it knows is right; but it has no such descriptor.
    close(fd);
    letter.process = getpid();
    for (double end = now() + 30; now() < end; usleep(500))
        if (connect(meeting, (void *)&name, length) == 0) {
            post(meeting, &letter, sizeof letter, 0, 0);
            post(meeting, &letter, sizeof letter, &memory, 1);
        }
    _exit(0);
}

static void hostile(int port)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    void *own, *its;
    alarm(60);
    if (connect(fd, (void *)&name, sizeof name)) _exit(0);
    if (is("letters")) {
        int meeting = meet(fd);
        for (;;) { echo(fd, 1); if (finds(meeting, fd)) mislead(meeting, fd); }
    }
    if (is("steal")) steal(fd);
    pair(fd, &own, &its);
    // The victim counts these.
    kill(getppid(), SIGUSR2);
    if (is("stop")) { hold(own, its); raise(SIGSTOP); }
    unsigned rounds = is("die") ? below(30) : -1u;
    for (unsigned i = 0; i < rounds; i++) {
        if (is("scribble") || is("die") || is("silent")) scribble(own, its);
        else hold(own, its);
        if (is("silent")) usleep(1000);
        else echo(fd, 0);
    }
    kill(getpid(), SIGKILL);
}

// ---------------------------------------------------------------------------------------------------------------------
// The victim

static int listener, port, epoll, child_socket;
static volatile sig_atomic_t paired, alarms;
static void on_paired(int s) { (void)s; paired++; }
static void on_alarm(int s) { (void)s; alarms++; }

// The longest that any call that ends by itself may take, on a busy machine.
enum { BOUND = 10 };
static double worst;
static const char *worst_at = "nothing";

static void took(const char *what, double since)
{
    double time = now() - since;
    if (time > worst) { worst = time; worst_at = what; }
    if (time > BOUND) FAIL("%s took %.1f s", what, time);
}

static int connection(pid_t *child, const char *role)
{
    char number[16], seed[24];
    snprintf(number, sizeof number, "%d", port);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)any());
    *child = fork();
    if (*child == 0) {
        // The hostile end has no library; what it does is its own.
        if (!strcmp(role, "hostile")) unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "hostile", way, role, number, seed, (char *)0);
        _exit(9);
    }
    int fd = accept(listener, 0, 0);
    if (fd < 0) FAIL("accept");
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct epoll_event event = { EPOLLIN, { .fd = fd } };
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    return fd;
}

// The other connection is served.
static void serve(int fd)
{
    unsigned char some[700], back[700];
    size_t n = 1 + below(sizeof some), done = 0;
    for (size_t i = 0; i < n; i++) some[i] = any();
    double start = now();
    if (write(fd, some, n) != (ssize_t)n) FAIL("write to the honest one");
    while (done < n) {
        struct pollfd one = { fd, POLLIN, 0 };
        if (poll(&one, 1, 4000) != 1) FAIL("the honest one");
        ssize_t got = read(fd, back + done, n - done);
        if (got <= 0) FAIL("read from the honest one");
        done += got;
    }
    if (memcmp(some, back, n)) FAIL("the honest one's bytes are wrong");
    took("the honest connection", start);
}

static void tick(int microseconds)
{
    struct itimerval timer = { { 0, microseconds }, { 0, microseconds } };
    setitimer(ITIMER_REAL, &timer, 0);
}

static char buffer[1 << 16];

static void use(int fd)
{
    struct pollfd one = { fd, POLLIN | (below(2) ? POLLOUT : 0), 0 };
    struct epoll_event events[4];
    struct timeval little = { 0, 20000 }, none = { 0, 0 };
    fd_set set;
    int count;
    unsigned what = below(15);
    static const char *const names[] = { "poll", "epoll_wait", "select", "recv", "send", "sends", "peek", "FIONREAD", "read that a signal ends", "read with a time-out", "write with a time-out", "poll of both", "epoll that a signal ends", "write that a signal ends", "a look" };
    double start = now();
    switch (what) {
    case 0: poll(&one, 1, 20); break;
    case 1: epoll_wait(epoll, events, 4, 20); break;
    case 2: FD_ZERO(&set); FD_SET(fd, &set); select(fd + 1, &set, 0, 0, &little); break;
    case 3: recv(fd, buffer, 1 + below(3000), MSG_DONTWAIT); break;
    case 4: send(fd, buffer, 1 + below(200), MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case 5: for (int i = 0; i < 20; i++) send(fd, buffer, 1 + below(20000), MSG_DONTWAIT | MSG_NOSIGNAL); break;
    case 6: recv(fd, buffer, 500, MSG_DONTWAIT | MSG_PEEK); break;
    case 7: if (!ioctl(fd, FIONREAD, &count) && count < 0) FAIL("a count below 0"); break;
    case 8: tick(20000); recv(fd, buffer, 100, 0); tick(0); break;
    case 9: setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little); recv(fd, buffer, 100, below(2) ? MSG_WAITALL : 0); setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none); break;
    case 10: setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &little, sizeof little); send(fd, buffer, 1 + below(sizeof buffer), MSG_NOSIGNAL); setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none); break;
    case 11: poll(&one, 1, below(2) ? 0 : 50); break;
    case 12: tick(20000); epoll_wait(epoll, events, 4, 4000); tick(0); break;
    case 13: tick(20000); send(fd, buffer, 1 + below(sizeof buffer), MSG_NOSIGNAL); tick(0); break;
    case 14: poll(&one, 1, 0); recv(fd, buffer, sizeof buffer, MSG_DONTWAIT); break;
    }
    took(names[what], start);
}

// As long as the other end is only a bad correspondent, the connection is as good as any.
static void echoes(int fd)
{
    char some[100], back[100];
    for (int i = 0; i < 100; i++) some[i] = any();
    double start = now();
    if (send(fd, some, 100, MSG_NOSIGNAL) != 100) FAIL("send to who cannot pair");
    for (int done = 0; done < 100;) {
        ssize_t n = recv(fd, back + done, 100 - done, 0);
        if (n <= 0) FAIL("recv from who cannot pair, after %d", done);
        done += n;
    }
    if (memcmp(some, back, 100)) FAIL("wrong bytes from who cannot pair");
    took("who cannot pair", start);
}

static void leave(int fd, pid_t child)
{
    double start = now();
    unsigned what = below(6);
    if (what == 0) shutdown(fd, SHUT_WR);
    if (what == 1) shutdown(fd, SHUT_RDWR);
    close(fd);
    took("close", start);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

int main(int count, char **arguments)
{
    way = arguments[1];
    if (count > 3 && !strcmp(arguments[2], "hostile")) { state += strtoull(arguments[4], 0, 10); hostile(atoi(arguments[3])); }
    if (count > 3 && !strcmp(arguments[2], "honest")) {
        struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(arguments[3])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&name, sizeof name)) FAIL("connect");
        for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) if (write(fd, buffer, n) != n) FAIL("echo");
        return 0;
    }
    double end = now() + atof(arguments[2]);
    state += strtoull(arguments[3], 0, 10) * 7919;
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    struct sigaction action = { .sa_handler = on_alarm };
    sigaction(SIGALRM, &action, 0);
    action.sa_handler = on_paired;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, 0);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 9) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    port = ntohs(name.sin_port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    pid_t honest_child, child;
    int good = connection(&honest_child, "honest"), connections = 0;
    while (now() < end || connections < 2) {
        int bad = connection(&child, "hostile"), before = paired;
        connections++;
        if (is("letters") || is("steal")) {
            for (int i = 0; i < 200 && now() < end + 5; i++) { echoes(bad); serve(good); }
        } else {
            // Until it has paired it is an echo.
            double start = now();
            while (paired == before && now() < start + 20) {
                send(bad, buffer, 20, MSG_DONTWAIT | MSG_NOSIGNAL);
                struct pollfd one = { bad, POLLIN, 0 };
                poll(&one, 1, 5);
                recv(bad, buffer, 100, MSG_DONTWAIT);
            }
            if (paired == before) FAIL("it has not paired");
            double until = now() + 0.05 + below(100) / 100.0;
            while (now() < until) { use(bad); serve(good); }
        }
        leave(bad, child);
    }
    // What waits for the other end to do its part waits no longer than it may.
    if (is("lock") || is("recall") || is("stop")) {
        int bad = connection(&child, "hostile");
        for (int i = 0; i < 300 && !paired; i++) { send(bad, buffer, 20, MSG_DONTWAIT | MSG_NOSIGNAL); usleep(5000); recv(bad, buffer, 100, MSG_DONTWAIT); }
        for (int i = 0; i < 20; i++) use(bad);
        double start = now();
        pid_t other;
        char *none[] = { "true", 0 };
        fcntl(bad, F_SETFD, 0);
        if (!posix_spawnp(&other, "true", 0, 0, none, 0)) waitpid(other, 0, 0);
        double time = now() - start;
        if (time > 30) FAIL("starting a program took %.1f s", time);
        // Open at the end of the process, and its child stays for a while: it ends by itself.
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
    serve(good);
    close(good);
    waitpid(honest_child, 0, 0);
    printf("%d hostile connections, %d paired, the longest was %s: %.0f ms\n", connections, (int)paired, worst_at, worst * 1000);
    return 0;
}
