// A program whose connection's other end is hostile: hostile.c WAY SECONDS SEED
//
// The victim is under the library. The other end is not: it writes into the registry by itself, and then does what it likes with
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

// An entry of the registry.
struct entry { uint64_t magic, cookie, other, inode, holder, region, nothing, sum; };
static const char MAGIC[8] = "TLsring4", ENTRY[8] = "TLentry1", NAME[] = "tieline-ring";

static volatile uint64_t *at(void *region, size_t offset) { return (volatile uint64_t *)((char *)region + offset); }
// Where the words of a region are.
enum { COOKIE = 8, OTHER = 16, MAPPED = 24, TAIL = 128, INLINE_AT = 136, CUT = 256, BASE = 264, PATH = 272, RECALL = 280, OPENING = 288, PLAIN = 296, GIVEN = 304, EXTRA = 312, WRITE_LOCK = 384, CONSENT = 512, ASLEEP = 520, PROCESSOR = 528, HEAD = 640, READ_LOCK = 768 };
static const int words[] = { TAIL, INLINE_AT, CUT, BASE, PATH, RECALL, OPENING, PLAIN, GIVEN, EXTRA, WRITE_LOCK, CONSENT, ASLEEP, PROCESSOR, HEAD, READ_LOCK };

static int registry(void)
{
    char path[3][64];
    unsigned user = geteuid();
    if (user) snprintf(path[0], 64, "/run/user/%u/tieline-rings/connections", user);
    else strcpy(path[0], "/run/tieline-rings/connections");
    snprintf(path[1], 64, "/dev/shm/tieline-rings-%u/connections", user);
    snprintf(path[2], 64, "/tmp/tieline-rings-%u/connections", user);
    for (double end = now() + 20; now() < end; usleep(1000))
        for (int i = 0; i < 3; i++) {
            int fd = open(path[i], O_RDWR | O_CLOEXEC);
            if (fd >= 0) return fd;
        }
    FAIL("no registry");
}

static int region_of(unsigned seals, size_t length)
{
    int memory = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 || ftruncate(memory, length)) FAIL("memfd");
    if (seals && fcntl(memory, F_ADD_SEALS, seals)) FAIL("seals");
    return memory;
}

static void seal(struct entry *entry)
{
    uint64_t words[7];
    memcpy(words, entry, sizeof words);
    entry->sum = 0xcbf29ce484222325ull;
    for (int i = 0; i < 7; i++) entry->sum = (entry->sum ^ words[i]) * 0x100000001b3ull;
}

static void publish(int file, const struct entry *entry)
{
    uint64_t place = entry->cookie * 0x9e3779b97f4a7c15ull >> (64 - 11);
    if (pwrite(file, entry, sizeof *entry, place * 256 + below(4) * 64) != sizeof *entry) FAIL("publish");
}

static uint64_t cookie_of(int fd)
{
    uint64_t cookie;
    socklen_t length = sizeof cookie;
    if (getsockopt(fd, SOL_SOCKET, 57 /* SO_COOKIE */, &cookie, &length)) FAIL("cookie");
    return cookie;
}

static struct entry honest(int fd)
{
    struct entry entry = { .cookie = cookie_of(fd), .holder = (uint64_t)getpid() << 32 | fd };
    struct stat stat;
    memcpy(&entry.magic, ENTRY, 8);
    if (fstat(fd, &stat)) FAIL("stat");
    entry.inode = stat.st_ino;
    return entry;
}

// What the victim says: the only entry whose other end is this one.
static int finds(int file, uint64_t cookie, struct entry *found)
{
    static struct entry all[4 << 11];
    ssize_t n = pread(file, all, sizeof all, 0);
    for (int i = 0; i < n / (ssize_t)sizeof *all; i++)
        if (all[i].other == cookie && !memcmp(&all[i].magic, ENTRY, 8)) { *found = all[i]; return 1; }
    return 0;
}

