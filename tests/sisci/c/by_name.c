/* One program that does not link with the library: it loads it, and looks the functions up as the vendor names them. */
#include "check.h"

#include <dlfcn.h>

static void *library;

static void *named(const char *prefix, const char *name)
{
    char full[100];
    void *function;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    function = dlsym(library, full);
    if (!function) FAIL("%s is not there", full);
    return function;
}

int main(int argc, char **argv)
{
    static const char *const prefixes[] = {"", "_SISCI_PUBLIC_FUNC_ST_", "_SISCI_PUBLIC_FUNC_MT_"};
    size_t i;
    CHECK(argc == 2);
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) FAIL("%s", dlerror());
    for (i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        void (*initialize)(unsigned int, sci_error_t *);
        void (*open)(sci_desc_t *, unsigned int, sci_error_t *);
        void (*get_node)(unsigned int, unsigned int *, unsigned int, sci_error_t *);
        void (*terminate)(void);
        sci_error_t e = UNSET;
        sci_desc_t sd = NULL;
        unsigned int node = 0;
        *(void **)&initialize = named(prefixes[i], "SCIInitialize");
        *(void **)&open = named(prefixes[i], "SCIOpen");
        *(void **)&get_node = named(prefixes[i], "SCIGetLocalNodeId");
        *(void **)&terminate = named(prefixes[i], "SCITerminate");
        initialize(0, &e);
        CHECK(e == SCI_ERR_OK);
        open(&sd, 0, &e);
        CHECK(e == SCI_ERR_OK && sd != NULL);
        get_node(0, &node, 0, &e);
        CHECK(e == SCI_ERR_OK && node != 0);
        terminate();
    }
    return 0;
}
