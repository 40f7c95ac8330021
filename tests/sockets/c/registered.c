/* What an epoll says of connections whose registrations change between two waits, and beside all that may ask the kernel meanwhile.

   With rings many of these changes are noted instead of made. With the argument `count` it prints how often the kernel got another registration
   in so many changes; with `early` an epoll has another holder before there is any connection. */
#include "say.h"

enum { IN = EPOLLIN, OUT = EPOLLOUT, ROUNDS = 1000 };

/* Of a library that is preloaded: calls of epoll_ctl that have got there. */
extern unsigned long handed_on __attribute__((weak));

static int ends[2], set;

static int change(int epoll, int what, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(epoll, what, fd, &event);
}

static void sees(const char *when, int epoll, int limit)
{
    struct epoll_event events[8];
    int count = epoll_wait(epoll, events, 8, limit);
    say("%s: %d", when, count);
    for (int at = 0; at < count; at++)
        say(" %x of %llu", events[at].events, (unsigned long long)events[at].data.u64);
    say("\n");
}

/* One byte, which has arrived. */
static void sends(void)
{
    int arrived = 0;
    if (write(ends[1], "x", 1) != 1)
        _exit(97);
    while (arrived == 0)
        ioctl(ends[0], FIONREAD, &arrived);
}

static void takes(void)
{
    char byte;
    if (read(ends[0], &byte, 1) != 1)
        _exit(96);
}

/* A connection that is used both ways, one end of which is in an epoll that has answered some waits. */
static void begins_in(int epoll)
{
    struct epoll_event event;
    tcp(ends);
    set = epoll;
    if (change(set, EPOLL_CTL_ADD, ends[0], IN, 1))
        _exit(95);
    for (int round = 0; round < 20; round++) {
        sends();
        if (epoll_wait(set, &event, 1, -1) != 1 || event.data.u64 != 1 || event.events != IN)
            _exit(94);
        takes();
        char byte = 'y';
        if (write(ends[0], &byte, 1) != 1 || read(ends[1], &byte, 1) != 1)
            _exit(91);
    }
}

static void begins(const char *what)
{
    say("== %s\n", what);
    begins_in(epoll_create1(EPOLL_CLOEXEC));
}

static void ended(void)
{
    close(set);
    close(ends[0]);
    close(ends[1]);
}

static void levels(void)
{
    static const uint32_t wanted[] = {IN, OUT, IN | OUT, 0, IN | EPOLLRDHUP, IN | EPOLLPRI, OUT | EPOLLRDNORM};
    enum { KINDS = sizeof wanted / sizeof *wanted };
    begins("levels");
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++) {
            say("from %x to %x\n", wanted[from], wanted[to]);
            SAY(change(set, EPOLL_CTL_MOD, ends[0], wanted[from], 2));
            SAY(change(set, EPOLL_CTL_MOD, ends[0], wanted[to], 3));
            sees("nothing unread", set, 0);
            sends();
            sees("unread", set, 0);
            SAY(change(set, EPOLL_CTL_MOD, ends[0], wanted[from], 4));
            sees("changed back", set, 0);
            takes();
        }
    ended();
}

static void removed(void)
{
    begins("removed and added");
    for (int round = 0; round < 5; round++) {
        sends();
        SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
        sees("removed", set, 0);
        SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
        SAY(change(set, EPOLL_CTL_MOD, ends[0], IN, 7));
        SAY(change(set, EPOLL_CTL_ADD, ends[0], OUT, 10 + (uint64_t)round));
        SAY(change(set, EPOLL_CTL_ADD, ends[0], IN, 7));
        sees("to write", set, -1);
        SAY(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL));
        SAY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], NULL));
        SAY(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], (void *)8));
        SAY(change(set, EPOLL_CTL_ADD, ends[0], IN, 20 + (uint64_t)round));
        SAY(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], NULL));
        SAY(change(set, 9, ends[0], IN, 7));
        sees("to read", set, -1);
        takes();
        sees("nothing", set, 0);
    }
    SAY(syscall(SYS_epoll_ctl, set, EPOLL_CTL_DEL, ends[0], NULL));
    SAY(syscall(SYS_epoll_ctl, set, EPOLL_CTL_DEL, ends[0], NULL));
    struct epoll_event event = {.events = OUT, .data.u64 = 31};
    SAY(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, ends[0], &event));
    sees("by number", set, -1);
    ended();
}

static void *sleeps(void *unused)
{
    sees("asleep", set, 5000);
    return NULL;
}

static void pause_for(long milliseconds)
{
    struct timespec time = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&time, NULL);
}

