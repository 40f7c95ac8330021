/* Numbers that become something else: copies, bulk closes, passing, and reuse that nobody sees. */
#include "say.h"

static void exchange(const char *what, int from, int to)
{
    char got[8] = "";
    ssize_t sent = write(from, "abc", 3);
    ssize_t read_back = read(to, got, sizeof got);
    say("%s: %zd %zd %s\n", what, sent, read_back, got);
}

static void copies(void)
{
    int a[2], b[2];
    tcp(a);
    tcp(b);
    exchange("first", a[0], a[1]);
    int copy = (int)SAY(dup(a[0]));
    exchange("copy", copy, a[1]);
    SAY(dup2(b[0], a[0]));
    exchange("replaced", a[0], b[1]);
    exchange("the copy still", copy, a[1]);
    SAY(dup3(copy, a[0], O_CLOEXEC));
    SAY(dup3(copy, copy, 0));
    SAY(dup2(copy, copy));
    SAY(dup2(77, a[0]));
    exchange("after a failure", a[0], a[1]);
    SAY(fcntl(a[0], F_DUPFD, 100));
    SAY(fcntl(a[0], F_DUPFD_CLOEXEC, 100));
    exchange("high", 100, a[1]);
    SAY(fcntl(100, F_SETFL, O_NONBLOCK));
    SAY(fcntl(a[0], F_GETFL) & O_NONBLOCK);
    SAY(read(a[0], &copy, 1));
    SAY(syscall(SYS_dup2, b[0], 100));
    exchange("by number", 100, b[1]);
    descriptors("copies");
    SAY(close_range(100, 200, CLOSE_RANGE_CLOEXEC));
    SAY(close_range(50, 10, 0));
    closefrom(3);
    descriptors("closed");
}

static void pass(void)
{
    int way[2], ends[2], got[2] = {-1, -1};
    char byte = 'p', control[CMSG_SPACE(sizeof got)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    socketpair(AF_UNIX, SOCK_STREAM, 0, way);
    tcp(ends);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof got);
    memcpy(CMSG_DATA(header), ends, sizeof ends);
    SAY(sendmsg(way[0], &message, 0));
    close(ends[0]);
    memset(control, 0, sizeof control);
    SAY(recvmsg(way[1], &message, MSG_CMSG_CLOEXEC));
    memcpy(got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    say("passed as %d %d\n", got[0], got[1]);
    exchange("passed", got[0], ends[1]);
    exchange("and back", got[1], got[0]);
    message.msg_controllen = 0;
    SAY(sendmsg(way[0], &message, 0));
    message.msg_controllen = sizeof control;
    SAY(recvmsg(way[1], &message, 0));
    say("control %zu\n", message.msg_controllen);
    closefrom(3);
}

/* Closed by a stream, by a system call in assembly, by the C library itself: the next user of the number is somebody else. */
static void unseen(void)
{
    int ends[2], again[2];
    for (int round = 0; round < 3; round++) {
        tcp(ends);
        exchange("before", ends[0], ends[1]);
        if (round == 0) {
            fclose(fdopen(ends[0], "w"));
        } else {
            long result;
            __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_close), "D"(ends[0]) : "rcx", "r11", "memory");
        }
        if (round == 2) {
            FILE *file = tmpfile();
            say("reused %d\n", fileno(file) == ends[0]);
            SAY(write(ends[0], "file", 4));
            SAY(lseek(ends[0], 0, SEEK_END));
            fclose(file);
        } else {
            again[0] = open("/dev/null", O_RDWR);
            say("reused %d\n", again[0] == ends[0]);
            SAY(write(again[0], "null", 4));
            SAY(read(again[0], again, 4));
        }
        closefrom(3);
    }
}

int main(void)
{
    copies();
    pass();
    unseen();
    /* A program that closes all it can before it begins. */
    for (int fd = 3; fd < 2048; fd++)
        close(fd);
    int ends[2];
    tcp(ends);
    exchange("after all was closed", ends[0], ends[1]);
    dup2(ends[0], 0);
    dup2(ends[1], 2);
    exchange("on 0 and 2", 0, 2);
    descriptors("at the end");
    return 0;
}
