/* Ten thousand connections of one process: each carries messages both ways, by epoll; some are copied, half are closed in bulk. */
#include "say.h"

enum { MOST = 10000, TURNS = 5 };

static int near[MOST], far[MOST];

/* Both ends; one listener for all. */
static int open_all(int wanted)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), at;
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 1000);
    getsockname(listener, (struct sockaddr *)&address, &length);
    for (at = 0; at < wanted; at++) {
        near[at] = socket(AF_INET, SOCK_STREAM, 0);
        if (near[at] < 0 || connect(near[at], (struct sockaddr *)&address, sizeof address) != 0)
            break;
        far[at] = accept(listener, NULL, NULL);
        if (far[at] < 0)
            break;
    }
    close(listener);
    return at;
}

int main(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 3 * MOST) {
        /* Root may have more. */
        struct rlimit more = {3 * MOST, 3 * MOST};
        setrlimit(RLIMIT_NOFILE, &more);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int count = (int)(limit.rlim_cur > 2 * MOST + 100 ? MOST : (limit.rlim_cur - 100) / 2);
    say("opened: %d of %d\n", open_all(count), count);
    int set = epoll_create1(0), answered = 0, wrong = 0;
    for (int at = 0; at < count; at++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)at};
        epoll_ctl(set, EPOLL_CTL_ADD, far[at], &event);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int at = 0; at < count; at++)
            if (write(near[at], &at, sizeof at) != sizeof at)
                wrong++;
        for (int left = count; left > 0;) {
            struct epoll_event events[256];
            int ready = epoll_wait(set, events, 256, 5000);
            if (ready <= 0)
                break;
            for (int event = 0; event < ready; event++) {
                int at = (int)events[event].data.u32, got = -1;
                wrong += read(far[at], &got, sizeof got) != sizeof got || got != at;
                wrong += write(far[at], &got, sizeof got) != sizeof got;
                left--;
            }
        }
        for (int at = 0; at < count; at++) {
            int got = -1;
            answered += read(near[at], &got, sizeof got) == sizeof got && got == at;
        }
    }
    say("answered: %d, wrong: %d\n", answered == count * TURNS, wrong);
    int copy = dup2(near[0], far[count / 2]);
    say("copied: %d\n", copy == far[count / 2] && write(copy, "x", 1) == 1);
    SAY(close_range((unsigned)near[count / 2], ~0U, 0));
    SAY(fcntl(near[count / 2], F_GETFD));
    int pair[2];
    tcp(pair);
    SAY(write(pair[0], "abc", 3));
    char room[4];
    SAY(read(pair[1], room, 4));
    return 0;
}
