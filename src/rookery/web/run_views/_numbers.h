/* Numbers of JSON as doubles, rounded correctly, without Python: for _scan.c. */

#include <locale.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#define LONGEST_NUMBER 63

#ifndef __SIZEOF_INT128__
static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
#endif

/* Python's own conversion needs the interpreter's lock. This one rounds correctly too, whatever the user's locale. */
#ifdef _WIN32
static _locale_t plain_locale;
static int make_locale(void) { return (plain_locale = _create_locale(LC_ALL, "C")) != NULL; }
#define to_double(text, end) _strtod_l(text, end, plain_locale)
#else
static locale_t plain_locale;
static int make_locale(void) { return (plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)) != (locale_t)0; }
#define to_double(text, end) strtod_l(text, end, plain_locale)
#endif

#ifdef __SIZEOF_INT128__
#define MOST_DIGITS 19 /* that 64 bits can hold */
#define MOST_DECIMALS 27 /* whose power of five 63 bits can hold */

static uint64_t fives[MOST_DECIMALS + 1];

static void make_fives(void) {
    fives[0] = 1;
    for (int power = 1; power <= MOST_DECIMALS; power++) fives[power] = 5 * fives[power - 1];
}

static double power_of_two(int power) {
    uint64_t bits = (uint64_t)(power + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* whole / 10**decimals, rounded correctly: a division of integers with at least 64 bits of the quotient, and a remainder
 * that tells whether more follows. With `strtod` instead, reading one metric of 250 runs took a third more time. */
static double divided(uint64_t whole, int decimals) {
    if (whole == 0) return 0.0;
    int up = 64 + __builtin_clzll(whole);
    unsigned __int128 dividend = (unsigned __int128)whole << up, quotient = dividend / fives[decimals];
    int drop = 75 - __builtin_clzll((uint64_t)(quotient >> 64)); /* all but 53 bits */
    uint64_t kept = (uint64_t)(quotient >> drop);
    unsigned __int128 rest = quotient - ((unsigned __int128)kept << drop), half = (unsigned __int128)1 << (drop - 1);
    int is_more = rest > half || (rest == half && ((kept & 1) || quotient * fives[decimals] != dividend));
    return (double)(kept + (uint64_t)is_more) * power_of_two(drop - up - decimals);
}
#else
#define MOST_DIGITS 15 /* up to which one division is exact */
#define MOST_DECIMALS 22
#define make_fives() ((void)0)
#define divided(whole, decimals) ((double)(whole) / TENS[decimals])
#endif

/* The digits at `*at`, appended to `*whole`; returns how many there are. */
static ptrdiff_t add_digits(const char **at, const char *end, uint64_t *whole) {
    const char *digits = *at;
    while (*at < end && **at >= '0' && **at <= '9') *whole = *whole * 10 + (uint64_t)(*(*at)++ - '0');
    return *at - digits;
}

/* The exponent at `*at`, 0 if there is none; returns whether it is whole. */
static int read_exponent(const char **at, const char *end, int *exponent) {
    *exponent = 0;
    if (*at >= end || (**at != 'e' && **at != 'E')) return 1;
    (*at)++;
    int negative = *at < end && **at == '-';
    if (*at < end && (**at == '+' || **at == '-')) (*at)++;
    uint64_t size = 0;
    ptrdiff_t count = add_digits(at, end, &size);
    if (count > 3) size = 9999; /* more than any number has: `strtod` decides */
    *exponent = negative ? -(int)size : (int)size;
    return count > 0;
}

/* Where a number of JSON that begins at `text` ends, NULL if there is none; its value is written to `value`, unless that
 * is NULL. */
static const char *number(const char *text, const char *end, double *value) {
    const char *at = text;
    int negative = at < end && *at == '-', exponent;
    if (negative) at++;
    const char *digits = at;
    uint64_t whole = 0;
    ptrdiff_t count = add_digits(&at, end, &whole), decimals = 0;
    if (count == 0 || (count > 1 && *digits == '0')) return NULL;
    if (*digits == '0') count = 0; /* zeros before the first other digit are none of the value's */
    if (at < end && *at == '.') {
        const char *point = at++;
        while (count == 0 && at < end && *at == '0') at++;
        count += add_digits(&at, end, &whole);
        decimals = at - point - 1;
        if (decimals == 0) return NULL;
    }
    if (!read_exponent(&at, end, &exponent)) return NULL;
    if (at >= end || (*at != ',' && *at != '}')) return NULL;
    if (value == NULL) return at;
    if (count <= MOST_DIGITS && decimals - exponent >= 0 && decimals - exponent <= MOST_DECIMALS) {
        *value = divided(whole, (int)decimals - exponent);
        if (negative) *value = -*value;
        return at;
    }
    char copy[LONGEST_NUMBER + 1]; /* `to_double` reads until something else comes */
    size_t size = (size_t)(at - text);
    if (size > LONGEST_NUMBER) return NULL;
    memcpy(copy, text, size);
    copy[size] = 0;
    *value = to_double(copy, NULL);
    return at;
}
