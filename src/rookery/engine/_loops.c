/* The engine's inner loops, compiled. plain_loops.py is the same in Python and documents each of them; this file only
 * has to be fast. What is not plain (an ended episode, an unusual type, an unknown info) is left to Python. */

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static int expect(Py_ssize_t given, Py_ssize_t wanted, const char *signature) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%s was given %zd arguments", signature, given);
    return 0;
}

/* --- words in shared memory ------------------------------------------------------------------------------------- */

static PyObject *fence(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    Py_RETURN_NONE;
}

/* The word `at` in a buffer of 64-bit integers, which the caller releases; NULL with an error set if there is none. */
static int64_t *word_of(PyObject *words, PyObject *at, Py_buffer *buffer) {
    Py_ssize_t index = PyLong_AsSsize_t(at);
    if (index == -1 && PyErr_Occurred()) return NULL;
    if (PyObject_GetBuffer(words, buffer, PyBUF_WRITABLE) < 0) return NULL;
    if (index >= 0 && index < buffer->len / (Py_ssize_t)sizeof(int64_t)) return (int64_t *)buffer->buf + index;
    PyBuffer_Release(buffer);
    PyErr_Format(PyExc_IndexError, "there is no word %zd", index);
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static PyObject *watch(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (!expect(count, 4, "watch(words, at, old, seconds)")) return NULL;
    int64_t old = PyLong_AsLongLong(args[2]);
    double seconds = PyFloat_AsDouble(args[3]);
    if (PyErr_Occurred()) return NULL;
    Py_buffer buffer;
    const int64_t *word = word_of(args[0], args[1], &buffer);
    if (word == NULL) return NULL;
    int changed = __atomic_load_n(word, __ATOMIC_ACQUIRE) != old;
    if (!changed) {
        Py_BEGIN_ALLOW_THREADS
        double until = now() + seconds;
        while (!changed && now() < until) {
            sched_yield();
            changed = __atomic_load_n(word, __ATOMIC_ACQUIRE) != old;
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&buffer);
    return PyBool_FromLong(changed);
}

/* --- stepping --------------------------------------------------------------------------------------------------- */

/* The exception that is set, which is cleared. */
static PyObject *raised(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
#endif
}

/* What one env's step returned or, if it raised, `caught(error)`. */
static PyObject *step_one(PyObject *call, PyObject *action, PyObject *caught) {
    PyObject *result = PyObject_CallOneArg(call, action);
    if (result != NULL) return result;
    PyObject *error = raised();
    result = PyObject_CallOneArg(caught, error);
    Py_DECREF(error);
    return result;
}

static PyObject *step_each(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (!expect(count, 7, "step_each(calls, actions, phases, words, at, first, caught)")) return NULL;
    PyObject *calls = args[0], *phases = args[2], *caught = args[6];
    if (!PyList_Check(calls) || !PyList_Check(phases) || PyList_GET_SIZE(calls) != PyList_GET_SIZE(phases)) {
        PyErr_SetString(PyExc_TypeError, "calls and phases should be lists of the same length");
        return NULL;
    }
    int64_t row = PyLong_AsLongLong(args[5]);
    if (row == -1 && PyErr_Occurred()) return NULL;
    PyObject *actions = PyObject_GetIter(args[1]);
    if (actions == NULL) return NULL;
    Py_buffer buffer;
    int64_t *word = word_of(args[3], args[4], &buffer);
    if (word == NULL) {
        Py_DECREF(actions);
        return NULL;
    }
    PyObject *results = PyList_New(0), *action;
    for (Py_ssize_t i = 0; results != NULL && i < PyList_GET_SIZE(calls) && (action = PyIter_Next(actions)); i++) {
        *word = row + i;
        PyObject *phase = PyList_GET_ITEM(phases, i), *call = PyList_GET_ITEM(calls, i), *result;
        if (PyLong_Check(phase) && PyLong_AsLong(phase) != 0) {
            result = Py_NewRef(Py_None);
        } else {
            Py_INCREF(call); /* an env may do anything while it is called */
            result = step_one(call, action, caught);
            Py_DECREF(call);
        }
        Py_DECREF(action);
        if (result == NULL || PyList_Append(results, result) < 0) Py_CLEAR(results);
        Py_XDECREF(result);
    }
    PyBuffer_Release(&buffer);
    Py_DECREF(actions);
    if (results != NULL && !PyErr_Occurred() && PyList_GET_SIZE(results) != PyList_GET_SIZE(calls))
        PyErr_SetString(PyExc_ValueError, "there are fewer actions than calls");
    if (PyErr_Occurred()) Py_CLEAR(results); /* the only sign that the iterator of actions raised */
    return results;
}

/* --- storing results -------------------------------------------------------------------------------------------- */

/* The `n` numbers of a memoryview, of one of the types `kinds`; NULL with an error set if it is something else. Its
 * buffer is released at once: nobody else can release the memoryview in the meantime, as `store` holds the GIL and calls no
 * Python code while it uses the pointer. A memoryview that was released before gives no buffer. */
static void *column_of(PyObject *object, const char *kinds, Py_ssize_t n) {
    Py_buffer view;
    if (PyMemoryView_Check(object) && PyObject_GetBuffer(object, &view, PyBUF_CONTIG | PyBUF_FORMAT) == 0) {
        int fits = view.ndim == 1 && view.shape[0] == n && view.format[0] != 0 && view.format[1] == 0
            && strchr(kinds, view.format[0]) != NULL;
        void *numbers = view.buf;
        PyBuffer_Release(&view);
        if (fits) return numbers;
    }
    PyErr_Format(PyExc_TypeError, "a column should be a memoryview of %zd numbers of type %s", n, kinds);
    return NULL;
}

static int is_false(PyObject *flag) {
    return flag == Py_False || (PyArray_IsScalar(flag, Bool) && !PyArrayScalar_VAL(flag, Bool));
}

/* A number of one of the usual types as a double; 0 if it does not fit. None of them runs Python code. */
static int as_double(PyObject *number, double *value) {
    if (PyFloat_Check(number)) {
        *value = PyFloat_AS_DOUBLE(number);
    } else if (PyLong_Check(number)) {
        *value = PyLong_AsDouble(number);
        if (*value == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
    } else if (PyArray_IsScalar(number, Float)) {
        *value = PyArrayScalar_VAL(number, Float);
    } else {
        return 0;
    }
    return 1;
}

static int as_int64(PyObject *number, int64_t *value) {
    int overflow = 0;
    if (PyLong_Check(number)) {
        *value = PyLong_AsLongLongAndOverflow(number, &overflow);
    } else if (PyArray_IsScalar(number, Int64)) {
        *value = PyArrayScalar_VAL(number, Int64);
    } else {
        return 0;
    }
    return !overflow;
}

/* Whether an array has the dtype and shape of a row, so that its bytes can be copied. */
static int fits(PyArrayObject *array, PyArrayObject *rows) {
    int ndim = PyArray_NDIM(rows) - 1;
    PyArray_Descr *mine = PyArray_DESCR(array), *wanted = PyArray_DESCR(rows);
    return PyArray_NDIM(array) == ndim && PyArray_IS_C_CONTIGUOUS(array)
        && (mine == wanted || PyArray_EquivTypes(mine, wanted))
        && memcmp(PyArray_DIMS(array), PyArray_DIMS(rows) + 1, (size_t)ndim * sizeof(npy_intp)) == 0;
}

/* Whether a result is that of an ordinary step in the middle of an episode. */
static int is_plain(PyObject *result, PyArrayObject *rows, double *reward) {
    return PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == 5
        && is_false(PyTuple_GET_ITEM(result, 2)) && is_false(PyTuple_GET_ITEM(result, 3))
        && as_double(PyTuple_GET_ITEM(result, 1), reward) && PyDict_CheckExact(PyTuple_GET_ITEM(result, 4))
        && PyArray_CheckExact(PyTuple_GET_ITEM(result, 0)) && fits((PyArrayObject *)PyTuple_GET_ITEM(result, 0), rows);
}

/* A slot of an info key: the types it takes and, for all envs here, values (double or int64) and marks. */
typedef struct {
    PyObject *tuple; /* (types, values, marks), which it was made from */
    void *values;
    npy_bool *marks;
    int real;
} Slot;

/* The slots used in one call of `store`, each checked once. Only the first few are found again: more keys are rare. */
typedef struct {
    Slot slots[32];
    int used;
} Slots;

/* The slot of a tuple; NULL with an error set if it is invalid. */
static const Slot *slot_of(PyObject *tuple, Slots *cache, Py_ssize_t n) {
    for (int k = 0; k < cache->used; k++)
        if (cache->slots[k].tuple == tuple) return &cache->slots[k];
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != 3 || !PyTuple_Check(PyTuple_GET_ITEM(tuple, 0))) {
        PyErr_SetString(PyExc_TypeError, "a slot should be a tuple of types, values and marks");
        return NULL;
    }
    if (cache->used == sizeof cache->slots / sizeof cache->slots[0]) cache->used--;
    Slot *slot = &cache->slots[cache->used];
    slot->tuple = tuple;
    slot->values = column_of(PyTuple_GET_ITEM(tuple, 1), "dlq", n);
    slot->marks = slot->values == NULL ? NULL : column_of(PyTuple_GET_ITEM(tuple, 2), "?", n);
    if (slot->marks == NULL) return NULL;
    slot->real = PyMemoryView_GET_BUFFER(PyTuple_GET_ITEM(tuple, 1))->format[0] == 'd';
    cache->used++;
    return slot;
}

/* Store a number in row `i` of a slot; returns 0 if it does not fit. */
static int put(const Slot *slot, PyObject *number, Py_ssize_t i) {
    PyObject *types = PyTuple_GET_ITEM(slot->tuple, 0);
    int known = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(types); k++)
        known |= PyTuple_GET_ITEM(types, k) == (PyObject *)Py_TYPE(number);
    if (!known) return 0;
    if (!(slot->real ? as_double(number, (double *)slot->values + i) : as_int64(number, (int64_t *)slot->values + i)))
        return 0;
    slot->marks[i] = 1;
    return 1;
}

/* Store all of an info in slots. If one value does not fit, Python stores the info again, with the same values. */
static int note(PyObject *info, PyObject *slots, Slots *cache, Py_ssize_t i, Py_ssize_t n) {
    PyObject *key, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(info, &place, &key, &value)) {
        PyObject *tuple = PyUnicode_CheckExact(key) ? PyDict_GetItemWithError(slots, key) : NULL;
        if (tuple == NULL) return 0;
        const Slot *slot = slot_of(tuple, cache, n);
        if (slot == NULL) return -1;
        if (!put(slot, value, i)) return 0;
    }
    return 1;
}

