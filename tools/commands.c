/* SPDX-License-Identifier: MIT
 *
 * The commands of tolk-jit and their help.
 */
#include "tool.h"

#include <string.h>

#define FILE_HELP                                                                                  \
    "  K.uop                  the kernel in text (docs/ir.md); - reads standard input\n"
#define SET_HELP "  --set VAR=N            value of a scalar parameter\n"
#define SHARED_HELP                                                                                \
    "  --shared-bytes N       bytes of the local buffer with dynamic=true, if there is one; 0\n"
#define KERNEL_HELP "  --kernel NAME          which one, of a file of several\n"
#define TRUSTED_HELP                                                                               \
    "  --trusted              the file may hold machine code (a program with a binary)\n"
#define TARGET_HELP                                                                                \
    "  --target CPU           compile for it: native (the default), x86-64, haswell,\n"            \
    "                         skylake-avx512 ..., and features behind: native,-avx512f\n"
#define GPU_HELP                                                                                   \
    "                         or a GPU: sm_75 (the default of ptx), sm_80, sm_86, sm_89,\n"        \
    "                         sm_90, sm_90a; behind it a higher version of PTX than that\n"        \
    "                         chip needs, sm_80,+ptx78, or the CUDA release of a driver\n"         \
    "                         that has to take it, sm_80,cuda11.4\n"
#define COMPILE_HELP                                                                               \
    "  --opts \"...\"           loop options as \"LANE:0:16 UPCAST:0:4\"; \"\": none; default: "   \
    "chosen\n"                                                                                     \
    "  --bounds check|trust   check accesses that are not proved (the default), or do not\n"       \
    "  --strict               keep the order of float sums that the kernel has\n"                  \
    "  --tier full|quick|auto how much work goes into the code (docs/environment.md)\n"
#define JSON_HELP                                                                                  \
    "  --json                 one line of JSON, for programs; an error is a line\n"                \
    "                         {\"error\": {\"exit\", \"status\", \"message\", \"file\", "          \
    "\"line\", \"column\"}}\n"                                                                     \
    "                         on standard output as well as the line on standard error\n"
