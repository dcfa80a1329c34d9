/* SPDX-License-Identifier: MIT
 *
 * main() of a fuzz target in builds without libFuzzer: gives it every file of the folders and files
 * named, then each file cut short at every length, or at 200 lengths when it is long.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_files, n_runs;

static int run_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, cap = 0, got;
    do {
        if (size == cap) {
            cap = cap ? 2 * cap : 4096;
            uint8_t *more = realloc(data, cap);
            if (!more) {
                free(data);
                fclose(f);
                fprintf(stderr, "%s: no memory\n", path);
                return 1;
            }
            data = more;
        }
        got = fread(data + size, 1, cap - size, f);
        size += got;
    } while (got);
    int bad = ferror(f);
    fclose(f);
    if (bad)
        fprintf(stderr, "%s: cannot be read\n", path);
    size_t step = 1 + size / 200;
    for (size_t cut = 0; !bad && cut < size; cut += step, n_runs++)
        LLVMFuzzerTestOneInput(data, cut);
    if (!bad)
        LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_files++;
    n_runs++;
    return bad;
}

static int run_path(const char *path) {
    struct stat st;
    if (stat(path, &st)) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return run_file(path);
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) {
        perror(path);
        return 1;
    }
    int bad = 0;
    for (int i = 0; i < n; i++) {
        char file[4096];
        if (names[i]->d_name[0] != '.') {
            int len = snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
            bad |= len < 0 || (size_t)len >= sizeof file || run_file(file);
        }
        free(names[i]);
    }
    free(names);
    return bad;
}

int main(int argc, char **argv) {
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= run_path(argv[i]);
    printf("%zu files, %zu inputs\n", n_files, n_runs);
    if (!n_files) {
        fprintf(stderr, "no corpus\n");
        return 1;
    }
    return bad;
}
