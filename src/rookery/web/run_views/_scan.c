/* Finds a few metrics in lines of JSON, as runs write them. few_metrics.py says what for; without a C compiler it reads
 * the lines in Python. What is not plain (another kind of event, a value that is no number) is left to Python. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <locale.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#define MOST_KEYS 64
#define LONGEST_NUMBER 63
#define BACK 64 /* bytes by which a key may come earlier than in the line before */

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

typedef struct {
    const char *text;
    size_t size;
    size_t place; /* in the line before */
} Key;

static const char *found_in(const char *from, const char *until, const Key *key) {
    while ((size_t)(until - from) >= key->size) {
        const char *at = memchr(from, key->text[0], (size_t)(until - from) - key->size + 1);
        if (at == NULL) return NULL;
        if (memcmp(at, key->text, key->size) == 0) return at;
        from = at + 1;
    }
    return NULL;
}

/* Where the value of a key begins in a line, NULL if it has none. Lines of a run are alike: it is looked for first near
 * the place that it had in the line before. */
static const char *value_of(const char *line, const char *end, Key *key) {
    size_t size = (size_t)(end - line);
    const char *near = line + (key->place > BACK && key->place < size ? key->place - BACK : 0);
    const char *at = found_in(near, end, key);
    if (at == NULL && near > line) {
        size_t rest = (size_t)(end - near);
        at = found_in(line, near + (rest < key->size ? rest : key->size - 1), key);
    }
    if (at == NULL) return NULL;
    key->place = (size_t)(at - line);
    return at + key->size;
}

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

/* Where a number of JSON that begins at `text` ends, NULL if there is none; its value is written to `value`. */
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

#define STARTS(at, end, word) ((size_t)((end) - (at)) >= sizeof(word) - 1 && memcmp(at, word, sizeof(word) - 1) == 0)

/* The number behind a word, and where it ends; NULL if there is something else. */
#define READ(at, end, word, value) (STARTS(at, end, word) ? number((at) + sizeof(word) - 1, end, value) : NULL)

typedef struct {
    double *steps, *times;
    uint8_t *kinds;
    uint32_t *rows;
    double *values;
    Py_ssize_t most; /* lines that there is room for */
} Columns;

/* Append a line that ends with a newline at `end`; 0 if it is not plain. */
static int add_line(const char *line, const char *end, Key *keys, int count, uint8_t kinds[2], const Columns *out,
                    Py_ssize_t row, Py_ssize_t *counts) {
    double step, time, values[MOST_KEYS];
    const char *found[MOST_KEYS], *at;
    int evaluation = 0;
    if (end - line < 2 || end[-1] != '}' || memchr(line + 1, '{', (size_t)(end - line - 1))) return 0;
    if ((at = READ(line, end, "{\"kind\": \"progress\", \"step\": ", &step)) == NULL) {
        at = READ(line, end, "{\"kind\": \"evaluation\", \"step\": ", &step);
        evaluation = 1;
    }
    if (at == NULL || step >= 1e300 || step <= -1e300) return 0;
    if ((at = READ(at, end, ", \"time\": ", &time)) == NULL) return 0;
    for (int k = 0; k < count; k++) {
        found[k] = value_of(line, end, &keys[k]);
        if (found[k] != NULL && number(found[k], end, &values[k]) == NULL) return 0;
    }
    out->steps[row] = step;
    out->times[row] = time;
    out->kinds[row] = kinds[evaluation];
    for (int k = 0; k < count; k++) {
        if (found[k] == NULL) continue;
        Py_ssize_t place = k * out->most + counts[k]++;
        out->rows[place] = (uint32_t)row;
        out->values[place] = values[k];
    }
    return 1;
}

/* Read plain lines from `from`; returns where the first that is not plain begins. */
static Py_ssize_t add_lines(const char *text, Py_ssize_t from, Py_ssize_t size, Key *keys, int count, uint8_t kinds[2],
                            const Columns *out, Py_ssize_t *rows, Py_ssize_t *counts) {
    while (from < size && *rows < out->most) {
        const char *line = text + from, *end = memchr(line, '\n', (size_t)(size - from));
        if (end == NULL || !add_line(line, end, keys, count, kinds, out, *rows, counts)) break;
        (*rows)++;
        from = end + 1 - text;
    }
    return from;
}

static int is_room(const Py_buffer *arrays, Py_ssize_t most, Py_ssize_t count) {
    return arrays[1].len >= most * 8 && arrays[2].len >= most && arrays[3].len >= most * count * 4
           && arrays[4].len >= most * count * 8;
}

PyDoc_STRVAR(scan_doc, "scan(lines, start, keys, (progress, evaluation), steps, times, kinds, rows, values)\n\n"
                       "Read plain lines of metrics from `start` into columns. `keys` are texts such as b'\"loss\": '.\n"
                       "Returns where it stopped, the number of lines, and that of the values of each key.");

