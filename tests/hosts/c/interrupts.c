/* `own` counts triggers and messages, `use NODE` makes some in several threads until the test says so. */
#include "check.h"

#define INTERRUPT 5
#define DATA_INTERRUPT 9
#define THREADS 2

static volatile unsigned int triggers, messages, is_over;

static void *wait_for_triggers(void *interrupt)
{
    sci_error_t e;
    for (;;) {
        SCIWaitForInterrupt((sci_local_interrupt_t)interrupt, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
        if (e != SCI_ERR_OK) return NULL;
        __sync_fetch_and_add(&triggers, 1);
    }
}

/* They come in their order, and none twice. */
static void *wait_for_messages(void *interrupt)
{
    sci_error_t e;
    for (;;) {
        unsigned int message = 0, length = sizeof message;
        SCIWaitForDataInterrupt((sci_local_data_interrupt_t)interrupt, &message, &length, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e);
        if (e != SCI_ERR_OK) return NULL;
        if (length != sizeof message || message != messages) FAIL("message %u, and not %u", message, messages);
        __sync_fetch_and_add(&messages, 1);
    }
}

static void own(sci_desc_t sd)
{
    sci_error_t e;
    sci_local_interrupt_t interrupt;
    sci_local_data_interrupt_t data;
    pthread_t threads[2];
    unsigned int no = INTERRUPT, data_no = DATA_INTERRUPT;
    char line[100];
    OK(SCICreateInterrupt(sd, &interrupt, ADAPTER, &no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCICreateDataInterrupt(sd, &data, ADAPTER, &data_no, NO_CALLBACK, NO_ARG, SCI_FLAG_FIXED_INTNO, &e));
    CHECK(pthread_create(&threads[0], NULL, wait_for_triggers, interrupt) == 0);
    CHECK(pthread_create(&threads[1], NULL, wait_for_messages, data) == 0);
    say("ready");
    while (fgets(line, sizeof line, stdin)) {
        sprintf(line, "%u %u", triggers, messages);
        say(line);
    }
    exit(0);
}

static void *trigger(void *interrupt)
{
    sci_error_t e;
    while (!is_over) {
        OK(SCITriggerInterrupt((sci_remote_interrupt_t)interrupt, NO_FLAGS, &e));
        __sync_fetch_and_add(&triggers, 1);
        usleep(200);
    }
    return NULL;
}

static void *send_messages(void *interrupt)
{
    sci_error_t e;
    while (!is_over) {
        unsigned int message = messages;
        OK(SCITriggerDataInterrupt((sci_remote_data_interrupt_t)interrupt, &message, sizeof message, NO_FLAGS, &e));
        messages++;
        usleep(200);
    }
    return NULL;
}

static void use(sci_desc_t sd, unsigned int owner)
{
    sci_error_t e;
    sci_remote_interrupt_t interrupt;
    sci_remote_data_interrupt_t data;
    pthread_t threads[THREADS + 1];
    char line[100];
    int i;
    OK(SCIConnectInterrupt(sd, &interrupt, owner, ADAPTER, INTERRUPT, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    OK(SCIConnectDataInterrupt(sd, &data, owner, ADAPTER, DATA_INTERRUPT, SCI_INFINITE_TIMEOUT, NO_FLAGS, &e));
    for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, trigger, interrupt) == 0);
    CHECK(pthread_create(&threads[THREADS], NULL, send_messages, data) == 0);
    say("ready");
    hear("end");
    is_over = 1;
    for (i = 0; i <= THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    sprintf(line, "%u %u", triggers, messages);
    say(line);
    /* The connection stays until the test has seen that nothing comes late. */
    while (fgets(line, sizeof line, stdin)) continue;
    OK(SCIDisconnectInterrupt(interrupt, NO_FLAGS, &e));
    OK(SCIDisconnectDataInterrupt(data, NO_FLAGS, &e));
}

int main(int argc, char **argv)
{
    sci_desc_t sd = start();
    if (argc == 2) own(sd);
    CHECK(argc == 3);
    use(sd, number(argv[2]));
    return 0;
}
