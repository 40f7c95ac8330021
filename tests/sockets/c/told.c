/* A client of many connections asks on each and reads once for each event: what epoll (level-triggered), poll or select says is there must be
   there, as no one else reads. The answers stand in the order asked for and are checked. "told WAY [PASSES]". */
#include "loopback.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <signal.h>

enum { CONNECTIONS = 32, QUESTION = 40, ANSWER = 1200, MOST_SECONDS = 40 };

static int fds[CONNECTIONS];
static int got[CONNECTIONS], turn[CONNECTIONS];
static long unfounded;

static void reads_whole(int fd, char *into, int length)
{
    for (int have = 0; have < length;) {
        ssize_t count = read(fd, into + have, (size_t)(length - have));
        if (count == 0)
            _exit(0);
        must(count > 0 || errno == EAGAIN, "the server's read");
        have += count > 0 ? (int)count : 0;
    }
}

static unsigned char letter(int connection, int which) { return (unsigned char)(connection * 31 + which * 7); }

/* Answers whatever comes, by epoll. */
static void serves(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int epoll = epoll_create1(0);
    for (int at = 0; at < CONNECTIONS; at++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        must(fd >= 0, "accept");
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    }
    for (;;) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(epoll, events, CONNECTIONS, -1);
        for (int at = 0; at < count; at++) {
            unsigned char question[QUESTION], answer[ANSWER];
            reads_whole(events[at].data.fd, (char *)question, QUESTION);
            memset(answer, question[0], ANSWER);
            must(write(events[at].data.fd, answer, ANSWER) == ANSWER, "the server's write");
        }
    }
}

static void asks_for(int connection)
{
    unsigned char question[QUESTION] = {letter(connection, turn[connection])};
    got[connection] = 0;
    must(write(fds[connection], question, QUESTION) == QUESTION, "a question");
}

/* One read, of a connection that has something. */
static void reads_once(int connection)
{
    unsigned char bytes[4096];
    ssize_t count = read(fds[connection], bytes, sizeof bytes);
    if (count < 0 && errno == EAGAIN) {
        unfounded++;
        return;
    }
    must(count > 0 && got[connection] + count <= ANSWER, "a read");
    for (ssize_t at = 0; at < count; at++)
        must(bytes[at] == letter(connection, turn[connection]), "the right byte");
    got[connection] += (int)count;
    if (got[connection] == ANSWER) {
        turn[connection]++;
        asks_for(connection);
    }
}

static int waits_by_epoll(int epoll)
{
    struct epoll_event events[CONNECTIONS];
    int count = epoll_wait(epoll, events, CONNECTIONS, 5000);
    for (int at = 0; at < count; at++)
        reads_once((int)events[at].data.u32);
    return count;
}

static int waits_by_poll(void)
{
    struct pollfd all[CONNECTIONS];
    for (int at = 0; at < CONNECTIONS; at++)
        all[at] = (struct pollfd){fds[at], POLLIN, 0};
    int count = poll(all, CONNECTIONS, 5000);
    for (int at = 0; at < CONNECTIONS; at++)
        if (all[at].revents)
            reads_once(at);
    return count;
}

static int waits_by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    for (int at = 0; at < CONNECTIONS; at++)
        FD_SET(fds[at], &set);
    struct timeval limit = {5, 0};
    int count = select(fds[CONNECTIONS - 1] + 1, &set, NULL, NULL, &limit);
    for (int at = 0; at < CONNECTIONS; at++)
        if (FD_ISSET(fds[at], &set))
            reads_once(at);
    return count;
}

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "epoll";
    long passes = count > 2 ? atol(arguments[2]) : 20000, done = 0;
    int listener = listens();
    pid_t server = fork();
    if (server == 0)
        serves(listener);
    int epoll = epoll_create1(0);
    for (int at = 0; at < CONNECTIONS; at++) {
        fds[at] = connects();
        must(fcntl(fds[at], F_SETFL, O_NONBLOCK) == 0, "fcntl");
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (unsigned)at};
        must(strcmp(way, "epoll") || epoll_ctl(epoll, EPOLL_CTL_ADD, fds[at], &event) == 0, "epoll_ctl");
    }
    for (int at = 0; at < CONNECTIONS; at++)
        asks_for(at);
    for (double end = now() + MOST_SECONDS; done < passes && now() < end; done++) {
        int ready = !strcmp(way, "epoll") ? waits_by_epoll(epoll) : !strcmp(way, "poll") ? waits_by_poll() : waits_by_select();
        must(ready > 0, "an answer within five seconds");
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    long answers = 0;
    for (int at = 0; at < CONNECTIONS; at++)
        answers += turn[at];
    printf("%ld answers; told of %ld and found none\n", answers, unfounded);
    return unfounded != 0;
}