static PyObject *store(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (!expect(count, 8, "store(results, rows, rewards, terminated, truncated, returns, lengths, slots)")) return NULL;
    PyObject *results = args[0], *slots = args[7];
    PyArrayObject *rows = (PyArrayObject *)args[1];
    if (!PyList_CheckExact(results) || !PyDict_CheckExact(slots) || !PyArray_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "results should be a list, rows an array, slots a dict");
        return NULL;
    }
    Py_ssize_t n = PyList_GET_SIZE(results);
    double *rewards, *returns;
    npy_bool *terminated, *truncated;
    int64_t *lengths;
    if ((rewards = column_of(args[2], "d", n)) == NULL || (terminated = column_of(args[3], "?", n)) == NULL
        || (truncated = column_of(args[4], "?", n)) == NULL || (returns = column_of(args[5], "d", n)) == NULL
        || (lengths = column_of(args[6], "lq", n)) == NULL)
        return NULL;
    if (!PyArray_ISCARRAY(rows) || PyArray_NDIM(rows) < 1 || PyArray_DIM(rows, 0) != n
        || PyDataType_REFCHK(PyArray_DESCR(rows))) {
        PyErr_SetString(PyExc_TypeError, "rows should be a contiguous array with one row of numbers for each env");
        return NULL;
    }
    size_t row_bytes = n == 0 ? 0 : (size_t)(PyArray_NBYTES(rows) / n);
    double sum = 0.0;
    int marked = 0;
    Slots cache;
    cache.used = 0;
    PyObject *rest = PyList_New(0);
    for (Py_ssize_t i = 0; rest != NULL && i < n; i++) {
        PyObject *result = PyList_GET_ITEM(results, i);
        double reward;
        int plain = is_plain(result, rows, &reward);
        if (plain && PyDict_GET_SIZE(PyTuple_GET_ITEM(result, 4))) {
            plain = note(PyTuple_GET_ITEM(result, 4), slots, &cache, i, n);
            marked = 1;
        }
        if (plain == 1) {
            const void *observation = PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(result, 0));
            memcpy(PyArray_BYTES(rows) + (size_t)i * row_bytes, observation, row_bytes);
            rewards[i] = reward;
            terminated[i] = truncated[i] = 0;
            returns[i] += reward;
            lengths[i] += 1;
            sum += reward;
        } else {
            PyObject *position = plain == 0 ? PyLong_FromSsize_t(i) : NULL;
            if (position == NULL || PyList_Append(rest, position) < 0) Py_CLEAR(rest);
            Py_XDECREF(position);
        }
    }
    return rest == NULL ? NULL : Py_BuildValue("dNN", sum, PyBool_FromLong(marked), rest);
}

