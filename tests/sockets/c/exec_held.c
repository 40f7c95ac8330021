// A process with threads shares a connection with a child, and executes another program while one of its threads writes or reads:
// exec_held.c w|r. The child goes on with the connection, whose lock the thread may have had when it was ended.
#include "loopback.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 25, PIECE = 4000, WANTED = 2000000, SECONDS = 25 };

static int conn;
static char piece[PIECE];

static void *writes(void *none) { while (write(conn, piece, PIECE) > 0) { } return none; }
static void *reads(void *none) { static char into[PIECE]; while (read(conn, into, PIECE) > 0) { } return none; }

// The other end: reads until the end, of which the last hundred bytes are the child's; or writes until nobody reads.
static void peer(int is_writer) {
    int own = connects();
    static char into[65536];
    size_t last = 0, got;
    char turn = 't';
    for (int i = 0; i < 20; i++) must(write(own, &turn, 1) == 1 && read(own, &turn, 1) == 1, "a turn");
    if (!is_writer) {
        while (write(own, piece, PIECE) > 0) { }
        _exit(0);
    }
    while ((got = read(own, into, sizeof into)) + 1 > 1)
        for (size_t i = 0; i < got; i++) {
            must(into[i] == 'C' || last == 0, "the child's bytes are the last");
            last += into[i] == 'C';
        }
    must(last == 100, "the child's bytes");
    _exit(0);
}

static void child(int is_writer, int executed) {
    char none;
    static char into[65536];
    alarm(SECONDS);
    must(read(executed, &none, 1) == 0, "the execution");
    if (is_writer) {
        memset(into, 'C', 100);
        must(write(conn, into, 100) == 100, "a write of the child");
        _exit(0);
    }
    size_t all = 0;
    for (ssize_t got; all < WANTED; all += got) must((got = read(conn, into, sizeof into)) > 0, "a read of the child");
    _exit(0);
}

static void owner(int is_writer, int listener) {
    conn = accept4(listener, 0, 0, SOCK_CLOEXEC);
    must(conn >= 0, "accept");
    close(listener);
    char turn;
    for (int i = 0; i < 20; i++) must(read(conn, &turn, 1) == 1 && write(conn, &turn, 1) == 1, "a turn");
    int executed[2];
    must(pipe2(executed, O_CLOEXEC) == 0, "a pipe");
    pid_t heir = fork();
    if (heir == 0) {
        close(executed[1]);
        child(is_writer, executed[0]);
    }
    pthread_t thread;
    must(pthread_create(&thread, 0, is_writer ? writes : reads, 0) == 0, "a thread");
    usleep(20000 + getpid() % 37 * 500);
    // It waits for the child, so the number of this process goes on meaning somebody.
    char text[32];
    snprintf(text, sizeof text, "--wait=%d", heir);
    execl("/proc/self/exe", "exec_held", text, (char *)0);
    _exit(9);
}

int main(int count, char **words) {
    int heir, status;
    if (count > 1 && sscanf(words[1], "--wait=%d", &heir) == 1) {
        must(waitpid(heir, &status, 0) == heir && status == 0, "the child");
        return 0;
    }
    int is_writer = count > 1 && words[1][0] == 'w';
    signal(SIGPIPE, SIG_IGN);
    for (int round = 0; round < ROUNDS; round++) {
        int listener = listens();
        pid_t other = fork();
        if (other == 0) peer(is_writer);
        pid_t first = fork();
        if (first == 0) owner(is_writer, listener);
        close(listener);
        must(waitpid(first, &status, 0) == first && status == 0, "the program that was executed");
        must(waitpid(other, &status, 0) == other && status == 0, "the other end");
    }
    return 0;
}
