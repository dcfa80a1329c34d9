/* SPDX-License-Identifier: MIT
 *
 * Which names C and C++ programs can give to something of their own: a function that is emitted, a
 * parameter of the inline caller in its header.
 */
#ifndef TK_JIT_CNAME_H
#define TK_JIT_CNAME_H

#include <stdbool.h>

bool tk_cname_is_letter(char c); /* of ASCII, or '_' */
bool tk_cname_is_digit(char c);
bool tk_cname_is_identifier(const char *s);

/* Why an identifier cannot be the name of a function with external linkage that the header
 * declares: what it is already, as "a keyword of C or C++". NULL: it can. The text is static. */
const char *tk_cname_of_function(const char *s);

/* Can an identifier be the name of a parameter in the header's inline caller: neither a keyword,
 * nor a macro, nor anything that the code there uses? Names of other functions can. */
bool tk_cname_can_be_parameter(const char *s);

#endif