// An entry that is none, or says what is not so. Regions stay open: the victim is to look at them.
static void mislead(int file, int fd, const struct entry *victim)
{
    struct entry entry = honest(fd);
    int pipes[2] = { -1, -1 }, region = -1, good = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    uint64_t magic;
    memcpy(&magic, MAGIC, 8);
    entry.other = victim->cookie;
    switch (below(16)) {
    case 0: entry.other = any(); break;
    case 1: entry.inode = any(); break;
    case 2: entry.holder = any(); break;
    case 3: entry.holder = (uint64_t)getpid() << 32 | below(20); break;
    case 4: entry.holder = (uint64_t)1 << 32 | fd; break;
    case 5: entry.region = any(); break;
    case 6: entry.region = below(30); break;
    case 7: if (!pipe(pipes)) entry.region = pipes[below(2)] + 1; break;
    case 8: region = region_of(0, REGION); break;
    case 9: region = region_of(good, REGION - 4096); break;
    case 10: region = region_of(good, (size_t)1 << 40); break;
    case 11: region = region_of(good | F_SEAL_WRITE, REGION); break;
    case 12: region = region_of(0, REGION); pwrite(region, &magic, 8, 0); break;
    case 13: region = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC); break;
    case 14: for (size_t i = 0; i < sizeof entry; i++) ((char *)&entry)[i] = any(); publish(file, &entry); return;
    case 15: for (int i = 0; i < 20000; i++) { entry.cookie = any(); seal(&entry); publish(file, &entry); } return;
    }
    if (region >= 0) entry.region = region + 1;
    seal(&entry);
    publish(file, &entry);
    usleep(below(2000));
    for (int i = 0; i < 2; i++) if (pipes[i] >= 0) close(pipes[i]);
    if (region >= 0) close(region);
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

