/* The C library's streams on connections: what they ask of the kernel goes past every other library. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void connected(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    if (server < 0 || bind(server, (struct sockaddr *)&address, length) != 0 || listen(server, 1) != 0 ||
        getsockname(server, (struct sockaddr *)&address, &length) != 0) {
        fail("server");
    }
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fds[0], (struct sockaddr *)&address, length) != 0) {
        fail("connect");
    }
    fds[1] = accept(server, NULL, NULL);
    close(server);
    setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* A child that answers each line with its length and the line. */
static int answering_child(void)
{
    int fds[2];
    connected(fds);
    fflush(stdout);
    if (fork() == 0) {
        char *line = NULL;
        size_t room = 0;
        ssize_t length;
        FILE *in = fdopen(fds[1], "r"), *out = fdopen(dup(fds[1]), "w");
        close(fds[0]);
        while ((length = getline(&line, &room, in)) > 0) {
            fprintf(out, "%zd %s", length, line);
            fflush(out);
        }
        fclose(in);
        fclose(out);
        _exit(0);
    }
    close(fds[1]);
    return fds[0];
}

static void lines(void)
{
    char line[256];
    int fd = answering_child();
    FILE *both = fdopen(fd, "r+");
    for (int n = 0; n < 200; n++) {
        fprintf(both, "line %d%*s\n", n, n % 100, "");
        fflush(both);
        if (fgets(line, sizeof line, both) == NULL) {
            fail("fgets");
        }
        fputs(line, stdout);
    }
    fclose(both);
    wait(NULL);
}

static void mixed(void)
{
    char text[100] = "";
    int fd = answering_child();
    /* Of each kind of call one: the order on the connection must be theirs. */
    dprintf(fd, "by %s ", "dprintf");
    if (write(fd, "by write ", 9) != 9 || send(fd, "by send\n", 8, 0) != 8) {
        fail("write");
    }
    FILE *in = fdopen(dup(fd), "r");
    setvbuf(in, NULL, _IONBF, 0);
    if (fgets(text, 10, in) == NULL) {
        fail("fgets");
    }
    printf("<%s>", text);
    ssize_t got = read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = 0;
    printf("<%s>\n", text);
    fclose(in);
    /* A number that was a connection becomes a file. */
    close(fd);
    FILE *file = tmpfile();
    fputs("a file\n", file);
    rewind(file);
    if (fgets(text, sizeof text, file) != NULL) {
        fputs(text, stdout);
    }
    fclose(file);
    wait(NULL);
}

static void commands(void)
{
    char text[100];
    FILE *command = popen("echo popen; exit 3", "r");
    while (fgets(text, sizeof text, command) != NULL) {
        fputs(text, stdout);
    }
    printf("ended %d\n", WEXITSTATUS(pclose(command)));
    fflush(stdout);
    printf("system %d\n", WEXITSTATUS(system("echo system; exit 4")));
}

static void load(double seconds)
{
    struct timespec start, now;
    char line[256];
    double took;
    long count = 0;
    int fd = answering_child();
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        fprintf(out, "%ld\n", count++);
        fflush(out);
        if (fgets(line, sizeof line, in) == NULL) {
            fail("fgets");
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        took = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
    } while (took < seconds);
    printf("rate %.1f\n", (double)count / took);
    fclose(out);
    fclose(in);
    wait(NULL);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "load") == 0) {
        load(atof(argv[2]));
        return 0;
    }
    lines();
    mixed();
    commands();
    puts("done");
    return 0;
}
