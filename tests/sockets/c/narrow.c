// Narrow cases that random programs have shown: narrow.c CASE, of those in `cases`. Ends with 0 if it is as the kernel has it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int a, b;

static void connects(int flags)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    bind(listener, (void *)&name, length);
    listen(listener, 1);
    getsockname(listener, (void *)&name, &length);
    a = socket(AF_INET, SOCK_STREAM | flags, 0);
    connect(a, (void *)&name, length);
    b = accept(listener, 0, 0);
    close(listener);
}

static int is(const char *what, long found, long right)
{
    printf("%s: %ld, right is %ld\n", what, found, right);
    return found == right;
}

// A reset that `splice` is told of: what was read before is not read again.
static int spliced(void)
{
    char bytes[4];
    int way[2];
    struct linger at_once = { 1, 0 };
    if (pipe(way)) return 0;
    setsockopt(a, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    write(a, "wxyz", 4);
    close(a);
    return is("read", read(b, bytes, 4), 4) & is("splice", splice(b, 0, way[1], 0, 4, 0), -1) & is("errno", errno, ECONNRESET)
        & is("read again", read(b, bytes, 4), 0);
}

// An end that has shut down its reading half copies its descriptor, with bytes of another process unread: it still writes.
static int dupped(void)
{
    sem_t *turns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) sem_init(&turns[i], 1, 0);
    signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (!child) {
        shutdown(a, SHUT_RD);
        close(b);
        sem_post(&turns[0]);
        sem_wait(&turns[1]);
        int copy = dup(a), is_right = copy >= 0 && is("write", write(a, "efgh", 4), 4);
        fflush(stdout);
        sem_post(&turns[2]);
        _exit(!is_right);
    }
    sem_wait(&turns[0]);
    write(b, "abcd", 4);
    sem_post(&turns[1]);
    sem_wait(&turns[2]);
    int status;
    waitpid(child, &status, 0);
    return status == 0;
}

static int epoll;

static void *sleeps(void *found)
{
    struct epoll_event events[4];
    *(int *)found = epoll_wait(epoll, events, 4, 10000);
    return 0;
}

// A connection with bytes is added to an epoll in which a thread sleeps.
static int added(void)
{
    int found = -9;
    struct epoll_event event = { .events = EPOLLIN };
    pthread_t sleeper;
    epoll = epoll_create1(0);
    pthread_create(&sleeper, 0, sleeps, &found);
    usleep(100000);
    write(a, "abcd", 4);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    pthread_join(sleeper, 0);
    return is("events", found, 1);
}

// A wait in no epoll, with a connection that has been taken out of one.
static int wrong(void)
{
    struct epoll_event event = { .events = EPOLLIN }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    epoll_ctl(epoll, EPOLL_CTL_DEL, b, 0);
    write(a, "abcd", 4);
    return is("events", epoll_wait(-1, events, 4, 0), -1) & is("errno", errno, EBADF);
}

// A fork; the parent acts first, then the child, and then the parent again.
static sem_t *turns;

static pid_t forks(void)
{
    turns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2; i++) sem_init(&turns[i], 1, 0);
    fflush(stdout);
    pid_t child = fork();
    if (!child) sem_wait(&turns[0]);
    return child;
}

static void childs_turn(void)
{
    sem_post(&turns[0]);
    sem_wait(&turns[1]);
}

static void child_ends(int is_right)
{
    fflush(stdout);
    sem_post(&turns[1]);
    _exit(!is_right);
}

