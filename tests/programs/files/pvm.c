/* Starts itself three times as a task, and adds up what the tasks add up. */
#include <pvm3.h>
#include <stdio.h>
#include <unistd.h>

enum { TASKS = 3, NUMBERS = 100000 };

static int numbers[NUMBERS];

static int task(int parent)
{
    long sum = 0;
    pvm_recv(parent, 1);
    pvm_upkint(numbers, NUMBERS, 1);
    for (int n = 0; n < NUMBERS; n++) {
        sum += numbers[n];
    }
    pvm_initsend(PvmDataDefault);
    pvm_pklong(&sum, 1, 1);
    pvm_send(parent, 2);
    return pvm_exit();
}

int main(int argc, char **argv)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    int tids[TASKS], parent = pvm_parent();
    (void)argc;
    (void)argv;
    if (parent > 0) {
        return task(parent);
    }
    if (length < 0) {
        return 1;
    }
    path[length] = 0;
    printf("started %d\n", pvm_spawn(path, NULL, PvmTaskDefault, "", TASKS, tids));
    for (int t = 0; t < TASKS; t++) {
        for (int n = 0; n < NUMBERS; n++) {
            numbers[n] = n % 1000 + t;
        }
        pvm_initsend(PvmDataDefault);
        pvm_pkint(numbers, NUMBERS, 1);
        pvm_send(tids[t], 1);
    }
    for (int t = 0; t < TASKS; t++) {
        long sum = 0;
        pvm_recv(tids[t], 2);
        pvm_upklong(&sum, 1, 1);
        printf("task %d: %ld\n", t, sum);
    }
    return pvm_exit();
}