static void beside(void)
{
    pthread_t thread;
    int changed = 0;
    begins("beside a thread that sleeps");
    for (int round = 0; round < 4; round++) {
        /* Before it sleeps, and while it does. */
        SAY(change(set, EPOLL_CTL_MOD, ends[0], round % 2 ? IN : 0, 40));
        pthread_create(&thread, NULL, sleeps, NULL);
        if (round < 3)
            pause_for(30);
        if (round % 2)
            sends();
        else
            changed = change(set, EPOLL_CTL_MOD, ends[0], OUT, 41 + (uint64_t)round);
        pthread_join(thread, NULL);
        say("changed meanwhile: %d\n", changed);
        if (round % 2)
            takes();
    }
    SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
    pthread_create(&thread, NULL, sleeps, NULL);
    pause_for(30);
    changed = change(set, EPOLL_CTL_ADD, ends[0], OUT, 49);
    pthread_join(thread, NULL);
    say("added meanwhile: %d\n", changed);
    ended();
}

/* Waits past the library. */
static void past(void)
{
    struct epoll_event event;
    long count;
    __asm__ volatile("mov $0, %%r10; syscall" : "=a"(count) : "0"((long)SYS_epoll_wait), "D"((long)set), "S"(&event), "d"(1L) : "rcx", "r10", "r11", "memory");
    say("past the library: %ld\n", count);
    if (count == 1)
        say("%x of %llu\n", event.events, (unsigned long long)event.data.u64);
}

static void forks(void)
{
    for (int what = 0; what < 3; what++) {
        begins("and then a fork");
        if (what == 0)
            SAY(change(set, EPOLL_CTL_MOD, ends[0], OUT, 50));
        if (what > 0)
            SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
        if (what == 2)
            SAY(change(set, EPOLL_CTL_ADD, ends[0], IN | OUT, 51));
        int turns[2];
        char turn;
        socketpair(AF_UNIX, SOCK_STREAM, 0, turns);
        pid_t child = fork();
        if (child == 0) {
            past();
            sees("in the child", set, 0);
            /* And after a change by the parent. */
            write(turns[1], "x", 1);
            read(turns[1], &turn, 1);
            past();
            _exit(0);
        }
        read(turns[0], &turn, 1);
        SAY(change(set, what == 1 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, ends[0], OUT, 53));
        write(turns[0], "x", 1);
        waitpid(child, NULL, 0);
        close(turns[0]);
        close(turns[1]);
        sees("in the parent", set, 0);
        sends();
        SAY(change(set, EPOLL_CTL_MOD, ends[0], IN, 52));
        sees("changed again", set, -1);
        takes();
        ended();
    }
}

/* A connection in an epoll that a child looks at, behind a change. */
static void changes_for(pid_t child, int turns[2], int epoll, uint64_t data)
{
    begins_in(epoll);
    SAY(change(set, EPOLL_CTL_MOD, ends[0], OUT, data));
    write(turns[0], "x", 1);
    waitpid(child, NULL, 0);
    close(turns[0]);
    close(turns[1]);
    ended();
}

/* A connection that the child of a fork has not, in an epoll that it has. */
static void later(void)
{
    int turns[2];
    char turn;
    say("== made after a fork\n");
    set = epoll_create1(EPOLL_CLOEXEC);
    socketpair(AF_UNIX, SOCK_STREAM, 0, turns);
    pid_t child = fork();
    if (child == 0) {
        read(turns[1], &turn, 1);
        past();
        _exit(0);
    }
    changes_for(child, turns, set, 54);
}

/* An epoll that another process was handed before there was any connection. */
static void handed_on_early(void)
{
    int turns[2];
    char turn = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {.iov_base = &turn, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    socketpair(AF_UNIX, SOCK_STREAM, 0, turns);
    pid_t child = fork();
    if (child == 0) {
        if (recvmsg(turns[1], &message, 0) != 1 || CMSG_FIRSTHDR(&message) == NULL)
            _exit(90);
        memcpy(&set, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof set);
        write(turns[1], "x", 1);
        read(turns[1], &turn, 1);
        past();
        sees("in the other process", set, 0);
        _exit(0);
    }
    /* Made after the fork: the child gets it by the message alone. */
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof epoll)};
    memcpy(CMSG_DATA(header), &epoll, sizeof epoll);
    if (sendmsg(turns[0], &message, 0) != 1)
        _exit(89);
    read(turns[0], &turn, 1);
    changes_for(child, turns, epoll, 55);
}

