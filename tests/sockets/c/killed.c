// Kills and stops at random moments, while a connection goes through memory: killed.c SECONDS SEED
//
// Each round: two ends, of which each may have a second holder (a forked child), write sizes of all kinds to each other, and demote the
// connection now and then. Somebody is killed or stopped and continued. Whoever is left checks every byte up to where the stream ends.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned round_number, the_seed;
#define FAIL(...) do { fprintf(stderr, "round %u of seed %u (heir %d, done %d): ", round_number, the_seed, shared ? (int)shared->has_heir : 9, shared ? (int)shared->done : 9); fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static uint64_t state;
static uint64_t any(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
static unsigned below(unsigned n) { return (any() >> 20) % n; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static unsigned char byte_at(uint64_t at) { return (unsigned char)(at * 2654435761u >> 13 ^ at >> 7); }

// What everybody of a round sees.
struct shared {
    // By direction: bytes of which a write has returned, and bytes that were read.
    _Atomic uint64_t written[2], got[2];
    // 1: somebody was killed; 2: everybody is to finish.
    _Atomic uint32_t done;
    // One end has a second holder, who goes on with it.
    _Atomic uint32_t has_heir;
    _Atomic pid_t heir;
};
static struct shared *shared;
static unsigned char buffer[1 << 17];

static unsigned a_size(void)
{
    switch (below(8)) {
    case 0: return 1 + below(sizeof buffer - 1);
    case 1: return 1 + below(9000);
    default: return 1 + below(200);
    }
}

// How an end was killed or the other one has gone: whatever TCP says of it.
static int is_over(ssize_t n) { return n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN)); }

static void await(int fd, short what, int limit)
{
    struct pollfd one = { fd, what, 0 };
    if (below(2)) { poll(&one, 1, limit); return; }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { what, { 0 } };
    if (!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) epoll_wait(epoll, &event, 1, limit);
    close(epoll);
}

// Something after which the connection goes through the kernel, for a while or for good.
static void demote(int fd)
{
    // No `dup`: with bytes on their way back at an end that has shut down it resets the connection.
    switch (below(12)) {
    case 1: { struct timespec little = { 0, below(2000000) }; nanosleep(&little, 0); break; }
    case 2: { int size = 1 << (12 + below(8)); setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size); break; }
    }
}

// Writes once in its turn, at the position that the direction has reached.
static int writes(int fd, int way)
{
    uint64_t at = shared->written[way];
    size_t n = a_size();
    for (size_t i = 0; i < n; i++) buffer[i] = byte_at(at + i);
    ssize_t sent = send(fd, buffer, n, MSG_NOSIGNAL | (below(2) ? MSG_DONTWAIT : 0));
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) { await(fd, POLLOUT, 50); return 1; }
    if (sent <= 0) { if (!is_over(sent)) FAIL("write"); return 0; }
    shared->written[way] = at + sent;
    return 1;
}

static int reads(int fd, int way)
{
    size_t n = a_size();
    ssize_t got = recv(fd, buffer, n, below(3) ? MSG_DONTWAIT : 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) { await(fd, POLLIN, 50); return 1; }
    if (is_over(got)) return 0;
    if (got < 0) FAIL("read");
    uint64_t at = shared->got[way];
    for (ssize_t i = 0; i < got; i++)
        if (buffer[i] != byte_at(at + i)) FAIL("byte %llu of way %d is wrong", (unsigned long long)(at + i), way);
    shared->got[way] = at + got;
    return 1;
}

// One end: writes one way, reads the other.
static void end_of(int fd, int way)
{
    struct timeval limit = { 0, 50000 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int is_written = 1;
    while (!shared->done) {
        if (is_written && shared->written[way] - shared->got[way] < 400000) is_written = writes(fd, way);
        if (!reads(fd, 1 - way)) break;
        demote(fd);
    }
    // Until the end: what came before it has to be all that is promised.
    double end = now() + 20;
    while (reads(fd, 1 - way)) {
        if (shared->done && now() > end) FAIL("no end");
        // Who was killed alone leaves an end or a reset by itself.
        if (shared->done == 2 || shared->has_heir) shutdown(fd, SHUT_WR);
    }
}

static int memories(pid_t process)
{
    char path[64], link[64];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    DIR *folder = opendir(path);
    if (!folder) return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
        if (n > 0) { link[n] = 0; found += strstr(link, "tieline-ring") != 0; }
    }
    closedir(folder);
    return found;
}