static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer lines, arrays[5];
    Py_ssize_t start, rows = 0, counts[MOST_KEYS] = {0};
    PyObject *names, *result = NULL;
    Key keys[MOST_KEYS];
    uint8_t kinds[2];
    if (!PyArg_ParseTuple(args, "y*nO!(bb)w*w*w*w*w*", &lines, &start, &PyTuple_Type, &names, &kinds[0], &kinds[1],
                          &arrays[0], &arrays[1], &arrays[2], &arrays[3], &arrays[4]))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names), most = arrays[0].len / 8;
    if (count > MOST_KEYS || start < 0 || !is_room(arrays, most, count)) {
        PyErr_SetString(PyExc_ValueError, "scan() was given too many keys, a negative place, or too short columns");
        goto done;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *key = PyTuple_GET_ITEM(names, k);
        if (!PyBytes_Check(key) || PyBytes_GET_SIZE(key) == 0) {
            PyErr_SetString(PyExc_TypeError, "a key should be bytes, and not empty");
            goto done;
        }
        keys[k] = (Key){PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key), 0};
    }
    Columns out = {arrays[0].buf, arrays[1].buf, arrays[2].buf, arrays[3].buf, arrays[4].buf, most};
    Py_ssize_t end;
    Py_BEGIN_ALLOW_THREADS
    end = add_lines(lines.buf, start, lines.len, keys, (int)count, kinds, &out, &rows, counts);
    Py_END_ALLOW_THREADS
    PyObject *found = PyTuple_New(count);
    for (Py_ssize_t k = 0; found != NULL && k < count; k++) {
        PyObject *number = PyLong_FromSsize_t(counts[k]);
        if (number == NULL) Py_CLEAR(found);
        else PyTuple_SET_ITEM(found, k, number);
    }
    if (found != NULL) result = Py_BuildValue("nnN", end, rows, found);
done:
    PyBuffer_Release(&lines);
    for (int k = 0; k < 5; k++) PyBuffer_Release(&arrays[k]);
    return result;
}

#define MOST_NAMES 256

typedef struct {
    const char *text; /* in the lines */
    size_t size;
    Py_ssize_t count;
} Name;

typedef struct {
    Name of[MOST_NAMES];
    int known;
    int in_line[MOST_NAMES]; /* those of the line that is read */
    int count;
} Names;

static int place_of(const Names *names, const char *text, size_t size, int likely) {
    for (int tried = 0; tried < names->known; tried++) {
        int at = (likely + tried) % names->known;
        if (names->of[at].size == size && memcmp(names->of[at].text, text, size) == 0) return at;
    }
    return names->known;
}

/* Note a name of the line. Lines are alike: it is most likely the one after the name before. 0 if there are too many. */
static int add_name(Names *names, const char *text, size_t size) {
    int likely = names->count ? names->in_line[names->count - 1] + 1 : 0, at = place_of(names, text, size, likely);
    if (at == MOST_NAMES || names->count == MOST_NAMES) return 0;
    if (at == names->known) names->of[names->known++] = (Name){text, size, 0};
    names->in_line[names->count++] = at;
    return 1;
}

/* Where a text without escapes ends that begins after a quote at `at`; NULL if it has some. */
static const char *text_end(const char *at, const char *end) {
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= ' ') at++;
    return at < end && *at == '"' ? at : NULL;
}

/* Where a word or a text at `at` ends, which is no value of a metric; NULL if there is something else. */
static const char *other_end(const char *at, const char *end) {
    if (STARTS(at, end, "true") || STARTS(at, end, "null")) return at + 4;
    if (STARTS(at, end, "false")) return at + 5;
    const char *last = at < end && *at == '"' ? text_end(at + 1, end) : NULL;
    return last == NULL ? NULL : last + 1;
}

/* Note the metrics of a line that ends with a newline at `end`; 0 if it is not plain. */
static int add_names(const char *line, const char *end, Names *names) {
    double ignored;
    const char *at;
    names->count = 0;
    if ((at = READ(line, end, "{\"kind\": \"progress\", \"step\": ", &ignored)) == NULL)
        at = READ(line, end, "{\"kind\": \"evaluation\", \"step\": ", &ignored);
    if (at == NULL || ignored >= 1e300 || ignored <= -1e300) return 0;
    if ((at = READ(at, end, ", \"time\": ", &ignored)) == NULL) return 0;
    while (STARTS(at, end, ", \"")) {
        const char *name = at + 3, *last = text_end(name, end);
        if (last == NULL || !STARTS(last, end, "\": ")) return 0;
        if ((at = number(last + 3, end, &ignored)) != NULL) {
            if (!add_name(names, name, (size_t)(last - name))) return 0;
        } else if ((at = other_end(last + 3, end)) == NULL) return 0;
    }
    return at + 1 == end && *at == '}';
}

/* Count the names in plain lines from `from`; returns where the first that is not plain begins. */
static Py_ssize_t add_all_names(const char *text, Py_ssize_t from, Py_ssize_t size, Names *names) {
    while (from < size) {
        const char *line = text + from, *end = memchr(line, '\n', (size_t)(size - from));
        if (end == NULL || !add_names(line, end, names)) break;
        for (int k = 0; k < names->count; k++) names->of[names->in_line[k]].count++;
        from = end + 1 - text;
    }
    return from;
}

PyDoc_STRVAR(names_doc, "names(lines, start)\n\n"
                        "Count the metrics in plain lines from `start`. Returns where it stopped, and [(name, count)].");

static PyObject *names(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer lines;
    Py_ssize_t start, end;
    Names found = {.known = 0};
    if (!PyArg_ParseTuple(args, "y*n", &lines, &start)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    end = add_all_names(lines.buf, start < 0 ? lines.len : start, lines.len, &found);
    Py_END_ALLOW_THREADS
    PyObject *counts = PyList_New(0);
    for (int k = 0; counts != NULL && k < found.known; k++) {
        Name name = found.of[k];
        PyObject *pair = Py_BuildValue("s#n", name.text, (Py_ssize_t)name.size, name.count);
        if (pair == NULL || PyList_Append(counts, pair) < 0) Py_CLEAR(counts);
        Py_XDECREF(pair);
    }
    PyBuffer_Release(&lines);
    return counts == NULL ? NULL : Py_BuildValue("nN", end, counts);
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS, scan_doc},
    {"names", names, METH_VARARGS, names_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_scan", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__scan(void) {
    if (!make_locale()) return PyErr_NoMemory();
    make_fives();
    return PyModule_Create(&definition);
}
