/* SPDX-License-Identifier: MIT
 *
 * Prints the table of ops in docs/ir.md, made from ops.def; a test compares. With a file as
 * argument, writes that file anew with the table between its marks:
 *
 *   build/tools/ops_table docs/ir.md > new.md && mv new.md docs/ir.md
 */
#include "ir/op.h"

#include <stdio.h>
#include <string.h>

static void print_sources(FILE *to, const tk_op_info *op) {
    if (op->max_src == TK_MANY)
        fprintf(to, "%u..", op->min_src);
    else if (op->max_src == op->min_src)
        fprintf(to, "%u", op->min_src);
    else
        fprintf(to, "%u..%u", op->min_src, op->max_src);
}

static const char *operands(const tk_op_info *op) {
    static const char *const names[] = {
        "",     "integers",       "floats",       "integers, floats",
        "bool", "integers, bool", "floats, bool", "all"};
    return names[op->dom];
}

static const char *result(const tk_op_info *op) {
    static const char *const names[] = {
        [TK_RESULT_GIVEN] = "as given", [TK_RESULT_VOID] = "void",
        [TK_RESULT_S0] = "of source 0", [TK_RESULT_S1] = "of source 1",
        [TK_RESULT_S2] = "of source 2", [TK_RESULT_BOOL] = "bool",
        [TK_RESULT_INDEX] = "index",    [TK_RESULT_U8] = "u8"};
    return names[op->result];
}

static void print_attr(FILE *to, const tk_attr_info *attr) {
    static const char *const kinds[] = {[TK_ATTR_INT] = "int",
                                        [TK_ATTR_BOOL] = "bool",
                                        [TK_ATTR_STR] = "string",
                                        [TK_ATTR_INTS] = "list",
                                        [TK_ATTR_BYTES] = "bytes"};
    fprintf(to, "%s: ", attr->key);
    if (attr->kind >= TK_ATTR_SPACE)
        for (int64_t i = 0; tk_op_enum_text(attr->kind, i); i++)
            fprintf(to, "%s%s", i ? "/" : "", tk_op_enum_text(attr->kind, i));
    else
        fputs(kinds[attr->kind], to);
    if (attr->required)
        return;
    if (attr->kind >= TK_ATTR_SPACE)
        fprintf(to, " = %s", tk_op_enum_text(attr->kind, attr->def));
    else if (attr->kind == TK_ATTR_BOOL)
        fprintf(to, " = %s", attr->def ? "true" : "false");
    else if (attr->kind == TK_ATTR_INT && attr->def != INT64_MIN && attr->def != INT64_MAX)
        fprintf(to, " = %lld", (long long)attr->def);
    else
        fputs(" (optional)", to);
}

static void print_op(FILE *to, tk_op id) {
    const tk_op_info *op = tk_op_get(id);
    fprintf(to, "| `%s` | ", op->name);
    print_sources(to, op);
    fprintf(to, " | %s | %s | ", operands(op), result(op));
    if (op->flags)
        fprintf(to, "%s%s%s", op->flags & TK_FLAG_COMM ? "commutative" : "",
                op->flags == (TK_FLAG_COMM | TK_FLAG_ASSOC) ? ", " : "",
                op->flags & TK_FLAG_ASSOC ? "associative (not in floats)" : "");
    for (uint32_t i = 0; i < tk_op_n_attr(id); i++) {
        fputs(i ? "; " : "", to);
        print_attr(to, &tk_op_attrs[op->attr_first + i]);
    }
    fprintf(to, " | %s%s%s |\n", op->stages & TK_STAGE_T ? "T" : "",
            op->stages & TK_STAGE_K ? "K" : "", op->stages & TK_STAGE_P ? "P" : "");
}

static void print_table(FILE *to) {
    static const char *const classes[] = {[TK_CLASS_DEF] = "definition",
                                          [TK_CLASS_ALU1] = "elementwise, 1 operand",
                                          [TK_CLASS_ALU2] = "elementwise, 2 operands",
                                          [TK_CLASS_ALU3] = "elementwise, 3 operands",
                                          [TK_CLASS_MEM] = "memory and lanes",
                                          [TK_CLASS_CTRL] = "control and order",
                                          [TK_CLASS_MOVE] = "movement",
                                          [TK_CLASS_GRAPH] = "between kernels"};
    fputs("Stages: T tensor, K kernel, P program. An attribute without a default must be given.\n",
          to);
    for (int class = 0; class <= TK_CLASS_GRAPH; class ++) {
        fprintf(to,
                "\n### %s\n\n| op | sources | operands | dtype | attributes | stages |\n"
                "|---|---|---|---|---|---|\n",
                classes[class]);
        for (int id = 0; id < TK_OP_COUNT; id++)
            if ((int)tk_op_get((tk_op)id)->cls == class)
                print_op(to, (tk_op)id);
    }
}

int main(int argc, char **argv) {
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: ops_table [FILE]\n");
        return 2;
    }
    if (argc < 2) {
        print_table(stdout);
        return 0;
    }
    FILE *f = fopen(argv[1], "r");
    if (!f) {
        perror(argv[1]);
        return 2;
    }
    char line[4096];
    int inside = 0, found = 0;
    while (fgets(line, sizeof line, f)) {
        if (strcmp(line, "<!-- ops end -->\n") == 0)
            inside = 0;
        if (!inside)
            fputs(line, stdout);
        if (strcmp(line, "<!-- ops begin -->\n") == 0) {
            inside = found = 1;
            print_table(stdout);
        }
    }
    fclose(f);
    if (!found || inside) {
        fprintf(stderr, "%s: no lines \"<!-- ops begin -->\" and \"<!-- ops end -->\"\n", argv[1]);
        return 1;
    }
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