// The connection gets another holder while it is in use, who goes on with it; the first one keeps it, and moves nothing any more.
static void with_an_heir(int fd, int way)
{
    for (int i = 0; i < 200 && !shared->done; i++) {
        if (shared->written[way] - shared->got[way] < 100000 && !writes(fd, way)) break;
        if (!reads(fd, 1 - way)) break;
    }
    pid_t heir = fork();
    if (heir == 0) { state += 5; end_of(fd, way); _exit(0); }
    shared->heir = heir;
    for (int count; waitpid(heir, 0, WNOHANG) == 0; usleep(1000)) ioctl(fd, FIONREAD, &count);
    _exit(0);
}

static void ends(pid_t end, const char *whose)
{
    int status;
    double limit = now() + 40;
    while (waitpid(end, &status, WNOHANG) == 0) {
        if (now() > limit) FAIL("%s hangs; written %llu %llu, got %llu %llu", whose, (unsigned long long)shared->written[0], (unsigned long long)shared->written[1], (unsigned long long)shared->got[0], (unsigned long long)shared->got[1]);
        usleep(200);
    }
    if (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL) FAIL("%s ended with %x", whose, status);
}

static unsigned kills, stops;
static uint64_t bytes;

// Each end makes its connection itself, as rings want it.
static void a_round(void)
{
    memset(shared, 0, sizeof *shared);
    shared->has_heir = below(3) == 0;
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    pid_t ends_of[2];
    for (int way = 0; way < 2; way++) {
        if ((ends_of[way] = fork()) != 0) continue;
        state += way * 12345 + 99;
        if (way == 0) {
            // The other one may be dead already.
            struct pollfd one = { listener, POLLIN, 0 };
            if (poll(&one, 1, 5000) != 1) _exit(0);
            fd = accept(listener, 0, 0);
        }
        else if (connect(fd = socket(AF_INET, SOCK_STREAM, 0), (void *)&name, sizeof name)) FAIL("connect");
        if (fd < 0) FAIL("accept");
        close(listener);
        if (way == 0 && shared->has_heir) with_an_heir(fd, way);
        end_of(fd, way);
        _exit(0);
    }
    close(listener);
    double until = now() + below(40000) / 1e6;
    while (now() < until) {
        usleep(below(3000));
        if (below(3) == 0) {
            pid_t who = ends_of[below(2)];
            kill(who, SIGSTOP);
            usleep(below(4000));
            kill(who, SIGCONT);
            stops++;
        }
    }
    pid_t who = ends_of[below(2)];
    if (shared->heir && below(2)) who = shared->heir;
    switch (below(4)) {
    case 0: shared->done = 2; break;
    case 1:
        // Stopped for long: who is left waits, and is not lost.
        kill(who, SIGSTOP);
        usleep(20000);
        kill(who, SIGCONT);
        shared->done = 2;
        stops++;
        break;
    default:
        kill(who, SIGKILL);
        kills++;
        shared->done = 1;
    }
    // While two ends meet, there is one for a moment.
    for (double limit = now() + 10; memories(ends_of[0]) + memories(ends_of[1]) > 0; usleep(500))
        if (now() > limit) FAIL("a descriptor of a region is left open");
    ends(ends_of[0], "one end");
    ends(ends_of[1], "the other end");
    // An heir whose parent was killed, perhaps before it could say that there is one, is this process's to wait for, and ends by itself.
    int status;
    for (double limit = now() + 40;; usleep(500)) {
        pid_t one = waitpid(-1, &status, WNOHANG);
        if (one < 0) break;
        if (one > 0 && (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL)) FAIL("the heir ended with %x", status);
        if (now() > limit) FAIL("the heir hangs");
    }
    for (int i = 0; i < 2; i++) {
        if (shared->done == 2 && shared->got[i] != shared->written[i]) FAIL("way %d: %llu written, %llu got", i, (unsigned long long)shared->written[i], (unsigned long long)shared->got[i]);
        bytes += shared->got[i];
    }
}

int main(int count, char **arguments)
{
    double end = now() + atof(arguments[1]);
    the_seed = atoi(arguments[2]);
    // Who is left by his parent is waited for here.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    state = 88172645463325252ull + the_seed * 104729ull;
    for (int i = 0; i < 20; i++) any();
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while (now() < end) { round_number++; a_round(); any(); }
    printf("%u rounds, %u kills, %u stops, %llu bytes checked\n", round_number, kills, stops, (unsigned long long)bytes);
    return 0;
}