static void others(void)
{
    for (int what = 0; what < 4; what++) {
        begins("by another way to wait");
        SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
        sends();
        if (what % 2)
            SAY(change(set, EPOLL_CTL_ADD, ends[0], IN, 60));
        if (what < 2) {
            struct pollfd entry = {.fd = set, .events = POLLIN};
            SAY(poll(&entry, 1, 0));
            say("%x\n", entry.revents);
            fd_set read;
            FD_ZERO(&read);
            FD_SET(set, &read);
            struct timeval limit = {0};
            SAY(select(set + 1, &read, NULL, NULL, &limit));
        } else {
            int outer = epoll_create1(0), other = dup(set);
            SAY(change(outer, EPOLL_CTL_ADD, set, IN, 61));
            sees("outer", outer, 0);
            sees("copy", other, 0);
            SAY(change(other, what % 2 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, ends[0], OUT, 62));
            sees("outer", outer, 0);
            sees("copy", other, 0);
            close(outer);
            close(other);
        }
        SAY(change(set, EPOLL_CTL_MOD, ends[0], IN | OUT, 63));
        sees("as before", set, 0);
        ended();
    }
}

static void leaves(void)
{
    begins("and then it leaves its ring");
    sends();
    SAY(change(set, EPOLL_CTL_MOD, ends[0], OUT, 70));
    int other = dup(ends[0]);
    sees("copied", set, 0);
    SAY(change(set, EPOLL_CTL_MOD, ends[0], IN, 71));
    sees("to read", set, 0);
    SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
    sees("removed", set, 0);
    close(other);
    ended();

    begins("and then it is closed, and others have it");
    sends();
    SAY(change(set, EPOLL_CTL_MOD, ends[0], IN, 72));
    other = fcntl(ends[0], F_DUPFD_CLOEXEC, 100);
    SAY(change(set, EPOLL_CTL_MOD, ends[0], IN | OUT, 73));
    close(ends[0]);
    sees("closed", set, 0);
    close(other);
    sees("closed twice", set, 0);
    ended();
}

static void reused(void)
{
    for (int what = 0; what < 2; what++) {
        begins("and then the number is another's");
        SAY(change(set, EPOLL_CTL_DEL, ends[0], 0, 0));
        if (what)
            SAY(change(set, EPOLL_CTL_ADD, ends[0], OUT, 80));
        int fd = ends[0], far = ends[1];
        close(fd);
        sees("closed", set, 0);
        SAY(dup2(eventfd(1, 0), fd) == fd);
        SAY(change(set, EPOLL_CTL_MOD, fd, IN, 81));
        SAY(change(set, EPOLL_CTL_ADD, fd, IN, 82));
        sees("an event", set, 0);
        close(far);
        ended();
    }
    for (int what = 0; what < 2; what++) {
        begins("and then the epoll is another one");
        sends();
        SAY(change(set, EPOLL_CTL_MOD, ends[0], IN, 83));
        int number = set;
        if (what)
            close_range((unsigned)number, (unsigned)number, 0);
        else
            close(number);
        SAY(epoll_create1(0) == number);
        sees("new", set, 0);
        SAY(change(set, EPOLL_CTL_MOD, ends[0], IN, 84));
        SAY(change(set, EPOLL_CTL_ADD, ends[0], IN, 85));
        sees("added", set, 0);
        ended();
    }
}

/* More that is ready than a wait has room for, among it what the kernel alone knows of: each gets its turn. */
static void crowded(void)
{
    enum { PAIRS = 5, WAITS = 200 };
    int pairs[PAIRS][2], told[PAIRS + 1] = {0};
    struct epoll_event event;
    begins("more than there is room for");
    close(ends[0]);
    close(ends[1]);
    for (int at = 0; at < PAIRS; at++) {
        tcp(ends);
        memcpy(pairs[at], ends, sizeof ends);
        change(set, EPOLL_CTL_ADD, ends[0], IN, (uint64_t)at);
        sends();
        if (epoll_wait(set, &event, 1, -1) != 1)
            _exit(88);
        takes();
        sends();
    }
    change(set, EPOLL_CTL_ADD, eventfd(1, 0), IN, PAIRS);
    for (int wait = 0; wait < WAITS; wait++) {
        if (epoll_wait(set, &event, 1, wait % 2 ? 0 : -1) != 1 || event.data.u64 > PAIRS)
            _exit(87);
        told[event.data.u64]++;
    }
    for (int at = 0; at <= PAIRS; at++)
        say("%d was told: %d\n", at, told[at] > WAITS / 100);
    for (int at = 0; at < PAIRS; at++) {
        close(pairs[at][0]);
        close(pairs[at][1]);
    }
    close(set);
}