static int was_right(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

// The parent closes its copy of a registered connection: its epoll still tells of it, as the child has it.
static int closed(void)
{
    struct epoll_event event = { .events = EPOLLIN }, events[4];
    char bytes[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    write(a, "abcd", 4);
    pid_t child = forks();
    if (!child) child_ends(is("read", read(b, bytes, 4), 4));
    close(b);
    int is_right = is("before the child", epoll_wait(epoll, events, 4, 0), 1);
    childs_turn();
    is_right &= is("after it", epoll_wait(epoll, events, 4, 0), 0);
    // By now the child has ended, or is about to.
    is_right &= was_right(child);
    return is_right;
}

// The same, and what is written after the close is told of as well.
static int closed_first(void)
{
    struct epoll_event event = { .events = EPOLLIN }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    pid_t child = forks();
    if (!child) child_ends(1);
    close(b);
    write(a, "abcd", 4);
    int is_right = is("events", epoll_wait(epoll, events, 4, 10000), 1);
    childs_turn();
    return was_right(child) & is_right;
}

// The parent takes a connection out of the epoll: the child's wait does not tell of it.
static int removed(void)
{
    struct epoll_event event = { .events = EPOLLIN }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    pid_t child = forks();
    if (!child) child_ends(is("the child's events", epoll_wait(epoll, events, 4, 0), 0));
    write(a, "abcd", 4);
    epoll_ctl(epoll, EPOLL_CTL_DEL, b, 0);
    childs_turn();
    return was_right(child);
}

// The child does: the parent's wait does not tell of it.
static int removed_by_child(void)
{
    struct epoll_event event = { .events = EPOLLIN }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    pid_t child = forks();
    if (!child) child_ends(is("removed", epoll_ctl(epoll, EPOLL_CTL_DEL, b, 0), 0));
    write(a, "abcd", 4);
    childs_turn();
    return is("the parent's events", epoll_wait(epoll, events, 4, 0), 0) & was_right(child);
}

// Events of a ring are written to where no memory is: an error, and they are told of again.
static int nowhere(void)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    write(a, "abcd", 4);
    return is("nowhere", syscall(SYS_epoll_wait, epoll, (void *)8, 4, 0), -1) & is("errno", errno, EFAULT)
        & is("somewhere", epoll_wait(epoll, events, 4, 0), 1);
}

// An urgent byte that was sent before the ends had met is passed over, and is urgent no longer.
static int urgent(void)
{
    char bytes[4];
    int is_right = is("urgent", send(b, "wxyz", 4, MSG_OOB), 4) & is("read", read(a, bytes, 4), 3);
    is_right &= is("write", write(b, "abcd", 4), 4) & is("read", read(a, bytes, 4), 4);
    struct pollfd asked = { .fd = a, .events = POLLIN | POLLPRI | POLLOUT };
    return is("poll", poll(&asked, 1, 0), 1) & is("what", asked.revents, POLLOUT) & is_right;
}

// An edge is told again when the own writing half is shut down.
static int shut(void)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET }, events[4];
    epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, b, &event);
    write(a, "abcd", 4);
    int is_right = is("at first", epoll_wait(epoll, events, 4, 0), 1) & is("again", epoll_wait(epoll, events, 4, 0), 0);
    shutdown(b, SHUT_WR);
    return is("behind the shutdown", epoll_wait(epoll, events, 4, 0), 1) & is_right;
}

// What a process has written that ends is still read when its parent has closed that end, and the reader copies its descriptor.
static int left(void)
{
    char bytes[4];
    pid_t child = forks();
    if (!child) child_ends(is("write", write(a, "abcd", 4), 4));
    childs_turn();
    int is_right = was_right(child);
    close(a);
    return is("copy", dup(b) >= 0, 1) & is("read", read(b, bytes, 4), 4) & is("end", read(b, bytes, 4), 0) & is_right;
}

// Room for three messages of three bytes.
static char rooms[3][3];
static struct mmsghdr *three_messages(void)
{
    static struct iovec parts[3];
    static struct mmsghdr messages[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){ rooms[i], sizeof rooms[i] };
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    return messages;
}

static int are_abcd(const struct mmsghdr *messages, int count)
{
    return is("messages", count, 3) & is("first", messages[0].msg_len, 3) & is("second", messages[1].msg_len, 1)
        & is("third", messages[2].msg_len, 0) & is("bytes", memcmp(rooms[0], "abc", 3) || rooms[1][0] != 'd', 0);
}

