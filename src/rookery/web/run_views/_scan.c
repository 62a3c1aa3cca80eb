/* Finds a few metrics in lines of JSON, as runs write them. few_metrics.py says what for; without a C compiler it reads
 * the lines in Python. What is not plain (objects and lists in an event, a resume, a metric that is no number) is left to
 * Python. */

#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "_numbers.h"

#define MOST_KEYS 64
#define BACK 64 /* bytes by which a key may come earlier than in the line before */

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

#define STARTS(at, end, word) ((size_t)((end) - (at)) >= sizeof(word) - 1 && memcmp(at, word, sizeof(word) - 1) == 0)

/* The number behind a word, and where it ends; NULL if there is something else. */
#define READ(at, end, word, value) (STARTS(at, end, word) ? number((at) + sizeof(word) - 1, end, value) : NULL)

/* Where a text of ASCII without escapes ends that begins after a quote at `at`; NULL if it is another one. */
static const char *text_end(const char *at, const char *end) {
    while (at < end && *at != '"' && *at != '\\' && *at >= ' ' && *at <= '~') at++;
    return at < end && *at == '"' ? at : NULL;
}

/* Where a word or a text at `at` ends, which is no value of a metric; NULL if there is something else. */
static const char *other_end(const char *at, const char *end) {
    if (STARTS(at, end, "true") || STARTS(at, end, "null")) return at + 4;
    if (STARTS(at, end, "false")) return at + 5;
    const char *last = at < end && *at == '"' ? text_end(at + 1, end) : NULL;
    return last == NULL ? NULL : last + 1;
}

/* What an event begins with. The kinds are as in metric_chunk.py. */
enum { OTHER, START, PROGRESS, EVALUATION };

typedef struct {
    uint8_t kind;
    double step, time;
} Head;

static uint8_t kind_of(const char *word, const char *end) {
    if (STARTS(word, end, "progress\"")) return PROGRESS;
    if (STARTS(word, end, "evaluation\"")) return EVALUATION;
    return STARTS(word, end, "start\"") ? START : OTHER;
}

/* Read the beginning of a line; returns where it ends, NULL if it is not plain. */
static const char *read_head(const char *line, const char *end, Head *head) {
    if (!STARTS(line, end, "{\"kind\": \"")) return NULL;
    const char *word = line + sizeof("{\"kind\": \"") - 1, *at = text_end(word, end);
    if (at == NULL || (at = READ(at, end, "\", \"step\": ", &head->step)) == NULL) return NULL;
    if (head->step >= 1e300 || head->step <= -1e300) return NULL;
    head->kind = kind_of(word, end);
    return READ(at, end, ", \"time\": ", &head->time);
}

typedef struct {
    const char *name;
    size_t size;
    int is_number;
} Pair;

/* Read a name and its value at `at`, with the comma before them; returns where they end, NULL if they are not plain. */
static const char *read_pair(const char *at, const char *end, Pair *pair) {
    if (!STARTS(at, end, ", \"")) return NULL;
    const char *last = text_end(at + 3, end), *after;
    if (last == NULL || !STARTS(last, end, "\": ")) return NULL;
    pair->name = at + 3;
    pair->size = (size_t)(last - pair->name);
    after = number(last + 3, end, NULL);
    pair->is_number = after != NULL;
    return after != NULL ? after : other_end(last + 3, end);
}

#define IS_NAMED(pair, word) ((pair).size == sizeof(word) - 1 && memcmp((pair).name, word, sizeof(word) - 1) == 0)

/* Whether the rest of an event without metrics is plain: it is decoded no further. A resume is Python's. */
static int is_plain_rest(const char *at, const char *end) {
    Pair pair;
    while (at < end && *at != '}') {
        if ((at = read_pair(at, end, &pair)) == NULL || (pair.is_number && IS_NAMED(pair, "resumed_from"))) return 0;
    }
    return at + 1 == end;
}

