/* One program that includes the helpers as demonstration programs do, and uses each. */
#include "sisci_types.h"
#include "sisci_api.h"
#include "sisci_error.h"
#include "sisci_demolib.h"
#include "testlib.h"
#include "check.h"

int main(void)
{
    timer_start_t timer_start;
    unsigned int node = 0;

    StartTimer(&timer_start);
    CHECK(GetLocalNodeId(ADAPTER, &node) == SCI_ERR_NOT_INITIALIZED);
    (void)start();
    CHECK(GetLocalNodeId(ADAPTER, &node) == SCI_ERR_OK && node == my_node());
    CHECK(GetLocalNodeId(99, &node) == SCI_ERR_ILLEGAL_ADAPTERNO);
    SleepMilliseconds(0);
    SleepMilliseconds(1001);
    CHECK(StopTimer(timer_start) >= 0);
    SCITerminate();
    return 0;
}
