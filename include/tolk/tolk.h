/* SPDX-License-Identifier: MIT
 *
 * tolk: a just-in-time compiler for array kernels. This header includes all the others.
 */
#ifndef TOLK_TOLK_H
#define TOLK_TOLK_H

#include <tolk/base.h>
#include <tolk/device.h>
#include <tolk/dtype.h>
#include <tolk/ir.h>
#include <tolk/jit.h>
#include <tolk/realize.h>

#endif