typedef struct {
    double *steps, *times;
    uint8_t *kinds;
    uint32_t *rows;
    double *values;
    Py_ssize_t most; /* lines that there is room for */
} Columns;

/* Append the metrics of a row; 0 if they are not plain. */
static int add_metrics(const char *line, const char *end, Key *keys, int count, const Columns *out, Py_ssize_t row,
                       Py_ssize_t *counts) {
    double values[MOST_KEYS];
    const char *found[MOST_KEYS];
    if (end[-1] != '}' || memchr(line + 1, '{', (size_t)(end - line - 1))) return 0;
    for (int k = 0; k < count; k++) {
        found[k] = value_of(line, end, &keys[k]);
        if (found[k] != NULL && number(found[k], end, &values[k]) == NULL) return 0;
    }
    for (int k = 0; k < count; k++) {
        if (found[k] == NULL) continue;
        Py_ssize_t place = k * out->most + counts[k]++;
        out->rows[place] = (uint32_t)row;
        out->values[place] = values[k];
    }
    return 1;
}

/* Append a line that ends with a newline at `end`; 0 if it is not plain. */
static int add_line(const char *line, const char *end, Key *keys, int count, const Columns *out, Py_ssize_t row,
                    Py_ssize_t *counts) {
    Head head;
    const char *at = read_head(line, end, &head);
    if (at == NULL) return 0;
    int has_metrics = head.kind == PROGRESS || head.kind == EVALUATION;
    if (!(has_metrics ? add_metrics(line, end, keys, count, out, row, counts) : is_plain_rest(at, end))) return 0;
    out->steps[row] = head.step;
    out->times[row] = head.time;
    out->kinds[row] = head.kind;
    return 1;
}

/* Read plain lines from `from`; returns where the first that is not plain begins. */
static Py_ssize_t add_lines(const char *text, Py_ssize_t from, Py_ssize_t size, Key *keys, int count,
                            const Columns *out, Py_ssize_t *rows, Py_ssize_t *counts) {
    while (from < size && *rows < out->most) {
        const char *line = text + from, *end = memchr(line, '\n', (size_t)(size - from));
        if (end == NULL || !add_line(line, end, keys, count, out, *rows, counts)) break;
        (*rows)++;
        from = end + 1 - text;
    }
    return from;
}

static int is_room(const Py_buffer *arrays, Py_ssize_t most, Py_ssize_t count) {
    return arrays[1].len >= most * 8 && arrays[2].len >= most && arrays[3].len >= most * count * 4
           && arrays[4].len >= most * count * 8;
}

/* The keys in a tuple of bytes; 0 and an exception if they are something else. */
static int make_keys(PyObject *texts, Key *keys) {
    if (PyTuple_GET_SIZE(texts) > MOST_KEYS) {
        PyErr_Format(PyExc_ValueError, "there should be at most %d keys", MOST_KEYS);
        return 0;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(texts); k++) {
        PyObject *key = PyTuple_GET_ITEM(texts, k);
        if (!PyBytes_Check(key) || PyBytes_GET_SIZE(key) == 0) {
            PyErr_SetString(PyExc_TypeError, "a key should be bytes, and not empty");
            return 0;
        }
        keys[k] = (Key){PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key), 0};
    }
    return 1;
}

static PyObject *counts_of(const Py_ssize_t *counts, Py_ssize_t count) {
    PyObject *found = PyTuple_New(count);
    for (Py_ssize_t k = 0; found != NULL && k < count; k++) {
        PyObject *number = PyLong_FromSsize_t(counts[k]);
        if (number == NULL) Py_CLEAR(found);
        else PyTuple_SET_ITEM(found, k, number);
    }
    return found;
}

PyDoc_STRVAR(columns_doc, "columns(lines, start, keys, steps, times, kinds, rows, values)\n\n"
                       "Read plain lines of metrics from `start` into columns. `keys` are texts such as b'\"loss\": '.\n"
                       "Returns where it stopped, the number of lines, and that of the values of each key.");

