/* Every kernel of the table, written once against the vector operations of a vec_*.h header, which is included before
 * this one. LL_TIER is the name of the table and LL_TIER_NAME the same as a string. kernel.h specifies each function.
 * Sums run within lanes first and over the lanes last, so that their order depends on the size alone. */
#include <math.h>

#include "kernel/kernel.h"
#include "kernel/tiers.h"

#include "kernel/body_rows.h"
#include "kernel/body_product.h"
#include "kernel/body_gather.h"
#include "kernel/body_state.h"
#include "kernel/body_scan.h"
#ifdef VGRADIENT
#include "kernel/body_gradient_scan.h"
#endif
#include "kernel/body_rotate.h"
#include "kernel/body_position.h"
#include "kernel/body_gelu.h"
#include "kernel/body_layer.h"
#include "kernel/body_maps.h"
#include "kernel/functions.h"

const ll_kernels LL_TIER = {
    .name = LL_TIER_NAME,
    .width = VW,
    .rows = VROWS,
    LL_KERNEL_FUNCTIONS,
    LL_KERNEL_MAPS,
    .tile = VTILE,
    .scan_tile = VSCAN_TILE,
#ifdef VGRADIENT
    .scan_gradients = scan_gradients,
#endif
};