// What a killed process has written is read as several messages: the first are full, those behind the end are empty.
static int several(void)
{
    struct mmsghdr *messages = three_messages();
    pid_t child = forks();
    if (!child) {
        write(a, "abcd", 4);
        kill(getpid(), SIGKILL);
    }
    close(a);
    sem_post(&turns[0]);
    waitpid(child, 0, 0);
    int nowhere = recvmmsg(b, (void *)64, 3, MSG_WAITFORONE, 0), error = errno;
    struct timespec never = { 0, 2000000000 };
    int too_long = recvmmsg(b, messages, 3, MSG_WAITFORONE, &never), refused = errno;
    int count = recvmmsg(b, messages, 3, MSG_WAITFORONE, 0);
    return is("into no memory", nowhere, -1) & is("errno", error, EFAULT) & is("a time that is none", too_long, -1)
        & is("its errno", refused, EINVAL) & are_abcd(messages, count)
        & is("behind the end", recvmmsg(b, messages, 1, 0, 0), 1) & is("its length", messages[0].msg_len, 0);
}

// An end that has shut down its reading half takes several messages of what another process has written, and that makes no call meanwhile.
static int several_shut(void)
{
    struct mmsghdr *messages = three_messages();
    pid_t child = forks();
    if (!child) {
        close(a);
        shutdown(b, SHUT_RD);
        child_ends(are_abcd(messages, recvmmsg(b, messages, 3, 0, 0)));
    }
    close(b);
    write(a, "abcd", 4);
    childs_turn();
    return was_right(child);
}

// Bytes are read into memory that the kernel shows to nobody, itself not excepted (memfd_secret, where there is it), and written from there.
static int secret(void)
{
    int file = syscall(447, 0);
    if (file < 0) {
        printf("no memfd_secret\n");
        return 1;
    }
    char *memory = ftruncate(file, 4096) ? MAP_FAILED : mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        printf("no memory to lock\n");
        return 1;
    }
    int is_right = 1;
    for (int i = 0; is_right && i < 20; i++) {
        memcpy(memory, "abcd", 4);
        is_right = is("write", write(a, memory, 4), 4) & is("read", read(b, memory + 8, 4), 4) & is("bytes", memcmp(memory + 8, "abcd", 4), 0)
            & is("receive nowhere", write(a, "e", 1) == 1 && recv(b, (void *)64, 1, 0) == -1 && errno == EFAULT, 1)
            & is("receive", recv(b, memory + 8, 1, 0), 1);
    }
    return is_right;
}

// Memory for no more than comes: what lies behind it need not be memory. What would go beyond it is an error, and stays.
static int beyond(void)
{
    enum { PAGE = 4096, ROOM = 100 };
    char *page = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *end = page + PAGE - ROOM, bytes[3 * ROOM];
    struct iovec parts[] = { { end, ROOM }, { page + PAGE, ROOM } };
    munmap(page + PAGE, PAGE);
    memset(bytes, 'x', sizeof bytes);
    int is_right = is("nothing", recv(b, end, INT_MAX, MSG_DONTWAIT), -1) & is("errno", errno, EAGAIN);
    for (int is_vector = 0; is_vector < 2; is_vector++) {
        write(a, bytes, 10);
        is_right &= is("peek", recv(b, end, INT_MAX, MSG_PEEK), 10);
        is_right &= is("some", is_vector ? readv(b, parts, 2) : recv(b, end, INT_MAX, 0), 10);
        write(a, bytes, 2 * ROOM);
        is_right &= is("more", is_vector ? readv(b, parts, 2) : recv(b, end, INT_MAX, 0), -1) & is("errno", errno, EFAULT);
        is_right &= is("all of it", read(b, bytes, sizeof bytes), 2 * ROOM);
    }
    // Where several parts find nothing, everything comes through the kernel from then on.
    fcntl(b, F_SETFL, O_NONBLOCK);
    is_right &= is("nothing", readv(b, parts, 2), -1) & is("errno", errno, EAGAIN);
    fcntl(b, F_SETFL, 0);
    for (int is_vector = 0; is_vector < 2; is_vector++) {
        write(a, bytes, 2 * ROOM);
        is_right &= is("more", is_vector ? readv(b, parts, 2) : recv(b, end, INT_MAX, 0), -1) & is("errno", errno, EFAULT);
        is_right &= is("all of it", read(b, bytes, sizeof bytes), 2 * ROOM);
    }
    return is_right;
}