static PyObject *columns(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer lines, arrays[5];
    Py_ssize_t start, rows = 0, counts[MOST_KEYS] = {0};
    PyObject *names, *result = NULL;
    Key keys[MOST_KEYS];
    if (!PyArg_ParseTuple(args, "y*nO!w*w*w*w*w*", &lines, &start, &PyTuple_Type, &names, &arrays[0], &arrays[1],
                          &arrays[2], &arrays[3], &arrays[4]))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names), most = arrays[0].len / 8;
    if (!make_keys(names, keys)) goto done;
    if (start < 0 || !is_room(arrays, most, count)) {
        PyErr_SetString(PyExc_ValueError, "columns() was given a negative place, or too short columns");
        goto done;
    }
    Columns out = {arrays[0].buf, arrays[1].buf, arrays[2].buf, arrays[3].buf, arrays[4].buf, most};
    Py_ssize_t end;
    Py_BEGIN_ALLOW_THREADS
    end = add_lines(lines.buf, start, lines.len, keys, (int)count, &out, &rows, counts);
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("nnN", end, rows, counts_of(counts, count));
done:
    PyBuffer_Release(&lines);
    for (int k = 0; k < 5; k++) PyBuffer_Release(&arrays[k]);
    return result;
}

#ifndef _WIN32
#define SHORTEST_LINE 35 /* {"kind": "", "step": 1, "time": 1} and a newline */
#define TAIL 4096 /* as column_cache.CHECKED: bytes by which a replaced file is noticed */

/* A few metrics of a file as far as its lines are plain: their columns, and the bytes before their end. */
typedef struct {
    char *columns, *tail;
    Py_ssize_t size, tail_size, end, rows, counts[MOST_KEYS];
    uint64_t inode;
} ReadFile;

/* The contents of a regular file of at most `most` bytes; returns their number, -1 if it is none. */
static Py_ssize_t read_plain(const char *path, char *buffer, size_t most, uint64_t *inode) {
    struct stat facts = {0};
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return -1;
    int is_good = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && (size_t)facts.st_size <= most;
    size_t size = 0, whole = is_good ? (size_t)facts.st_size : 0;
    ssize_t got = 1;
    for (; got > 0 && size < whole; size += got > 0 ? (size_t)got : 0) got = read(file, buffer + size, whole - size);
    close(file);
    *inode = (uint64_t)facts.st_ino;
    return is_good && got >= 0 ? (Py_ssize_t)size : -1;
}

static char *add_bytes(char *to, const void *from, Py_ssize_t size) {
    memcpy(to, from, (size_t)size);
    return to + size;
}

/* Keep the columns without the room between them: steps, times, values of each key, their rows, kinds. */
static void keep_columns(const Columns *room, int count, ReadFile *found) {
    Py_ssize_t rows = found->rows, values = 0;
    for (int k = 0; k < count; k++) values += found->counts[k];
    found->size = 17 * rows + 12 * values;
    char *at = found->columns = malloc((size_t)found->size + 1);
    if (at == NULL) return;
    at = add_bytes(add_bytes(at, room->steps, 8 * rows), room->times, 8 * rows);
    for (int k = 0; k < count; k++) at = add_bytes(at, room->values + k * room->most, 8 * found->counts[k]);
    for (int k = 0; k < count; k++) at = add_bytes(at, room->rows + k * room->most, 4 * found->counts[k]);
    add_bytes(at, room->kinds, rows);
}

static void read_one(const char *path, Key *keys, int count, char *buffer, size_t most, const Columns *room,
                     ReadFile *found) {
    Py_ssize_t size = read_plain(path, buffer, most, &found->inode);
    if (size < 0) return;
    found->end = add_lines(buffer, 0, size, keys, count, room, &found->rows, found->counts);
    found->tail_size = found->end < TAIL ? found->end : TAIL;
    if ((found->tail = malloc(TAIL)) == NULL) return;
    add_bytes(found->tail, buffer + found->end - found->tail_size, found->tail_size);
    keep_columns(room, count, found);
}

