/* SPDX-License-Identifier: MIT
 *
 * Looking into objects (ELF, 64 bits, little endian).
 */
#ifndef TK_OBJECT_H
#define TK_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* Name of the first symbol that the object does not define; NULL: none. "(damaged)": no such file.
 * The name is part of the object. */
const char *tk_object_undefined(const void *object, size_t len);
/* Does it define a function of that name? */
bool tk_object_defines(const void *object, size_t len, const char *name);

#endif
