/* What is done to each frame of an Atari game, compiled. screen.py has the same in Python and documents it; this file
 * only has to be fast. Most rows of a screen equal the row above, so that nothing is computed for them. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Products are rounded before they are added or not, as OpenCV is compiled on this processor. */
#if defined(__aarch64__)
#define ADD_PRODUCT(sum, a, b) fmaf(a, b, sum)
#else
#define ADD_PRODUCT(sum, a, b) ((sum) + (a) * (b))
#endif

#define MOST_BUFFERS 6
#define MOST_WIDTH 1024

static void release(Py_buffer *buffers, int count) {
    while (count > 0) PyBuffer_Release(&buffers[--count]);
}

/* The buffers of all arguments; 0 with an error set. The one numbered `written` is writable. */
static int get_buffers(PyObject *const *args, Py_buffer *buffers, int count, int written) {
    for (int k = 0; k < count; k++) {
        int flags = PyBUF_ND | PyBUF_C_CONTIGUOUS | (k == written ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(args[k], &buffers[k], flags) < 0) {
            release(buffers, k);
            return 0;
        }
    }
    return 1;
}

static PyObject *wrong(const char *signature) {
    PyErr_Format(PyExc_ValueError, "%s: arguments do not fit each other", signature);
    return NULL;
}

static PyObject *colour(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    const char *signature = "colour(screen, palette, picture)";
    Py_buffer b[MOST_BUFFERS];
    if (count != 3) return wrong(signature);
    if (!get_buffers(args, b, 3, 2)) return NULL;
    if (b[0].ndim != 2 || b[0].itemsize != 1 || b[1].len != 256 * 2 || b[2].len != b[0].len) {
        release(b, 3);
        return wrong(signature);
    }
    const uint8_t *screen = b[0].buf;
    const int16_t *palette = b[1].buf;
    uint8_t *picture = b[2].buf;
    Py_ssize_t height = b[0].shape[0], width = b[0].shape[1];
    int16_t unknown = 0;
    for (Py_ssize_t y = 0; y < height && unknown >= 0; y++, screen += width, picture += width) {
        if (y > 0 && memcmp(screen, screen - width, (size_t)width) == 0) {
            memcpy(picture, picture - width, (size_t)width);
            continue;
        }
        for (Py_ssize_t x = 0; x < width; x++) {
            int16_t shade = palette[screen[x]];
            unknown |= shade;
            picture[x] = (uint8_t)shade;
        }
    }
    release(b, 3);
    return PyBool_FromLong(unknown >= 0);
}

/* One row of pixels as averages over its parts, each rounded to a float. */
static void shrink_row(const uint8_t *row, const int32_t *index, const float *weight, Py_ssize_t parts, Py_ssize_t taps,
                       float *sums) {
    for (Py_ssize_t x = 0; x < parts; x++) {
        float sum = 0.0f;
        for (Py_ssize_t k = 0; k < taps; k++, index++, weight++) sum = ADD_PRODUCT(sum, (float)row[*index], *weight);
        sums[x] = sum;
    }
}

static int fits(const Py_buffer *index, const Py_buffer *weight, Py_ssize_t parts, Py_ssize_t length) {
    if (index->ndim != 2 || weight->ndim != 2 || index->itemsize != 4 || weight->itemsize != 4) return 0;
    if (index->shape[0] != parts || weight->len != index->len) return 0;
    const int32_t *numbers = index->buf;
    for (Py_ssize_t k = 0; k < index->len / 4; k++)
        if (numbers[k] < 0 || numbers[k] >= length) return 0;
    return 1;
}

static PyObject *shrink(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    const char *signature = "shrink(picture, columns, column_weights, rows, row_weights, small)";
    Py_buffer b[MOST_BUFFERS];
    if (count != 6) return wrong(signature);
    if (!get_buffers(args, b, 6, 5)) return NULL;
    int good = b[0].ndim == 2 && b[5].ndim == 2 && b[0].itemsize == 1 && b[5].itemsize == 1;
    good = good && b[5].shape[1] <= MOST_WIDTH && fits(&b[1], &b[2], b[5].shape[1], b[0].shape[1]);
    if (!good || !fits(&b[3], &b[4], b[5].shape[0], b[0].shape[0])) {
        release(b, 6);
        return wrong(signature);
    }
    Py_ssize_t source_width = b[0].shape[1], height = b[5].shape[0], width = b[5].shape[1];
    Py_ssize_t taps = b[1].shape[1], row_taps = b[3].shape[1];
    const int32_t *rows = b[3].buf;
    const float *row_weights = b[4].buf;
    uint8_t *small = b[5].buf;
    const uint8_t *done = NULL; /* the row that `shrunk` was made from */
    float shrunk[MOST_WIDTH], sums[MOST_WIDTH];
    for (Py_ssize_t y = 0; y < height; y++, small += width) {
        for (Py_ssize_t k = 0; k < row_taps; k++, rows++, row_weights++) {
            const uint8_t *row = (const uint8_t *)b[0].buf + *rows * source_width;
            if (done == NULL || (row != done && memcmp(row, done, (size_t)source_width) != 0))
                shrink_row(row, b[1].buf, b[2].buf, width, taps, shrunk);
            done = row;
            float weight = *row_weights;
            if (k == 0)
                for (Py_ssize_t x = 0; x < width; x++) sums[x] = weight * shrunk[x];
            else
                for (Py_ssize_t x = 0; x < width; x++) sums[x] = ADD_PRODUCT(sums[x], weight, shrunk[x]);
        }
        for (Py_ssize_t x = 0; x < width; x++) small[x] = (uint8_t)nearbyintf(sums[x]);
    }
    release(b, 6);
    Py_RETURN_NONE;
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {METHOD(colour), METHOD(shrink), {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_screen", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__screen(void) { return PyModule_Create(&module); }