/* --- reading infos ---------------------------------------------------------------------------------------------- */

/* A new array of the values of envs in the mask, and 0 for the others. Integers and floats both have eight bytes. */
static PyObject *slot_column(const int64_t *values, const npy_bool *info_mask, npy_intp n, PyArray_Descr *dtype) {
    PyObject *wide = PyArray_SimpleNew(1, &n, PyDataType_ISINTEGER(dtype) ? NPY_INT64 : NPY_DOUBLE);
    if (wide == NULL) return NULL;
    int64_t *column = PyArray_DATA((PyArrayObject *)wide);
    for (npy_intp i = 0; i < n; i++) column[i] = info_mask[i] ? values[i] : 0;
    if (PyArray_TYPE((PyArrayObject *)wide) == dtype->type_num) return wide;
    Py_INCREF(dtype); /* the next call steals a reference */
    PyObject *cast = PyArray_CastToType((PyArrayObject *)wide, dtype, 0);
    Py_DECREF(wide);
    return cast;
}

/* Add one key's column and its mask to the infos. */
static int add_slot(PyObject *infos, PyObject *name, const int64_t *values, const npy_bool *info_mask, npy_intp n) {
    PyObject *column = slot_column(values, info_mask, n, (PyArray_Descr *)PyTuple_GET_ITEM(name, 2));
    PyObject *mask = column == NULL ? NULL : PyArray_SimpleNew(1, &n, NPY_BOOL);
    int failed = mask == NULL;
    if (!failed) {
        memcpy(PyArray_DATA((PyArrayObject *)mask), info_mask, (size_t)n);
        failed = PyDict_SetItem(infos, PyTuple_GET_ITEM(name, 0), column) < 0
            || PyDict_SetItem(infos, PyTuple_GET_ITEM(name, 1), mask) < 0;
    }
    Py_XDECREF(column);
    Py_XDECREF(mask);
    return failed ? -1 : 0;
}

