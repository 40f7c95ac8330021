// Several processes and threads at each end of a connection, at random: crowd.c SECONDS SEED [ROUND]
// With ROUND it is that one again and again.
//
// Each round: one way or both, one to three writers and one or two readers an end, each a process or a thread, small buffers and large, all forms of
// waiting and of ending. A byte says who wrote it: those of one writer come in order, and all that a write was told of come before the end.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) do { int e = errno; fprintf(stderr, "round %u of seed %u: ", round_number, the_seed); fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(e)); all->failed = 1; _exit(1); } while (0)

enum { WRITERS = 3, READERS = 2, ACTORS = WRITERS + READERS, LARGEST = 65536 };
enum ending { LAST_SHUTS_DOWN, EACH_SHUTS_DOWN, ALL_EXIT, ALL_ARE_KILLED, ENDINGS };

// What everybody of a round sees: of each way, named after the end that writes.
struct way {
    _Atomic uint64_t sent[WRITERS], in_flight[WRITERS], got[WRITERS];
    _Atomic int writers_left, reading;
};
static struct { struct way ways[2]; _Atomic int failed; } *all;

// What an end does in this round.
static struct plan {
    int writers, readers, is_thread[ACTORS], ending, lazy, is_in_order, forms;
    uint64_t quota;
} plans[2];

