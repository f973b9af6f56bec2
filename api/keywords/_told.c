/* A function that is called, seen and bound as it is, without a frame of its own in tracebacks and
 * for levels of warnings; where a call does not fit it because of a keyword, a sentence says so. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyObject *function, *sentence; /* of the function and the names of keywords; None: not of them */
} told;

static PyObject *of_type(PyTypeObject *type, PyObject *args, PyObject *given) {
    static char *names[] = {"function", "sentence", NULL};
    PyObject *function, *sentence;
    if (!PyArg_ParseTupleAndKeywords(args, given, "OO", names, &function, &sentence)) return NULL;
    told *made = (told *)type->tp_alloc(type, 0);
    if (made == NULL) return NULL;
    Py_INCREF(function), Py_INCREF(sentence);
    made->function = function, made->sentence = sentence;
    return (PyObject *)made;
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((told *)self)->function);
    Py_VISIT(((told *)self)->sentence);
    return 0;
}

static int clear(PyObject *self) {
    Py_CLEAR(((told *)self)->function);
    Py_CLEAR(((told *)self)->sentence);
    return 0;
}

static void dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The error that is set becomes a sentence if the function was not even entered */
static void rephrase(told *self, PyObject *given) {
    PyObject *type, *value, *trace, *said = NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (trace == NULL)
        said = PyObject_CallFunctionObjArgs(self->sentence, self->function, given, NULL);
    if (said != NULL && said != Py_None) {
        PyErr_SetObject(PyExc_TypeError, said);
        Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
    }
    Py_XDECREF(said);
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *given) {
    PyObject *found = PyObject_Call(((told *)self)->function, args, given);
    if (found == NULL && given != NULL && PyErr_ExceptionMatches(PyExc_TypeError))
        rephrase((told *)self, given);
    return found;
}

static PyObject *bind(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    if (object != NULL && object != Py_None) return PyMethod_New(self, object);
    Py_INCREF(self);
    return self;
}

static PyObject *reduce(PyObject *self, PyObject *nothing) {
    (void)nothing;
    told *mine = (told *)self;
    return Py_BuildValue("O(OO)", Py_TYPE(self), mine->function, mine->sentence);
}

/* All but how it is pickled is the function's, its class too */
static PyObject *attribute(PyObject *self, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) return NULL;
    if (strncmp(text, "__reduce", 8) == 0) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(((told *)self)->function, name);
}

static PyObject *shown(PyObject *self) { return PyObject_Repr(((told *)self)->function); }

static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, of_type},         {Py_tp_dealloc, dealloc},
                              {Py_tp_traverse, traverse},   {Py_tp_clear, clear},
                              {Py_tp_call, call},           {Py_tp_descr_get, bind},
                              {Py_tp_getattro, attribute},  {Py_tp_repr, shown},
                              {Py_tp_methods, methods},     {0, NULL}};

static PyType_Spec spec = {"kinesym.keywords._told.Told", sizeof(told), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_told", "Functions whose calls are told of.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__told(void) {
    PyObject *made = PyModule_Create(&module), *type = PyType_FromSpec(&spec);
    if (made == NULL || type == NULL || PyModule_AddObject(made, "Told", type) < 0) {
        Py_XDECREF(made), Py_XDECREF(type);
        return NULL;
    }
    return made;
}