// A connection that has the number of a stream of the C library, which writes to it without being seen: all comes in its order.
static int standard(void)
{
    int is_right = 1;
    for (int number = STDOUT_FILENO; number <= STDERR_FILENO; number++) {
        FILE *stream = number == STDOUT_FILENO ? stdout : stderr;
        int listener = socket(AF_INET, SOCK_STREAM, 0), peer = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t length = sizeof name;
        char got[6];
        bind(listener, (void *)&name, length);
        listen(listener, 1);
        getsockname(listener, (void *)&name, &length);
        connect(peer, (void *)&name, length);
        fflush(stream);
        int kept = fcntl(number, F_DUPFD, 10);
        close(number);
        int is_it = accept(listener, 0, 0) == number;
        for (int i = 0; i < 3; i++) {
            write(number, "W", 1);
            fprintf(stream, "P");
            fflush(stream);
        }
        ssize_t came = recv(peer, got, sizeof got, MSG_WAITALL);
        dup2(kept, number);
        is_right &= is("accepted as it", is_it, 1) & is("bytes", came, 6) & is("order", memcmp(got, "WPWPWP", 6), 0);
    }
    return is_right;
}

static void *reads_all(void *got)
{
    char room[768];
    *(ssize_t *)got = recv(b, room, sizeof room, MSG_WAITALL);
    return 0;
}

// A read that waits for more than comes has some bytes when the connection is reset: the next read is told of that.
static int behind_all(void)
{
    struct linger at_once = { 1, 0 };
    struct pollfd entry = { .fd = b, .events = POLLIN };
    char bytes[4];
    ssize_t got = -9;
    pthread_t reader;
    pthread_create(&reader, 0, reads_all, &got);
    write(a, "wxyz", 4);
    usleep(100000);
    setsockopt(a, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(a);
    pthread_join(reader, 0);
    return is("all", got, 4) & is("poll", poll(&entry, 1, 0), 1) & is("its error", entry.revents & POLLERR, POLLERR)
        & is("read", read(b, bytes, 4), -1) & is("errno", errno, ECONNRESET) & is("read again", read(b, bytes, 4), 0);
}

// The last process that has the other end exits: the kernel answers what is written then, and that is an error. Nothing but the write may bring
// it about, so this waits for it without a sleep.
static int exited(void)
{
    int error = 0, way[2];
    char byte;
    if (pipe(way)) return 0;
    pid_t child = fork();
    if (!child) exit(read(way[0], &byte, 1) != 1);
    close(b);
    write(way[1], "x", 1);
    waitpid(child, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    socklen_t length = sizeof error;
    ssize_t written = write(a, "wxyz", 4);
    for (time_t end = time(0) + 5; !error && time(0) < end; sched_yield()) getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &length);
    return is("write", written, 4) & is("error", error, EPIPE);
}

static const struct { const char *name; int (*is_right)(void); } cases[] = {
    { "spliced", spliced }, { "dupped", dupped }, { "added", added }, { "wrong", wrong }, { "closed", closed },
    { "closed_first", closed_first }, { "removed", removed }, { "removed_by_child", removed_by_child }, { "nowhere", nowhere }, { "urgent", urgent }, { "shut", shut },
    { "left", left }, { "several", several }, { "several_shut", several_shut }, { "secret", secret },
    { "beyond", beyond },
    { "standard", standard }, { "behind_all", behind_all }, { "exited", exited },
};

int main(int count, char **words)
{
    // Ends of which one does not wait for its connection meet later.
    connects(count > 1 && !strcmp(words[1], "urgent") ? SOCK_NONBLOCK : 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count > 1 && !strcmp(words[1], cases[i].name)) return !cases[i].is_right();
    return 2;
}