static unsigned round_number, the_seed;
static int end, fd;
static __thread uint64_t state;
static uint64_t any(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
static unsigned below(unsigned n) { return (any() * 2685821657736338717ull >> 33) % n; }
static void begins_with(uint64_t number) { state = number * 0x9E3779B97F4A7C15ull + 1; for (int i = 0; i < 9; i++) any(); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static unsigned char byte_at(int who, uint64_t at) { return (unsigned char)(who << 6 | (at * 2654435761u >> 13 & 63)); }
static size_t a_size(void) { static const size_t sizes[] = { 1, 2, 7, 100, 777, 5000, LARGEST }; return sizes[below(7)]; }
static void spins(double seconds) { for (double until = now() + seconds; now() < until;) {} }
static void dawdles(void)
{
    if ((int)below(100) >= plans[end].lazy) return;
    if (below(2)) usleep(below(10000)); else spins(below(below(3) ? 4000 : 20000) / 1e6);
}

static void shuts_down(void) { if (shutdown(fd, SHUT_WR) && errno != ENOTCONN) FAIL("end %d: shutdown", end); }

static void writes(int who)
{
    struct plan *plan = &plans[end];
    struct way *way = &all->ways[end];
    unsigned char *bytes = malloc(LARGEST);
    int is_refused = 0;
    while (way->sent[who] < plan->quota && !is_refused) {
        dawdles();
        size_t n = a_size();
        int flags = MSG_NOSIGNAL | (below(8) > 2 ? MSG_DONTWAIT : 0), times = below(3) ? 1 + below(20) : 1000;
        for (int i = 0; i < times && way->sent[who] < plan->quota; i++) {
            uint64_t at = way->sent[who];
            for (size_t j = 0; j < n; j++) bytes[j] = byte_at(who, at + j);
            way->in_flight[who] = n;
            ssize_t sent = send(fd, bytes, n, flags);
            if (sent > 0) way->sent[who] = at + sent;
            way->in_flight[who] = 0;
            if (sent > 0) continue;
            if (errno == EAGAIN) break;
            is_refused = errno == EPIPE && plan->ending == EACH_SHUTS_DOWN;
            if (!is_refused) FAIL("end %d: writer %d", end, who);
            break;
        }
        struct pollfd room = { fd, POLLOUT, 0 };
        if (below(2)) poll(&room, 1, below(50));
    }
    free(bytes);
    int is_last = --way->writers_left == 0;
    if (plan->ending == EACH_SHUTS_DOWN || (plan->ending == LAST_SHUTS_DOWN && is_last)) {
        shuts_down();
        if (below(3) == 0) shuts_down();
    }
}

static void waits(int *epoll, int kind)
{
    struct pollfd one = { fd, POLLIN, 0 };
    struct epoll_event event = { kind == 1 ? EPOLLIN | EPOLLET : EPOLLIN, { 0 } };
    struct timeval limit = { 0, 20000 };
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    unsigned form = below(4);
    if (!(plans[end].forms >> form & 1)) return;
    switch (form) {
    case 0: poll(&one, 1, below(3) ? -1 : (int)below(20)); break;
    case 1: select(fd + 1, &set, 0, 0, below(3) ? 0 : &limit); break;
    case 2:
        if (*epoll < 0 && epoll_ctl(*epoll = epoll_create1(EPOLL_CLOEXEC), EPOLL_CTL_ADD, fd, &event)) FAIL("epoll_ctl");
        // Another reader may have had an edge.
        epoll_wait(*epoll, &event, 1, kind == 1 ? 0 : below(3) ? -1 : (int)below(20));
    }
}

static void takes(struct way *way, const unsigned char *bytes, ssize_t n)
{
    uint64_t got[WRITERS] = { 0 };
    for (ssize_t i = 0; i < n; i++) {
        int who = bytes[i] >> 6;
        if (who >= WRITERS) FAIL("end %d: byte %02x is nobody's", end, bytes[i]);
        uint64_t at = way->got[who] + got[who]++;
        if (plans[end].is_in_order && bytes[i] != byte_at(who, at)) FAIL("end %d: byte %llu of writer %d is wrong", end, (unsigned long long)at, who);
    }
    for (int who = 0; who < WRITERS; who++) way->got[who] += got[who];
}

static void reads(void)
{
    struct plan *plan = &plans[end];
    struct way *way = &all->ways[!end];
    unsigned char *bytes = malloc(LARGEST), *peeked = malloc(LARGEST);
    int epoll = -1, kind = below(3), is_alone = plan->readers == 1;
    ssize_t got = 1;
    while (got != 0) {
        dawdles();
        waits(&epoll, kind);
        // Of two readers, what one reads and what it notes of that belong together, where their order is looked at.
        while (plan->is_in_order && __atomic_exchange_n((int *)&way->reading, 1, __ATOMIC_ACQUIRE)) sched_yield();
        size_t n = a_size();
        ssize_t seen = plan->is_in_order && below(8) == 0 ? recv(fd, peeked, n, MSG_PEEK | MSG_DONTWAIT) : 0;
        int can_wait = is_alone || !plan->is_in_order;
        got = recv(fd, bytes, n, can_wait && below(4) == 0 ? 0 : MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN) FAIL("end %d: read", end);
        if (seen > 0 && (got <= 0 || memcmp(bytes, peeked, seen < got ? seen : got))) FAIL("end %d: looked at %zd, got %zd", end, seen, got);
        takes(way, bytes, got);
        if (plan->is_in_order) __atomic_store_n((int *)&way->reading, 0, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 3; i++) if (recv(fd, bytes, 100, MSG_DONTWAIT) != 0) FAIL("end %d: more after the end", end);
    free(bytes);
    free(peeked);
}

static void acts(int actor)
{
    begins_with(the_seed * 1000003ull + round_number * 101 + end * 10 + actor);
    if (actor < plans[end].writers) writes(actor); else reads();
}

static void *thread(void *actor) { acts((int)(intptr_t)actor); return 0; }

// How a process of an end that only writes is over.
static void leaves(void)
{
    if (plans[end].ending == ALL_ARE_KILLED) kill(getpid(), SIGKILL);
    _exit(0);
}

static void plays(void)
{
    struct plan *plan = &plans[end];
    int actors = plan->writers + plan->readers;
    pthread_t threads[ACTORS];
    pid_t processes[ACTORS] = { 0 };
    for (int i = 1; i < actors; i++)
        if (!plan->is_thread[i] && (processes[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            acts(i);
            leaves();
        }
    for (intptr_t i = 1; i < actors; i++)
        if (plan->is_thread[i] && pthread_create(&threads[i], 0, thread, (void *)i)) FAIL("thread");
    if (plan->writers == 0 && below(3) == 0) shuts_down();
    acts(0);
    for (int i = 1; i < actors; i++) {
        int status = 0;
        if (plan->is_thread[i]) pthread_join(threads[i], 0);
        else if (waitpid(processes[i], &status, 0) != processes[i] || (WIFEXITED(status) && WEXITSTATUS(status))) FAIL("end %d: actor %d: %x", end, i, status);
    }
    leaves();
}

static void talks(void)
{
    for (int turn = 0; turn < 600; turn++) {
        char byte = 7;
        if (turn % 2 == end ? write(fd, &byte, 1) != 1 : read(fd, &byte, 1) != 1) FAIL("turn %d", turn);
    }
}

static void plans_a_round(int is_narrow)
{
    int is_one_way = below(2), writing = below(2);
    for (int i = 0; i < 2; i++) {
        struct plan *plan = &plans[i];
        int is_writing = !is_one_way || i == writing, is_reading = !is_one_way || i != writing;
        plan->writers = is_writing ? 1 + (below(3) ? below(WRITERS) : 0) : 0;
        plan->readers = is_reading ? 1 + below(READERS) : 0;
        plan->ending = below(is_one_way && is_writing ? ENDINGS : ALL_EXIT);
        plan->lazy = (int[]){ 0, 3, 20, 50 }[below(4)];
        plan->is_in_order = below(3) != 0;
        plan->forms = below(16);
        plan->quota = (uint64_t[]){ 100, 20000, 60000, 300000 }[below(is_narrow ? 3 : 4)];
        for (int k = 0; k < ACTORS; k++) plan->is_thread[k] = below(2);
        all->ways[i].writers_left = plan->writers;
    }
}

static void says_where(void)
{
    for (int i = 0; i < 2; i++) {
        struct way *way = &all->ways[i];
        fprintf(stderr, "  end %d, ending %d, %d writers, %d left:", i, plans[i].ending, plans[i].writers, way->writers_left);
        for (int who = 0; who < plans[i].writers; who++)
            fprintf(stderr, " %llu sent and perhaps %llu, %llu got;", (unsigned long long)way->sent[who], (unsigned long long)way->in_flight[who], (unsigned long long)way->got[who]);
        fprintf(stderr, "\n");
    }
}

static uint64_t moved(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++)
        for (int who = 0; who < WRITERS; who++) sum += all->ways[i].sent[who] + all->ways[i].got[who];
    return sum;
}

static void waits_for_the_ends(const pid_t *ends)
{
    // On a busy machine a round of a second takes half a minute; what hangs moves nothing for as long.
    double limit = now() + 30;
    uint64_t before = 0;
    for (int left = 2, status; left > 0;) {
        pid_t one = waitpid(-1, &status, WNOHANG);
        uint64_t sum = moved();
        if (sum != before) { before = sum; limit = now() + 30; }
        if (now() > limit) { says_where(); FAIL("hangs"); }
        if (all->failed) FAIL("over");
        if (one <= 0) { usleep(300); continue; }
        left -= one == ends[0] || one == ends[1];
        if (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL) FAIL("an end: %x", status);
    }
}

// Of which the kernel makes at least what it takes itself. Ends that are accepted have their listener's.
static int with_rooms(int one, const int *rooms)
{
    if (rooms[0]) setsockopt(one, SOL_SOCKET, SO_SNDBUF, &rooms[0], sizeof rooms[0]);
    if (rooms[1]) setsockopt(one, SOL_SOCKET, SO_RCVBUF, &rooms[1], sizeof rooms[1]);
    return one;
}

static void a_round(void)
{
    memset(all, 0, sizeof *all);
    begins_with(the_seed * 1000003ull + round_number);
    static const int sizes[] = { 0, 0, 2048, 4608, 16384, 65536 };
    int rooms[2] = { sizes[below(6)], sizes[below(6)] };
    plans_a_round(rooms[0] == 2048 || rooms[1] == 2048);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = with_rooms(socket(AF_INET, SOCK_STREAM, 0), rooms);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    pid_t ends[2];
    for (end = 0; end < 2; end++) {
        if ((ends[end] = fork()) != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fd = end == 0 ? accept(listener, 0, 0) : with_rooms(socket(AF_INET, SOCK_STREAM, 0), rooms);
        if (end == 1 && connect(fd, (void *)&name, sizeof name)) FAIL("connect");
        close(listener);
        talks();
        plays();
    }
    close(listener);
    waits_for_the_ends(ends);
    for (int i = 0; i < 2; i++)
        for (int who = 0; who < WRITERS; who++) {
            struct way *way = &all->ways[i];
            if (way->got[who] < way->sent[who] || way->got[who] > way->sent[who] + way->in_flight[who]) { says_where(); FAIL("end %d, writer %d", i, who); }
        }
}

int main(int count, char **arguments)
{
    double until = now() + (count > 1 ? atof(arguments[1]) : 1);
    the_seed = count > 2 ? atoi(arguments[2]) : 1;
    signal(SIGPIPE, SIG_IGN);
    all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned rounds = 0, only = count > 3 ? atoi(arguments[3]) : 0;
    for (; now() < until; rounds++) { round_number = only ? only : rounds + 1; a_round(); }
    printf("%u rounds: every byte came in its writer's order, before the end\n", rounds);
    return 0;
}
