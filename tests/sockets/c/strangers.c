// Two ends of a connection, and what others do to them: strangers.c WAY
//
// pair: two processes say each other bytes; how many regions of rings the first one has mapped at the end. pair UID: the second one is of this
// user. attack UID SECONDS: what a stranger can reach of this user's.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL(...) do { fprintf(stderr, __VA_ARGS__); fprintf(stderr, ": %s\n", strerror(errno)); _exit(1); } while (0)
enum { TRIPS = 3000 };

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

static void becomes(unsigned user)
{
    if (setgroups(0, 0) || setresgid(user, user, user) || setresuid(user, user, user)) FAIL("becomes");
}

// A new network has a loopback interface that is down.
static void loopback_up(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (!ioctl(fd, SIOCGIFFLAGS, &request) && !(request.ifr_flags & IFF_UP)) {
        request.ifr_flags |= IFF_UP;
        ioctl(fd, SIOCSIFFLAGS, &request);
    }
    close(fd);
}

static void whole(int fd, char *bytes, size_t length, int writes)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = writes ? write(fd, bytes + done, length - done) : read(fd, bytes + done, length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) FAIL("%s after %zu", writes ? "write" : "read", done);
        done += n;
    }
}

// Both ends do the same: a question, its answer, of lengths that follow from the number.
static void talk(int fd, int asks)
{
    char bytes[600];
    for (int trip = 0; trip < TRIPS; trip++)
        for (int half = 0; half < 2; half++) {
            size_t length = 1 + (trip * 7 + half * 13) % 500;
            if (half == asks) {
                whole(fd, bytes, length, 0);
                for (size_t i = 0; i < length; i++) if (bytes[i] != (char)(trip + half + i)) FAIL("byte %zu of %d is wrong", i, trip);
            } else {
                for (size_t i = 0; i < length; i++) bytes[i] = trip + half + i;
                whole(fd, bytes, length, 1);
            }
        }
}

static int regions(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) count += strstr(line, "memfd:tieline-ring") != 0;
    if (maps) fclose(maps);
    return count;
}

static void pair(int other)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
    char port[16], user[16];
    loopback_up();
    if (bind(listener, (void *)&name, sizeof name) || listen(listener, 1) || getsockname(listener, (void *)&name, &length)) FAIL("listen");
    snprintf(port, sizeof port, "%d", ntohs(name.sin_port));
    snprintf(user, sizeof user, "%d", other);
    pid_t child = fork();
    if (!child) {
        execl("/proc/self/exe", "strangers", "client", port, user, (char *)0);
        // Without /proc.
        execlp("strangers", "strangers", "client", port, user, (char *)0);
        FAIL("exec");
    }
    int fd = accept(listener, 0, 0);
    talk(fd, 0);
    int count = regions();
    close(fd);
    if (waitpid(child, &status, 0) != child || status) FAIL("the client ended with %d", status);
    printf("every byte came; %d regions\n", count);
}

static void client(int port, int user)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (user >= 0) becomes(user);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&name, sizeof name)) FAIL("connect");
    talk(fd, 1);
}

static int reaches(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0) close(fd);
    if (fd >= 0) printf("reached %s\n", path);
    return fd >= 0;
}

static void attack(int user, double seconds)
{
    static const char *const places[] = { "/run/tieline-rings", "/run/user/%d/tieline-rings", "/dev/shm/tieline-rings-%d", "/tmp/tieline-rings-%d" };
    int reached = 0, looks = 0;
    for (double end = now() + seconds; now() < end; looks++) {
        char path[128], file[160], line[512];
        for (int i = 0; i < 4; i++) {
            snprintf(path, sizeof path, places[i], user);
            snprintf(file, sizeof file, "%s/connections", path);
            reached += reaches(path, O_RDONLY) + reaches(file, O_RDONLY) + reaches(file, O_WRONLY);
            reached += !unlink(file) + !rename(path, "/tmp/stolen") + !chmod(path, 0777);
        }
        FILE *names = fopen("/proc/net/unix", "r");
        while (names && fgets(line, sizeof line, names)) reached += strstr(line, "tieline-rings") && strstr(line, "@");
        if (names) fclose(names);
    }
    printf("%d looks, reached %d\n", looks, reached);
}

int main(int count, char **arguments)
{
    alarm(100);
    if (!strcmp(arguments[1], "pair")) pair(count > 2 ? atoi(arguments[2]) : -1);
    if (!strcmp(arguments[1], "client")) client(atoi(arguments[2]), atoi(arguments[3]));
    if (!strcmp(arguments[1], "attack")) attack(atoi(arguments[2]), atof(arguments[3]));
    return 0;
}
