/* Moves bytes over connections that it never closes, and ends as it is told. */
#include "say.h"

static void move(int pair[2], size_t bytes)
{
    static char room[1000];
    for (size_t at = 0; at < bytes; at++)
        if (write(pair[0], room, 1) != 1 || read(pair[1], room, 1) != 1)
            _exit(97);
}

int main(int count, char **words)
{
    int often[2], seldom[2];
    tcp(often);
    tcp(seldom);
    move(often, 10000);
    move(seldom, 3);
    const char *way = count > 1 ? words[1] : "return";
    if (strcmp(way, "exit") == 0)
        exit(0);
    if (strcmp(way, "_exit") == 0)
        _exit(0);
    if (strcmp(way, "exec") == 0)
        execl("/bin/true", "true", (char *)NULL);
    if (strcmp(way, "syscall") == 0)
        syscall(SYS_exit_group, 0);
    return 0;
}
