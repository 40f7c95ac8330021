/* A number is closed by a system call that nobody sees, and becomes another connection's: that reads its own bytes. */
#include "loopback.h"
#include <sys/syscall.h>

static long quietly_closes(int fd)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_close), "D"((long)fd) : "rcx", "r11", "memory");
    return result;
}

static void connects_and_says(const char *text)
{
    int fd = connects();
    must(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
    shutdown(fd, SHUT_WR);
    char byte;
    read(fd, &byte, 1);
    _exit(0);
}

int main(void)
{
    int listener = listens();
    pid_t first_child = fork();
    if (first_child == 0) {
        int first = connects();
        asks(first);
        must(write(first, "of the first", 12) == 12, "write");
        computes(2);
        _exit(0);
    }
    int first = accept(listener, NULL, NULL);
    answers(first);
    computes(0.3);
    must(quietly_closes(first) == 0, "close");
    pid_t second_child = fork();
    if (second_child == 0)
        connects_and_says("of the second");
    int second = accept(listener, NULL, NULL);
    must(second == first, "the number is not used again");
    char text[64] = "";
    size_t done = 0;
    for (ssize_t count; (count = read(second, text + done, sizeof text - 1 - done)) > 0;)
        done += (size_t)count;
    close(second);
    must(waitpid(first_child, NULL, 0) == first_child && waitpid(second_child, NULL, 0) == second_child, "waitpid");
    printf("the second connection has read \"%s\"\n", text);
    return strcmp(text, "of the second") != 0;
}
