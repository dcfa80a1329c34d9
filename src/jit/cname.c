/* SPDX-License-Identifier: MIT
 *
 * Lists of words, and rules where the standards have one. Sources: C11 6.4.1, 7 and 7.1.3, C++20
 * [lex.key], and what the headers <stddef.h>, <stdint.h> and <string.h> of glibc declare.
 */
#include "jit/cname.h"

#include <stddef.h>
#include <string.h>

/* Lists are words with one space before and behind each. */

/* Of C up to C23 (but those that begin with '_'), C++ up to C++26, and GNU C. */
static const char keywords[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl "
    "concept const const_cast consteval constexpr constinit continue contract_assert co_await "
    "co_return co_yield decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "restrict return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned "
    "using virtual void volatile while xor xor_eq char8_t char16_t char32_t wchar_t ";

/* Macros that headers or compilers define and that have small letters in them, or are one. */
static const char macros[] =
    " I NULL assert complex errno fpclassify i386 imaginary isfinite isgreater isgreaterequal "
    "isinf isless islessequal islessgreater isnan isnormal isunordered kill_dependency linux "
    "noreturn offsetof setjmp signbit stderr stdin stdout strdupa strndupa unix va_arg va_copy "
    "va_end va_start ";

/* What the code in the header calls. Types all end in "_t". */
static const char called[] = " memcpy memset ";

/* Functions of C11, and what else those three headers declare. */
static const char functions[] =
    " abort abs aligned_alloc asctime at_quick_exit atexit atof atoi atol atoll "
    "atomic_flag_clear atomic_flag_clear_explicit atomic_flag_test_and_set "
    "atomic_flag_test_and_set_explicit atomic_signal_fence atomic_thread_fence basename bcmp bcopy "
    "bsearch btowc bzero c16rtomb c32rtomb call_once calloc clearerr clock cnd_broadcast "
    "cnd_destroy cnd_init cnd_signal cnd_timedwait cnd_wait ctime difftime div exit "
    "explicit_bzero fclose feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feof "
    "feraiseexcept ferror fesetenv fesetexceptflag fesetround fetestexcept feupdateenv fflush ffs "
    "ffsl ffsll fgetc fgetpos fgets fgetwc fgetws fopen fprintf fputc fputs fputwc fputws fread "
    "free freopen fscanf fseek fsetpos ftell fwide fwprintf fwrite fwscanf getc getchar getenv "
    "getwc getwchar gmtime imaxabs imaxdiv index isalnum isalpha isblank iscntrl isdigit isgraph "
    "islower isprint ispunct isspace isupper iswalnum iswalpha iswblank iswcntrl iswctype "
    "iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit isxdigit labs ldiv "
    "llabs lldiv localeconv localtime longjmp malloc mblen mbrlen mbrtoc16 mbrtoc32 mbrtowc "
    "mbsinit mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memfrob memmem memmove mempcpy "
    "memrchr mktime mtx_destroy mtx_init mtx_lock mtx_timedlock mtx_trylock mtx_unlock perror "
    "printf putc putchar puts putwc putwchar qsort quick_exit raise rand rawmemchr realloc remove "
    "rename rewind rindex scanf setbuf setlocale setvbuf sigabbrev_np sigdescr_np signal snprintf "
    "sprintf srand sscanf stpcpy stpncpy strcasecmp strcasecmp_l strcasestr strcat strchr "
    "strchrnul strcmp strcoll strcoll_l strcpy strcspn strdup strerror strerror_l strerror_r "
    "strerrordesc_np strerrorname_np strfry strftime strlen strncasecmp strncasecmp_l strncat "
    "strncmp strncpy strndup strnlen strpbrk strrchr strsep strsignal strspn strstr strtod strtof "
    "strtoimax strtok strtok_r strtol strtold strtoll strtoul strtoull strtoumax strverscmp "
    "strxfrm strxfrm_l swprintf swscanf system thrd_create thrd_current thrd_detach thrd_equal "
    "thrd_exit thrd_join thrd_sleep thrd_yield time timespec_get tmpfile tmpnam tolower toupper "
    "towctrans towlower towupper tss_create tss_delete tss_get tss_set ungetc ungetwc vfprintf "
    "vfscanf vfwprintf vfwscanf vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf "
    "vwprintf vwscanf wcrtomb wcscat wcschr wcscmp wcscoll wcscpy wcscspn wcsftime wcslen wcsncat "
    "wcsncmp wcsncpy wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstoimax wcstok wcstol "
    "wcstold wcstoll wcstombs wcstoul wcstoull wcstoumax wcsxfrm wctob wctomb wctrans wctype "
    "wmemchr wmemcmp wmemcpy wmemmove wmemset wprintf wscanf ";

/* Functions of <math.h> and <complex.h>: of double; with 'f' and 'l' behind: of the others. */
static const char math[] =
    " acos acosh asin asinh atan atan2 atanh cabs cacos cacosh carg casin casinh catan catanh cbrt "
    "ccos ccosh ceil cexp cimag clog conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan "
    "ctanh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp "
    "lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter "
    "nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma "
    "trunc ";

/* Types of C11 that are no integers of a size, and of those headers. */
static const char types[] =
    " FILE clock_t constraint_handler_t div_t double_t errno_t fenv_t fexcept_t float_t fpos_t "
    "imaxdiv_t jmp_buf ldiv_t lldiv_t locale_t max_align_t mbstate_t nullptr_t ptrdiff_t rsize_t "
    "sig_atomic_t size_t time_t va_list wctrans_t wctype_t wint_t ";

/* Functions of libtolk that begin as names of kernels do. */
static const char api[] = " tolk_kernel_find tolk_kernel_name tolk_kernel_param "
                          "tolk_kernel_param_count tolk_kernel_param_dims ";

/* Is a word of n bytes, without a space in it, in a list? */
static bool in_list(const char *list, const char *word, size_t n) {
    for (const char *at = list; n && (at = strstr(at, word)) != NULL; at++)
        if (at > list && at[-1] == ' ' && at[n] == ' ')
            return true;
    return false;
}

static bool begins(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

static bool ends(const char *s, const char *with) {
    size_t n = strlen(s), m = strlen(with);
    return n >= m && strcmp(s + n - m, with) == 0;
}

static bool is_math(const char *s, size_t n) {
    if (in_list(math, s, n))
        return true;
    char base[16];
    if (n < 2 || n > sizeof base || (s[n - 1] != 'f' && s[n - 1] != 'l'))
        return false;
    memcpy(base, s, n - 1);
    base[n - 1] = 0;
    return in_list(math, base, n - 1);
}

/* int32_t, uint_fast8_t ...: C11 7.31.10 reserves all names of that form. */
static bool is_integer_type(const char *s) {
    return (begins(s, "int") || begins(s, "uint")) && ends(s, "_t");
}

/* INT32_MAX, INT64_C, SIZE_MAX ...: macros of <stdint.h>; C11 7.31.10, and C23 for WIDTH. */
static bool is_limit(const char *s) {
    static const char *const of[] = {"INT",         "UINT",   "PTRDIFF_", "SIZE_",
                                     "SIG_ATOMIC_", "WCHAR_", "WINT_"};
    if (!ends(s, "_MAX") && !ends(s, "_MIN") && !ends(s, "_WIDTH") && !ends(s, "_C"))
        return false;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (begins(s, of[i]))
            return true;
    return false;
}

/* slot4 and slot_4, which a parameter is called whose own name is none in C. */
static bool is_slot(const char *s) {
    if (!begins(s, "slot"))
        return false;
    s += s[4] == '_' ? 5 : 4;
    return *s && s[strspn(s, "0123456789")] == 0;
}

bool tk_cname_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool tk_cname_is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool tk_cname_is_identifier(const char *s) {
    if (!tk_cname_is_letter(*s))
        return false;
    while (tk_cname_is_letter(*s) || tk_cname_is_digit(*s))
        s++;
    return !*s;
}

const char *tk_cname_of_function(const char *s) {
    static const char *const underscored[] = {
        "_Alignas",      "_Alignof",   "_Atomic",    "_BitInt",     "_Bool",
        "_Complex",      "_Generic",   "_Imaginary", "_Noreturn",   "_Static_assert",
        "_Thread_local", "_Decimal32", "_Decimal64", "_Decimal128",
    };
    size_t n = strlen(s);
    for (size_t i = 0; i < sizeof underscored / sizeof *underscored; i++)
        if (strcmp(s, underscored[i]) == 0)
            return "a keyword of C or C++";
    if (in_list(keywords, s, n))
        return "a keyword of C or C++";
    if (s[0] == '_') /* C11 7.1.3: at file scope all of them, not only "__" and "_X" */
        return "reserved, as all that begin with _ are for C";
    if (strcmp(s, "main") == 0)
        return "the function that a C program starts with";
    if (in_list(macros, s, n) || is_limit(s))
        return "a macro of C's headers or compilers";
    if (in_list(called, s, n) || in_list(functions, s, n) || is_math(s, n))
        return "a function of the C library";
    if (in_list(types, s, n) || is_integer_type(s))
        return "a type of the C library";
    bool is_kernel = begins(s, "tolk_kernel"); /* as kernels are called without being asked */
    if (is_slot(s) || begins(s, "TOLK_") || in_list(api, s, n) ||
        (begins(s, "tolk_") && !is_kernel))
        return "a name of tolk or its header";
    return NULL;
}

bool tk_cname_can_be_parameter(const char *s) {
    size_t n = strlen(s);
    return !in_list(keywords, s, n) && !in_list(macros, s, n) && !in_list(called, s, n) &&
           s[0] != '_' && !is_limit(s) && !ends(s, "_t") && strcmp(s, "main") != 0 &&
           !begins(s, "tolk") && !begins(s, "slot");
}