/* Whether an array holds a row of `type` for each of `count` slots. */
static int is_table(PyObject *object, int type, Py_ssize_t count) {
    PyArrayObject *array = (PyArrayObject *)object;
    return PyArray_Check(object) && PyArray_NDIM(array) == 2 && PyArray_ISCARRAY_RO(array)
        && PyArray_TYPE(array) == type && PyArray_DIM(array, 0) >= count;
}

static PyObject *read_slots(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (!expect(count, 4, "read_slots(infos, names, values, masks)")) return NULL;
    PyObject *infos = args[0], *names = args[1];
    Py_ssize_t slots = PyList_Check(names) ? PyList_GET_SIZE(names) : -1;
    if (slots < 0 || !PyDict_CheckExact(infos) || !is_table(args[2], NPY_DOUBLE, slots)
        || !is_table(args[3], NPY_BOOL, slots)
        || PyArray_DIM((PyArrayObject *)args[2], 1) != PyArray_DIM((PyArrayObject *)args[3], 1)) {
        PyErr_SetString(PyExc_TypeError, "read_slots() takes a dict, a list, and float64 and bool tables of one size");
        return NULL;
    }
    npy_intp n = PyArray_DIM((PyArrayObject *)args[2], 1);
    const int64_t *values = PyArray_DATA((PyArrayObject *)args[2]);
    PyObject *left = PyList_New(0);
    for (Py_ssize_t k = 0; left != NULL && k < slots; k++) {
        PyObject *name = PyList_GET_ITEM(names, k);
        const npy_bool *info_mask = (const npy_bool *)PyArray_DATA((PyArrayObject *)args[3]) + k * n;
        if (memchr(info_mask, 1, (size_t)n) == NULL) continue;
        if (!PyTuple_Check(name) || PyTuple_GET_SIZE(name) != 3 || !PyArray_DescrCheck(PyTuple_GET_ITEM(name, 2))) {
            PyErr_SetString(PyExc_TypeError, "a name should be a tuple of a key, its mask's key and a dtype");
            Py_CLEAR(left);
            break;
        }
        int there = PyDict_Contains(infos, PyTuple_GET_ITEM(name, 0));
        if (there == 1) {
            PyObject *position = PyLong_FromSsize_t(k);
            if (position == NULL || PyList_Append(left, position) < 0) Py_CLEAR(left);
            Py_XDECREF(position);
        } else if (there < 0 || add_slot(infos, name, values + k * n, info_mask, n) < 0) {
            Py_CLEAR(left);
        }
    }
    return left;
}

