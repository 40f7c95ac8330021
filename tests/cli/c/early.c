/* Sends this process the signal TEST_SIGNAL as soon as it has put a handler for it in place: the earliest moment at which the handler runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int wanted;

__attribute__((constructor)) static void begin(void) {
    const char *number = getenv("TEST_SIGNAL");
    wanted = number ? atoi(number) : 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    int (*next)(int, const struct sigaction *, struct sigaction *) = dlsym(RTLD_NEXT, "sigaction");
    int result = next(number, action, before);
    if (action != NULL && number == wanted) {
        wanted = 0;
        /* Programs that this one starts are none of it; what it becomes before it has a handler is. */
        unsetenv("LD_PRELOAD");
        kill(getpid(), number);
    }
    return result;
}