#define NPY_HELP "NumPy has no bf16 and no fp8: in a .npy file their bits are uint16 and uint8.\n"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage;
    const char *help; /* a line for each flag */
} commands[] = {
    {"run", tk_cmd_run,
     "run K.uop --arg NAME=FILE.npy|NUMBER ... --out NAME=FILE.npy ... [--set VAR=N]\n"
     "      [--kernel NAME] [--device CPU[:N]|interp] [--target CPU]\n"
     "      [--global x,y,z] [--local x,y,z] [--opts \"...\"] [--bounds check|trust] [--strict]\n"
     "      [--tier full|quick|auto] [--shared-bytes N] [--repeat N] [--history] [--trusted] "
     "[--json]",
     FILE_HELP
     "  --arg NAME=FILE.npy    array of a buffer: its shape is that of the parameter; one\n"
     "                         dimension of as many elements does, too, as do dimensions of\n"
     "                         1 more or less and more elements at the end. A parameter of\n"
     "                         one dimension takes any array, in row-major order\n"
     "  --arg NAME=NUMBER      every element, or a scalar (also true, inf, nan, 0x1.8p+1)\n"
     "  --out NAME=FILE.npy    where a buffer goes after the run; others are shown in "
     "part\n" SET_HELP KERNEL_HELP "  --device CPU[:N]|interp\n"
     "                         run compiled code (the default) on that device, or the\n"
     "                         interpreter; TOLK_CPU_DEVICES says how many there are\n" TARGET_HELP
     "  --global x,y,z         values of the variables _grid_x, _grid_y, _grid_z\n"
     "  --local x,y,z          values of the variables _block_x, _block_y, "
     "_block_z\n" COMPILE_HELP SHARED_HELP
     "  --repeat N             run N times on the same inputs; the best and the median are "
     "shown\n"
     "  --history              what was compiled, and how long each phase "
     "took\n" TRUSTED_HELP JSON_HELP
     "A file that TOLK_REPRO made is compiled with the settings it holds, on random "
     "inputs.\n"
     "A linear of calls runs whole; with --kernel NAME, that kernel of it alone. NAME of\n"
     "--arg and --out is then a buffer's slot (1, or buffer1 and param1 where there are\n"
     "both), its own name, or that of the kernel parameters it stands for, if it is no\n"
     "other's. Whole, it takes no --global, --local, --shared-bytes, --history.\n" NPY_HELP},
    {"emit", tk_cmd_emit,
     "emit K.uop --emit=uop|opt|program|llvm|asm|obj|header|ptx|linear [--kernel NAME]\n"
     "      [--target CPU|GPU] [--opts \"...\"] [--bounds check|trust] [--strict]\n"
     "      [--tier full|quick] [--symbol NAME] [--header FILE] [--trusted] [-o FILE]",
     FILE_HELP
     "  --emit=uop             the canonical text of the kernel as it is given\n"
     "  --emit=opt             the same with its loop options applied\n"
     "  --emit=program         the straight list with explicit vectors\n"
     "  --emit=llvm|asm|obj    LLVM IR, assembly, object file\n"
     "  --emit=ptx             PTX for a GPU (docs/ptx.md)\n"
     "  --emit=linear          a linear of calls with its kernels compiled, for\n"
     "                         run --trusted\n"
     "  --emit=header          C header of the object, for programs that link it without "
     "tolk\n" KERNEL_HELP TARGET_HELP GPU_HELP COMPILE_HELP
     "  --symbol NAME          name of the function; default: tolk_kernel_ and the "
     "kernel's;\n"
     "                         in PTX: tolk_kernel\n"
     "  --header FILE          with --emit=obj or asm: write the C header, too\n" TRUSTED_HELP
     "  -o FILE                write there, not to standard output\n"},
    {"verify", tk_cmd_verify,
     "verify K.uop [--kernel NAME] [--device D ...] [--target CPU ...] [--opts \"...\"]\n"
     "      [--arg NAME=FILE.npy|NUMBER ...] [--set VAR=N ...] [--shared-bytes N] [--rounds N]\n"
     "      [--seed N] [--trusted] [--json]",
     FILE_HELP
     "  --kernel NAME          that one only; of a file of several, all are verified\n"
     "  --device D             compare the interpreter with D (several times: with each)\n"
     "  --target CPU           that target (several times: each); default: x86-64,\n"
     "                         haswell, skylake-avx512 as this machine can, and native\n"
     "  --opts \"...\"           loop options as in `run`; default: chosen\n"
     "  --bounds check|trust   as in `run`\n"
     "  --tier full|quick|auto as in `run`\n"
     "  --arg NAME=VALUE       as in `run`; what is not given is random\n" SET_HELP SHARED_HELP
     "  --rounds N             N rounds of random inputs; default: 2\n"
     "  --seed N               of the random inputs; default: 1\n" TRUSTED_HELP JSON_HELP NPY_HELP},
    {"fmt", tk_cmd_fmt, "fmt FILE ... [-i [--drop-comments]] [--check] [--trusted]",
     "  FILE                   kernels in text; - reads standard input\n"
     "  -i                     write the canonical text into the file; refused for one with\n"
     "                         comments, which have no place in that text\n"
     "  --drop-comments        with -i: delete them\n"
     "  --check                write nothing; name the files that are not exactly the canonical\n"
     "                         text (one with comments never is), and exit 1 if there are "
     "any\n" TRUSTED_HELP},
    {"devices", tk_cmd_devices, "devices [--json]", JSON_HELP},
    {"doctor", tk_cmd_doctor, "doctor [--json]", JSON_HELP},
    {"cache", tk_cmd_cache, "cache stats|clear [--json]",
     "  stats                  the directory of compiled kernels, how many, how large\n"
     "  clear                  delete them\n" JSON_HELP},
    {"version", tk_cmd_version, "version [--json]", JSON_HELP},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

void tk_command_usage(FILE *to) {
    fputs("usage:\n  tolk-jit                the prompt: these commands in one process, with names "
          "for "
          "arrays\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  tolk-jit %s\n", commands[i].usage);
    fputs("each command says more: tolk-jit COMMAND --help\n", to);
    fputs("exit: 0 done, 1 the work failed, 2 bad usage or input, 130 interrupted\n", to);
}

const char *tk_command_name(size_t i) {
    return i < N_COMMANDS ? commands[i].name : NULL;
}

const char *tk_command_help(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name))
            return commands[i].help;
    return NULL;
}

int tk_command_run(int argc, char **argv) {
    char known[256] = "";
    for (size_t i = 0, n = 0; i < N_COMMANDS; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", commands[i].name);
    const char *name = argv[1];
    tk_report_json(0);
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        tk_command_usage(stdout);
        return TOOL_DONE;
    }
    if (!strcmp(name, "--version"))
        name = "version";
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name))
            continue;
        for (int k = 2; k < argc && strcmp(argv[k], "--"); k++)
            if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) {
                printf("usage: tolk-jit %s\n%s", commands[i].usage, commands[i].help);
                return TOOL_DONE;
            }
        for (int k = 2; k < argc && strcmp(argv[k], "--"); k++)
            if (!strcmp(argv[k], "--json"))
                tk_report_json(1);
        return commands[i].run(argc, argv);
    }
    return tk_report_usage("unknown command '%.100s': expected %s%s", name, known,
                           tk_session_is_on() ? " or what `help` lists" : "");
}
