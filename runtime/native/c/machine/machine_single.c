/* single points, for hybrid models */
#define KS_MACHINE single
#define KS_LANES 1
#include "machine_run.h"