#define FIELD_DIMS 16

/* A view of one field of all records, which are the rows of `copied`. */
static PyObject *field_of(PyArrayObject *copied, PyArray_Descr *dtype, Py_ssize_t place, PyObject *shape) {
    npy_intp dims[FIELD_DIMS + 1], strides[FIELD_DIMS + 1], size = PyDataType_ELSIZE(dtype);
    int inner = (int)PyTuple_GET_SIZE(shape);
    dims[0] = PyArray_DIM(copied, 0), strides[0] = PyArray_DIM(copied, 1);
    for (int k = inner; k > 0; k--) {
        dims[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k - 1)), strides[k] = size;
        if (dims[k] < 0) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a field has a negative size");
            return NULL;
        }
        size *= dims[k];
    }
    if (place < 0 || place + size > strides[0]) {
        PyErr_Format(PyExc_ValueError, "a field of %zd bytes at %zd is not in the record", (Py_ssize_t)size, place);
        return NULL;
    }
    Py_INCREF(dtype);
    PyObject *field = PyArray_NewFromDescr(&PyArray_Type, dtype, inner + 1, dims, strides, PyArray_BYTES(copied) + place,
                                           NPY_ARRAY_WRITEABLE, NULL);
    if (field == NULL) return NULL;
    Py_INCREF(copied);
    if (PyArray_SetBaseObject((PyArrayObject *)field, (PyObject *)copied) < 0) Py_CLEAR(field);
    return field;
}

