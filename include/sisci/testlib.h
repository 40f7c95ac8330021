/* Programs include it beside sisci_demolib.h, and take from it what that has. SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef SISCI_TESTLIB_H
#define SISCI_TESTLIB_H

#include "sisci_demolib.h"

#endif
