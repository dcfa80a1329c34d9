/* SPDX-License-Identifier: MIT
 *
 * tolk-jit cache and tolk-jit version.
 */
#include "tool.h"

#include <inttypes.h>
#include <string.h>

static int print_stats(tolk_ctx *ctx, int json) {
    tolk_cache_stats s;
    tolk_status st = tolk_cache_get_stats(ctx, &s);
    if (st)
        return tk_report_error(NULL, st, NULL);
    /* What is in memory belongs to this process, which compiled nothing: only the disk is shown. */
    if (json) {
        printf("{\"dir\": ");
        if (s.disk_dir[0])
            tk_json_string(stdout, s.disk_dir);
        else
            printf("null");
        printf(", \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", s.disk_entries,
               s.disk_bytes);
    } else if (s.disk_dir[0]) {
        printf("directory  %s\nentries    %" PRIu64 "\nbytes      %" PRIu64 "\n", s.disk_dir,
               s.disk_entries, s.disk_bytes);
    } else {
        printf("there is no disk cache (tolk-jit doctor says why)\n");
    }
    return TOOL_DONE;
}

int tk_cmd_cache(int argc, char **argv) {
    static tk_list words; /* large */
    int json = 0;
    const tk_flag flags[] = {{"--json", TK_FLAG_BOOL, &json}};
    int code = tk_flags_read(argc, argv, flags, 1, &words, 1);
    if (code)
        return code;
    const char *what = words.n ? words.item[0] : "";
    int clear = !strcmp(what, "clear");
    if (!clear && strcmp(what, "stats"))
        return words.n ? tk_report_usage("cache: '%.100s': expected stats or clear", what)
                       : tk_report_usage("cache: expected stats or clear");
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = clear ? tolk_cache_clear(ctx, &err) : TOLK_OK;
    code = st ? tk_report_error(NULL, st, &err) : TOOL_DONE;
    if (!code && (!clear || json))
        code = print_stats(ctx, json);
    tk_report_context_end(ctx);
    return code;
}

int tk_cmd_version(int argc, char **argv) {
    static tk_list words; /* large */
    int json = 0;
    const tk_flag flags[] = {{"--json", TK_FLAG_BOOL, &json}};
    /* "tolk-jit --version" comes here, too. */
    int code = tk_flags_read(argc, argv, flags, 1, &words, 0);
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    uint32_t v = tolk_version();
    char version[32], llvm[64] = "unknown";
    snprintf(version, sizeof version, "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    char *info;
    size_t len;
    tolk_status st = tolk_debug_info(ctx, NULL, &info, &len);
    if (st) {
        code = tk_report_error(NULL, st, NULL);
    } else {
        tk_json_find(info, len, "llvm", llvm, sizeof llvm);
        tolk_free_text(ctx, info);
        if (json) {
            printf("{\"version\": \"%s\", \"llvm\": ", version);
            tk_json_string(stdout, llvm);
            printf("}\n");
        } else {
            printf("tolk-jit %s, LLVM %s\n", version, llvm);
        }
    }
    tk_report_context_end(ctx);
    return code;
}