static int add_field(PyObject *infos, PyObject *column, PyArrayObject *copied, PyObject *mask) {
    if (!PyTuple_Check(column) || PyTuple_GET_SIZE(column) != 5 || !PyArray_DescrCheck(PyTuple_GET_ITEM(column, 2))
        || !PyTuple_Check(PyTuple_GET_ITEM(column, 4)) || PyTuple_GET_SIZE(PyTuple_GET_ITEM(column, 4)) > FIELD_DIMS
        || PyDataType_REFCHK((PyArray_Descr *)PyTuple_GET_ITEM(column, 2))) {
        PyErr_SetString(PyExc_TypeError, "a column is a key, its mask's key, a dtype of numbers, a place and a shape");
        return -1;
    }
    Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(column, 3));
    if (place == -1 && PyErr_Occurred()) return -1;
    PyArray_Descr *dtype = (PyArray_Descr *)PyTuple_GET_ITEM(column, 2);
    PyObject *field = field_of(copied, dtype, place, PyTuple_GET_ITEM(column, 4));
    int added = field == NULL ? -1 : PyDict_SetItem(infos, PyTuple_GET_ITEM(column, 0), field);
    Py_XDECREF(field);
    return added < 0 ? -1 : PyDict_SetItem(infos, PyTuple_GET_ITEM(column, 1), mask);
}

static PyObject *read_records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (!expect(count, 4, "read_records(infos, columns, records, mask)")) return NULL;
    if (!PyDict_CheckExact(args[0]) || !PyList_Check(args[1]) || !is_table(args[2], NPY_UBYTE, 0)
        || !PyArray_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "read_records() takes a dict, a list, a table of bytes and a mask");
        return NULL;
    }
    PyObject *copied = PyArray_NewCopy((PyArrayObject *)args[2], NPY_CORDER);
    PyObject *mask = copied == NULL ? NULL : PyArray_NewCopy((PyArrayObject *)args[3], NPY_CORDER);
    int failed = mask == NULL;
    for (Py_ssize_t k = 0; !failed && k < PyList_GET_SIZE(args[1]); k++)
        failed = add_field(args[0], PyList_GET_ITEM(args[1], k), (PyArrayObject *)copied, mask) < 0;
    Py_XDECREF(copied);
    Py_XDECREF(mask);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* --- checking --------------------------------------------------------------------------------------------------- */

/* Without an early exit, so that compilers use vector instructions. NaN is never inside. */
#define ALL_INSIDE(type)                                                                                               \
    {                                                                                                                  \
        const type *value = data[0], *low = data[1], *high = data[2];                                                  \
        for (npy_intp k = 0; k < size; k++) good &= (value[k] >= low[k]) & (value[k] <= high[k]);                      \
    }

static PyObject *inside(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (!expect(count, 3, "inside(rows, low, high)")) return NULL;
    const void *data[3];
    PyArrayObject *rows = (PyArrayObject *)args[0];
    for (int k = 0; k < 3; k++) {
        PyArrayObject *array = (PyArrayObject *)args[k];
        if (!PyArray_Check(args[k]) || !PyArray_IS_C_CONTIGUOUS(array) || PyArray_SIZE(array) != PyArray_SIZE(rows)
            || PyArray_TYPE(array) != PyArray_TYPE(rows) || !PyArray_ISBEHAVED_RO(array)) {
            PyErr_SetString(PyExc_TypeError, "inside() takes three contiguous arrays of one type and size");
            return NULL;
        }
        data[k] = PyArray_DATA(array);
    }
    npy_intp size = PyArray_SIZE(rows);
    int good = 1;
    switch (PyArray_TYPE(rows)) {
        case NPY_FLOAT: ALL_INSIDE(float) break;
        case NPY_DOUBLE: ALL_INSIDE(double) break;
        case NPY_INT64: ALL_INSIDE(int64_t) break;
        default:
            PyErr_SetString(PyExc_TypeError, "inside() takes float32, float64 and int64");
            return NULL;
    }
    return PyBool_FromLong(good);
}

/* ---------------------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"fence", fence, METH_NOARGS, NULL},
    METHOD(watch),
    METHOD(step_each),
    METHOD(store),
    METHOD(read_slots),
    METHOD(read_records),
    METHOD(inside),
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_loops", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__loops(void) {
    import_array();
    return PyModule_Create(&definition);
}
