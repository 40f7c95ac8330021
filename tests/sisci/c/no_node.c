/* One program without a node of its own: SCIOpen says there is no adapter, and in words what to do. */
#include "check.h"

int main(void)
{
    sci_error_t e;
    sci_desc_t sd = NULL;
    OK(SCIInitialize(NO_FLAGS, &e));
    FAILS(SCI_ERR_NO_SUCH_ADAPTERNO, SCIOpen(&sd, NO_FLAGS, &e));
    CHECK(sd == NULL);
    say(SCIGetErrorString(e));
    SCITerminate();
    return 0;
}
