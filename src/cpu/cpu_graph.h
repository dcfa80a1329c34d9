/* SPDX-License-Identifier: MIT
 *
 * Exec graphs of the CPU: tk_graph_ops of jit/backend.h.
 */
#ifndef TK_CPU_CPU_GRAPH_H
#define TK_CPU_CPU_GRAPH_H

#include "jit/backend.h"

/* A graph that runs on at most max_threads threads. Results do not depend on their number. */
tolk_status tk_cpu_graph_build(tolk_device *device, uint32_t max_threads,
                               const tk_graph_node *nodes, size_t n, void **out, tolk_error *err);
void tk_cpu_graph_set(void *graph, size_t i, const tk_graph_node *node);
tolk_status tk_cpu_graph_commit(void *graph, tolk_error *err);
bool tk_cpu_graph_is_small(const void *graph);
tolk_status tk_cpu_graph_launch(void *graph, tolk_error *err);
void tk_cpu_graph_destroy(void *graph);

#endif
