/* SPDX-License-Identifier: MIT
 *
 * Which kernels a file has: the only one, the sinks of a group, or those that the calls of a linear
 * are of.
 */
#include "tool.h"

#include <string.h>

int tk_source_is_op(const tolk_uop *u, const char *name) {
    return !strcmp(tolk_op_name(tolk_uop_op(u)), name);
}

int tk_source_is_calls(const tk_source *source) {
    const tolk_uop *root = source->root;
    return tk_source_is_op(root, "linear") &&
           (!tolk_uop_n_src(root) || tk_source_is_op(tolk_uop_src(root, 0), "call"));
}

static int add_kernel(tk_source *s, const tolk_uop *kernel) {
    int is_new;
    return tk_nodes_add(&s->kernels, kernel, &is_new);
}

/* A sink without a name is of states, and no kernel. */
static int add_kernel_of(void *source, const tolk_uop *call) {
    const tolk_uop *body = tolk_uop_n_src(call) ? tolk_uop_src(call, 0) : call;
    tolk_attr name;
    if (tk_source_is_op(body, "program") && tolk_uop_n_src(body))
        body = tolk_uop_src(body, 0);
    return tk_source_is_op(body, "sink") && tolk_uop_attr(body, "name", &name) && name.s
               ? add_kernel(source, body)
               : TOOL_DONE;
}

int tk_source_find_kernels(tk_source *source) {
    const tolk_uop *root = source->root;
    if (tk_source_is_calls(source))
        return tk_nodes_each_call(root, add_kernel_of, source);
    if (!tk_source_is_op(root, "group"))
        return tk_source_is_op(root, "sink") || tk_source_is_op(root, "linear")
                   ? add_kernel(source, root)
                   : TOOL_DONE;
    int code = TOOL_DONE;
    for (size_t i = 0; i < tolk_uop_n_src(root) && !code; i++) {
        const tolk_uop *u = tolk_uop_src(root, i);
        if (tk_source_is_op(u, "sink") || tk_source_is_op(u, "linear"))
            code = add_kernel(source, u);
    }
    return code;
}

const tolk_uop *tk_source_at(const tk_source *source, size_t i) {
    return i < source->kernels.n ? source->kernels.at[i] : NULL;
}

static int which_kernel(const tk_source *source, const char *path, const char *name) {
    char names[512] = "";
    size_t len = 0;
    for (size_t i = 0; len < sizeof names && i < source->kernels.n; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len ? ", " : "",
                                tolk_kernel_name(source->kernels.at[i]));
    if (name)
        return tk_report_usage("%.300s has no kernel '%.100s': expected %s", path, name,
                               names[0] ? names : "a kernel in it");
    return tk_report_usage("%.300s: which kernel? expected --kernel with one of %s", path,
                           names[0] ? names : "(there is none)");
}

int tk_source_kernel(const tk_source *source, const char *path, const char *name,
                     const tolk_uop **out) {
    const tolk_uop *root = source->root;
    if (!name)
        name = source->kept;
    if (tk_source_is_op(root, "linear") &&
        !tk_source_is_calls(source)) { /* a program is its own root */
        if (name && strcmp(name, tolk_kernel_name(root)))
            return tk_report_usage("%.400s holds the program '%.100s', not '%.100s'", path,
                                   tolk_kernel_name(root), name);
        *out = root;
        return TOOL_DONE;
    }
    if (!tk_source_is_op(root, "sink") && !tk_source_is_op(root, "group") &&
        !tk_source_is_calls(source))
        return tk_report_usage("%.400s: the root is %s: expected a kernel (a sink with a name)",
                               path, tolk_op_name(tolk_uop_op(root)));
    size_t found = 0;
    for (size_t i = 0; i < source->kernels.n; i++)
        if (!name || !strcmp(name, tolk_kernel_name(source->kernels.at[i]))) {
            *out = source->kernels.at[i];
            found++;
        }
    if (found > 1 && name)
        return tk_report_usage("%.300s has %zu kernels '%.100s'", path, found, name);
    return found == 1 ? TOOL_DONE : which_kernel(source, path, name);
}