static volatile sig_atomic_t handled;

static void handles(int signal)
{
    int error = errno;
    if (handled % 3 == 0)
        change(set, EPOLL_CTL_DEL, ends[0], 0, 0);
    change(set, handled % 3 == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, ends[0], handled % 2 ? IN : OUT, 1000 + (uint64_t)handled % 7);
    if (handled % 5 == 0) {
        struct epoll_event event;
        epoll_wait(set, &event, 1, 0);
    }
    handled++;
    errno = error;
}

static void interrupted(void)
{
    begins("beside a handler that changes it, too");
    struct sigaction action = {.sa_handler = handles, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec often = {.it_interval.tv_nsec = 200000, .it_value.tv_nsec = 200000};
    timer_t timer;
    sigaction(SIGUSR1, &action, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &often, NULL);
    int wrong = 0;
    for (int round = 0; round < 20000 || handled < 50; round++) {
        struct epoll_event event;
        change(set, EPOLL_CTL_MOD, ends[0], round % 2 ? IN : OUT, (uint64_t)round);
        if (epoll_wait(set, &event, 1, 0) == 1 && !(event.data.u64 == (uint64_t)round || event.data.u64 >= 1000 && event.data.u64 < 1007))
            wrong++;
        sends();
        takes();
    }
    timer_delete(timer);
    say("events that nobody wanted: %d\n", wrong);
    SAY(change(set, EPOLL_CTL_MOD, ends[0], OUT, 90));
    sees("in the end", set, -1);
    ended();
}

static volatile int over;

static void *alternates(void *unused)
{
    for (uint64_t round = 0; !over; round++)
        change(set, EPOLL_CTL_MOD, ends[0], round % 2 ? IN : OUT, 100 + round % 2);
    return NULL;
}

/* Two threads that change it at a time, of which a third one sees one or the other. */
static void contested(void)
{
    begins("two threads that change it");
    pthread_t thread;
    pthread_create(&thread, NULL, alternates, NULL);
    int wrong = 0;
    for (int round = 0; round < 5000; round++) {
        struct epoll_event event;
        change(set, EPOLL_CTL_MOD, ends[0], round % 2 ? IN : OUT, 102 + (uint64_t)round % 2);
        if (epoll_wait(set, &event, 1, 0) == 1 && (event.data.u64 % 2 || event.events != OUT))
            wrong++;
        sends();
        takes();
    }
    over = 1;
    pthread_join(thread, NULL);
    say("events that nobody wanted: %d\n", wrong);
    SAY(change(set, EPOLL_CTL_MOD, ends[0], OUT, 110));
    sees("in the end", set, -1);
    ended();
}

/* Data of the first registration that the kernel has. */
static unsigned long long kernels_data(void)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    char *data = strstr(text, "data:");
    return data == NULL ? 0 : strtoull(data + 5, NULL, 16);
}

static void counts(void)
{
    begins("count");
    unsigned long before = handed_on, changes = 0;
    unsigned long long last = kernels_data();
    for (int round = 0; round < ROUNDS; round++) {
        struct epoll_event event;
        change(set, EPOLL_CTL_MOD, ends[0], OUT, 2 * (uint64_t)round);
        if (epoll_wait(set, &event, 1, -1) != 1 || event.events != OUT || event.data.u64 != 2 * (uint64_t)round)
            _exit(93);
        sends();
        change(set, EPOLL_CTL_DEL, ends[0], 0, 0);
        change(set, EPOLL_CTL_ADD, ends[0], IN, 2 * (uint64_t)round + 1);
        if (epoll_wait(set, &event, 1, -1) != 1 || event.events != IN || event.data.u64 != 2 * (uint64_t)round + 1)
            _exit(92);
        takes();
        unsigned long long now = kernels_data();
        changes += now != last;
        last = now;
    }
    say("of %d calls of epoll_ctl %lu were made, and in %lu of %d rounds the kernel got another registration\n", 3 * ROUNDS, handed_on - before, changes, ROUNDS);
    ended();
}

int main(int count, char **arguments)
{
    alarm(100);
    if (count > 1) {
        if (strcmp(arguments[1], "early") == 0)
            handed_on_early();
        else
            counts();
        return 0;
    }
    levels();
    removed();
    beside();
    forks();
    later();
    others();
    leaves();
    reused();
    crowded();
    interrupted();
    contested();
    say("== through\n");
    return 0;
}