// Dies while it returns what it never returns: a byte that it has given to the kernel by itself is not due.
static void half(int fd, void *own, void *its)
{
    char byte = 1;
    hold(own, its);
    *at(own, TAIL) = *at(its, HEAD) + 10;
    *at(own, CUT) = 0;
    *at(own, PATH) = 2;
    *at(own, RECALL) = 1;
    send(fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    kill(getpid(), SIGKILL);
}

static void pair(int fd, void **own, void **its)
{
    int file = registry(), memory = region_of(0, REGION);
    struct entry entry = honest(fd), victim;
    uint64_t magic;
    memcpy(&magic, MAGIC, 8);
    *own = mmap(0, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (*own == MAP_FAILED || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) FAIL("own");
    double end = now() + 20;
    for (*its = 0; !*its || *at(*its, CONSENT) == 0;) {
        if (now() > end) FAIL("the victim does not pair");
        echo(fd, 1);
        if (*its || !finds(file, entry.cookie, &victim)) continue;
        entry.other = victim.cookie;
        entry.region = memory + 1;
        *at(*own, COOKIE) = entry.cookie;
        *at(*own, OTHER) = victim.cookie;
        *at(*own, ASLEEP) = 1;
        *at(*own, 0) = magic ^ RING;
        seal(&entry);
        publish(file, &entry);
        if (!victim.region) continue;
        char path[64];
        snprintf(path, sizeof path, "/proc/%u/fd/%u", (unsigned)(victim.holder >> 32), (unsigned)victim.region - 1);
        int got = open(path, O_RDONLY | O_CLOEXEC);
        if (got < 0) continue;
        *its = mmap(0, REGION, PROT_READ, MAP_SHARED, got, 0);
        if (*its == MAP_FAILED || *at(*its, 0) != (magic ^ RING) || *at(*its, COOKIE) != victim.cookie) FAIL("the victim's region");
        close(got);
        *at(*own, MAPPED) = 1;
    }
    close(file);
}

// Somebody else than the end of the connection says that he is it.
static void steal(int fd)
{
    struct entry entry = honest(fd), victim;
    int file = registry(), memory = region_of(0, REGION);
    uint64_t magic, its = entry.holder;
    memcpy(&magic, MAGIC, 8);
    pid_t thief = fork();
    if (thief) { close(memory); for (;;) echo(fd, 1000); }
    // What it knows is right; but it has no such descriptor, and who has it has no such region.
    close(fd);
    void *own = mmap(0, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    for (double end = now() + 30; now() < end; usleep(500))
        if (finds(file, entry.cookie, &victim)) {
            *at(own, COOKIE) = entry.cookie;
            *at(own, OTHER) = entry.other = victim.cookie;
            *at(own, 0) = magic ^ RING;
            entry.region = memory + 1;
            entry.holder = below(2) ? its : (uint64_t)getpid() << 32 | (its & 0xffffffff);
            seal(&entry);
            publish(file, &entry);
        }
    _exit(0);
}

// Reads what the kernel brings until the ring is used; is held up in the middle of a read from that, until it is full; goes on, and sleeps from then on.
static void held_up(int fd, void *own, void *its)
{
    char some[5000];
    *at(own, HEAD) = *at(its, TAIL);
    *at(own, PROCESSOR) = 200;
    *at(own, CONSENT) = 1;
    *at(own, ASLEEP) = 0;
    kill(getppid(), SIGUSR2);
    while (*at(its, TAIL) == *at(own, HEAD)) recv(fd, some, sizeof some, MSG_DONTWAIT);
    *at(own, READ_LOCK) = (uint64_t)getpid() << 32 | 1;
    // Another signal than the first: two of a kind that come together are one.
    kill(getppid(), SIGUSR1);
    uint64_t before;
    do {
        before = *at(its, TAIL);
        usleep(500000);
    } while (*at(its, TAIL) != before);
    *at(own, HEAD) = before;
    *at(own, ASLEEP) = 1;
    *at(own, READ_LOCK) = 0;
    while (recv(fd, some, sizeof some, 0) > 0);
    _exit(0);
}

static void hostile(int port)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    void *own, *its;
    alarm(60);
    if (connect(fd, (void *)&name, sizeof name)) _exit(0);
    if (is("entries")) {
        int file = registry();
        struct entry victim;
        for (;;) { echo(fd, 1); if (finds(file, cookie_of(fd), &victim)) mislead(file, fd, &victim); }
    }
    if (is("steal")) steal(fd);
    pair(fd, &own, &its);
    if (is("edge")) held_up(fd, own, its);
    // The victim counts these.
    kill(getppid(), SIGUSR2);
    if (is("stop")) { hold(own, its); raise(SIGSTOP); }
    if (is("half")) half(fd, own, its);
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
static volatile sig_atomic_t paired, held, alarms;
static void on_paired(int s) { (void)s; paired++; }
static void on_held(int s) { (void)s; held = 1; }
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

// Once the other end is held up, writes without waiting, and waits for the edge that tells of room, for as long as it takes.
static void writes_by_edges(int fd)
{
    struct epoll_event event = { EPOLLOUT | EPOLLET, { .fd = fd } };
    double start = now();
    // Few bytes at a time: the ring is not opened while the kernel has some.
    while (!held) {
        send(fd, buffer, 20, MSG_DONTWAIT | MSG_NOSIGNAL);
        usleep(500);
        if (now() > start + 2 * BOUND) FAIL("the ring is not used");
    }
    // The set that it is in already: one in several stays with the kernel.
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event)) FAIL("epoll_ctl");
    for (size_t done = 0; done < 4 << 20;) {
        ssize_t n = send(fd, buffer, 1000, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) FAIL("send, after %zu", done);
        if (n > 0) done += n;
        else if (epoll_wait(epoll, &event, 1, 2 * BOUND * 1000) != 1) FAIL("no edge for room, after %zu", done);
    }
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

// The connection of a dead end ends, however it is read.
static void ends(int fd)
{
    double start = now();
    struct timeval limit = { 2 * BOUND, 0 };
    struct pollfd one = { fd, POLLIN, 0 };
    int waits = below(2);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (ssize_t n = 1; n > 0 || n < 0 && errno == EAGAIN;) {
        if (!waits) poll(&one, 1, 20);
        n = recv(fd, buffer, sizeof buffer, waits ? 0 : MSG_DONTWAIT);
        took("the end of a dead end's connection", start);
    }
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
    action.sa_handler = on_held;
    sigaction(SIGUSR1, &action, 0);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 9) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    port = ntohs(name.sin_port);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    pid_t honest_child, child;
    int good = connection(&honest_child, "honest"), connections = 0;
    while (now() < end || connections < 2) {
        held = 0;
        // Counted from before the other end exists, which may pair at once.
        int before = paired, bad = connection(&child, "hostile");
        connections++;
        if (is("entries") || is("steal")) {
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
            if (is("edge")) writes_by_edges(bad);
            if (is("half")) ends(bad);
            double until = now() + 0.05 + below(100) / 100.0;
            while (now() < until && !is("edge")) { use(bad); serve(good); }
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
