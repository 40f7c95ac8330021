// What connections through memory take of a program's own: limits.c WAY
//
// files: round trips; run with a limit of file sizes. lowered: with one that comes in the middle. many LIMIT: how many connections a server gets whose clients have no library.
// numbers: a number that the library might have is replaced by the program, and stays the program's.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)

static int listener, port;

static void listens(void)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 100) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    port = ntohs(name.sin_port);
}

static int connects(int to)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(to), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (void *)&name, sizeof name)) FAIL("connect");
    return fd;
}

static int one(int fd, int writes)
{
    char byte = 'x';
    for (;;) {
        ssize_t n = writes ? write(fd, &byte, 1) : read(fd, &byte, 1);
        if (n == 1) return 1;
        if (n < 0 && errno == EINTR) continue;
        return 0;
    }
}

static void echo(int fd) { while (one(fd, 0) && one(fd, 1)) {} }

// This program again, with the library or without.
static pid_t again(const char *way, int count, int has_library)
{
    pid_t child = fork();
    if (child) return child;
    char to[16], times[16];
    snprintf(to, sizeof to, "%d", port);
    snprintf(times, sizeof times, "%d", count);
    if (!has_library) unsetenv("LD_PRELOAD");
    execl("/proc/self/exe", "limits", way, to, times, (char *)0);
    _exit(9);
}

static void files(void)
{
    pid_t child = again("echo", 1, 1);
    int fd = accept(listener, 0, 0), status, trips;
    for (trips = 0; trips < 3000 && one(fd, 1) && one(fd, 0); trips++) {}
    close(fd);
    waitpid(child, &status, 0);
    if (trips < 3000 || !WIFEXITED(status)) FAIL("%d round trips, status %d", trips, status);
    printf("%d round trips\n", trips);
}

// Takes what the two ends have said out of the file in which they meet, so that it has to be said again.
static void unsaid(int fd)
{
    static unsigned long long entries[4 << 11][8], nothing[8];
    unsigned long long cookie;
    socklen_t length = sizeof cookie;
    char path[3][64];
    unsigned user = geteuid();
    if (user) snprintf(path[0], 64, "/run/user/%u/tieline-rings/connections", user);
    else strcpy(path[0], "/run/tieline-rings/connections");
    snprintf(path[1], 64, "/dev/shm/tieline-rings-%u/connections", user);
    snprintf(path[2], 64, "/tmp/tieline-rings-%u/connections", user);
    if (getsockopt(fd, SOL_SOCKET, 57 /* SO_COOKIE */, &cookie, &length)) FAIL("cookie");
    for (int i = 0; i < 3; i++) {
        int file = open(path[i], O_RDWR | O_CLOEXEC);
        if (file < 0) continue;
        ssize_t n = read(file, entries, sizeof entries);
        for (int at = 0; at < n / (ssize_t)sizeof *entries; at++)
            if ((entries[at][1] == cookie || entries[at][2] == cookie) && pwrite(file, nothing, sizeof nothing, at * sizeof nothing) < 0) FAIL("pwrite");
        close(file);
    }
}

// The limit comes after each number of round trips in turn: in a child, as it cannot be taken back.
static void lowered(void)
{
    for (int before = 1; before < 24; before++) {
        pid_t child = again("echo", 1, 1), own = fork();
        int status;
        if (!own) {
            struct rlimit limit = { 1 << 10, 1 << 10 };
            int fd = accept(listener, 0, 0);
            for (int i = 0; i < 200; i++) {
                if (i == before) {
                    unsaid(fd);
                    if (setrlimit(RLIMIT_FSIZE, &limit)) FAIL("setrlimit");
                }
                if (!one(fd, 1) || !one(fd, 0)) FAIL("round trip %d", i);
            }
            _exit(0);
        }
        if (waitpid(own, &status, 0) != own || status) FAIL("after %d round trips: status %x", before, status);
        waitpid(child, 0, 0);
    }
    printf("goes on under each limit\n");
}

static void many(int most)
{
    pid_t child = again("clients", most + 50, 0);
    struct rlimit limit = { most, most };
    if (setrlimit(RLIMIT_NOFILE, &limit)) FAIL("setrlimit");
    int connections = 0;
    for (;; connections++) {
        int fd = accept(listener, 0, 0);
        if (fd < 0) break;
        for (int i = 0; i < 30 && one(fd, 0) && one(fd, 1); i++) {}
    }
    // Three are the standard ones, one listens.
    printf("%d of %d descriptors are connections\n", connections, most);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

static void numbers(void)
{
    struct rlimit limit = { 64, 64 };
    if (setrlimit(RLIMIT_NOFILE, &limit)) FAIL("setrlimit");
    // Both ends look for each other: one has the library, the other one has it too and stops using its end in the middle.
    for (int uses = 1; uses < 40; uses++) {
        pid_t child = again("few", uses, 1);
        int fd = accept(listener, 0, 0), own[64], count = 0;
        for (int i = 0; i < uses; i++) if (!one(fd, 1) || !one(fd, 0)) FAIL("round trip");
        // All that the library might have: from here on they are the program's.
        for (int to = 20; to < 64; to++) {
            int file = open("/dev/null", O_RDONLY);
            if (file < 0 || dup2(file, to) != to) FAIL("dup2");
            close(file);
            own[count++] = to;
        }
        FILE *stream = fdopen(dup(fd), "r");
        close(fd);
        if (stream) fclose(stream);
        for (int i = 0; i < count; i++) {
            struct stat stat;
            if (fstat(own[i], &stat) || !S_ISCHR(stat.st_mode)) FAIL("after %d uses descriptor %d is the program's no more", uses, own[i]);
            close(own[i]);
        }
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
    printf("all numbers stay the program's\n");
}

int main(int count, char **arguments)
{
    signal(SIGPIPE, SIG_IGN);
    alarm(400);
    if (count > 3 && strcmp(arguments[1], "many")) {
        int to = atoi(arguments[2]), times = atoi(arguments[3]);
        if (!strcmp(arguments[1], "echo")) echo(connects(to));
        if (!strcmp(arguments[1], "few")) {
            int fd = connects(to);
            for (int i = 0; i < times && one(fd, 0); i++) one(fd, 1);
            pause();
        }
        if (!strcmp(arguments[1], "clients")) {
            struct rlimit limit = { 8000, 8000 };
            setrlimit(RLIMIT_NOFILE, &limit);
            for (int i = 0; i < times; i++) {
                int fd = connects(to);
                for (int k = 0; k < 30; k++) if (!one(fd, 1) || !one(fd, 0)) return 0;
            }
            pause();
        }
        return 0;
    }
    listens();
    if (!strcmp(arguments[1], "files")) files();
    if (!strcmp(arguments[1], "lowered")) lowered();
    if (!strcmp(arguments[1], "many")) many(atoi(arguments[2]));
    if (!strcmp(arguments[1], "numbers")) numbers();
    return 0;
}