/* Read all files; without memory, none. */
static void read_all(const char **paths, Py_ssize_t files, Key *keys, int count, size_t most, ReadFile *found) {
    size_t lines = most / SHORTEST_LINE + 1;
    char *buffer = malloc(most + 1), *columns = malloc(lines * (size_t)(17 + 12 * count));
    if (buffer != NULL && columns != NULL) {
        double *steps = (double *)columns, *times = steps + lines, *values = times + lines;
        uint32_t *rows = (uint32_t *)(values + lines * (size_t)count);
        Columns room = {steps, times, (uint8_t *)(rows + lines * (size_t)count), rows, values, (Py_ssize_t)lines};
        for (Py_ssize_t k = 0; k < files; k++) read_one(paths[k], keys, count, buffer, most, &room, &found[k]);
    }
    free(buffer);
    free(columns);
}

static PyObject *as_tuple(const ReadFile *file, Py_ssize_t count) {
    if (file->columns == NULL) Py_RETURN_NONE;
    return Py_BuildValue("Kny#nNy#", (unsigned long long)file->inode, file->end, file->tail, file->tail_size, file->rows,
                         counts_of(file->counts, count), file->columns, file->size);
}

PyDoc_STRVAR(files_doc, "files(paths, keys, most)\n\n"
                        "Read plain lines of metrics of the files of at most `most` bytes, without the interpreter. Returns\n"
                        "for each file None, or its inode, where it stopped, up to 4096 bytes before that, the number of\n"
                        "lines, that of the values of each key, and the columns: steps, times, values, rows, kinds.");

static PyObject *files(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *names, *texts, *result = NULL;
    Py_ssize_t most;
    Key keys[MOST_KEYS];
    if (!PyArg_ParseTuple(args, "O!O!n", &PyTuple_Type, &names, &PyTuple_Type, &texts, &most)) return NULL;
    if (!make_keys(texts, keys)) return NULL;
    Py_ssize_t files = PyTuple_GET_SIZE(names), count = PyTuple_GET_SIZE(texts);
    const char **paths = calloc((size_t)files + 1, sizeof *paths);
    ReadFile *found = calloc((size_t)files + 1, sizeof *found);
    if (paths == NULL || found == NULL || most < 0) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t k = 0; k < files; k++) {
        if ((paths[k] = PyBytes_AsString(PyTuple_GET_ITEM(names, k))) == NULL) goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    read_all(paths, files, keys, (int)count, (size_t)most, found);
    Py_END_ALLOW_THREADS
    result = PyList_New(files);
    for (Py_ssize_t k = 0; result != NULL && k < files; k++) {
        PyObject *one = as_tuple(&found[k], count);
        if (one == NULL) Py_CLEAR(result);
        else PyList_SET_ITEM(result, k, one);
    }
done:
    for (Py_ssize_t k = 0; found != NULL && k < files; k++) {
        free(found[k].columns);
        free(found[k].tail);
    }
    free(found);
    free((void *)paths);
    return result;
}
#endif

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

/* Note the metrics of a line that ends with a newline at `end`; 0 if it is not plain. */
static int add_names(const char *line, const char *end, Names *names) {
    Head head;
    Pair pair;
    const char *at = read_head(line, end, &head);
    names->count = 0;
    if (at == NULL) return 0;
    if (head.kind != PROGRESS && head.kind != EVALUATION) return is_plain_rest(at, end);
    while (at < end && *at != '}') {
        if ((at = read_pair(at, end, &pair)) == NULL) return 0;
        if (pair.is_number && !add_name(names, pair.name, pair.size)) return 0;
    }
    return at + 1 == end;
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
    {"columns", columns, METH_VARARGS, columns_doc},
    {"names", names, METH_VARARGS, names_doc},
#ifndef _WIN32
    {"files", files, METH_VARARGS, files_doc},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_scan", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__scan(void) {
    if (!make_locale()) return PyErr_NoMemory();
    make_fives();
    return PyModule_Create(&definition);
}
