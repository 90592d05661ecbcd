/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of dao.torch.offload() in C, for what most of their calls are: in a step that follows a plan, a
   tensor is kept, asked for or given up as the plan has it, in memory.

    autograd --> Hooks.pack(), unpack(), end() --as planned--> the fields below, which Python has as
   attributes
                              |
                              +--all other calls--> the methods of these names of python/dao/torch/

   Each is the method in Python again. It changes nothing until it knows that a call is such a one.

   It is built by the stable interface of Python 3.8, and asks tensors for attributes as Python does: it fits
   all versions of Python and PyTorch. */
#define Py_LIMITED_API 0x03080000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <dao/api.h>

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Changes with what the package and this file know of each other: VERSION in python/dao/torch/fields.py. */
#define HOOKS_VERSION 1

/* Attributes that are looked at by name. */
#define NAME_LIST(X)                                                                                         \
    X(_cdata)                                                                                                \
    X(_version)                                                                                              \
    X(by_key)                                                                                                \
    X(detach)                                                                                                \
    X(end)                                                                                                   \
    X(events)                                                                                                \
    X(follow)                                                                                                \
    X(in_hand)                                                                                               \
    X(is_cpu)                                                                                                \
    X(late)                                                                                                  \
    X(layout)                                                                                                \
    X(leaving)                                                                                               \
    X(movable)                                                                                               \
    X(nbytes)                                                                                                \
    X(owner)                                                                                                 \
    X(pack)                                                                                                  \
    X(persistent)                                                                                            \
    X(resident)                                                                                              \
    X(resident_bytes)                                                                                        \
    X(shared)                                                                                                \
    X(sizes)                                                                                                 \
    X(stash)                                                                                                 \
    X(stepping)                                                                                              \
    X(tensor)                                                                                                \
    X(unpack)                                                                                                \
    X(version)                                                                                               \
    X(weights)

#define NAME_ENUMERATOR(name) NAME_##name,
typedef enum name { NAME_LIST(NAME_ENUMERATOR) NAME_COUNT } name_t;

#define NAME_TEXT(name) #name,
static const char *const name_texts[NAME_COUNT] = {NAME_LIST(NAME_TEXT)};
static PyObject *names[NAME_COUNT];

/* ---- types, of which Python's classes are made: references first, NULL for None ---- */

typedef struct item {
    PyObject base;
    PyObject *key, *storage, *cells, *parked, *record;
    Py_ssize_t size_bytes, handles, in_ticket;
} item_t;

typedef struct cell {
    PyObject base;
    PyObject *tensor, *shape;
    Py_ssize_t version;
} cell_t;

typedef struct handle {
    PyObject base;
    PyObject *stash, *item, *cell;
} handle_t;

/* Where a step is. */
typedef struct progress {
    PyObject base;
    PyObject *plan, *learner, *numbers, *gone;
    Py_ssize_t kernel, next_kernel;
} progress_t;

/* The hooks of an Offload, which is a progress_t. */
typedef struct hooks {
    PyObject base;
    PyObject *offload, *owner, *stash, *weights;
    PyObject *late, *by_key, *resident, *shared;
    PyObject *pack, *unpack, *end; /* the methods in Python */
    PyObject *untyped_storage, *strided, *item_type, *cell_type, *handle_type, *kept_type;
    Py_ssize_t small_bytes;
} hooks_t;

#define REFERENCES(type, first, last)                                                                        \
    (int)((offsetof(type, last) - offsetof(type, first)) / sizeof(PyObject *) + 1)

static PyObject **references_of(PyObject *self)
{
    return (PyObject **)(self + 1);
}

static int visit_references(PyObject *self, int count, visitproc visit, void *arg)
{
    for (int i = 0; i < count; i++) {
        Py_VISIT(references_of(self)[i]);
    }
    return 0;
}

static int clear_references(PyObject *self, int count)
{
    for (int i = 0; i < count; i++) {
        Py_CLEAR(references_of(self)[i]);
    }
    return 0;
}

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* What Python's collector of garbage asks a type with so many references. */
#define COLLECTED(type, count)                                                                               \
    static int type##_traverse(PyObject *self, visitproc visit, void *arg)                                   \
    {                                                                                                        \
        return visit_references(self, count, visit, arg);                                                    \
    }                                                                                                        \
    static int type##_clear(PyObject *self)                                                                  \
    {                                                                                                        \
        return clear_references(self, count);                                                                \
    }                                                                                                        \
    static void type##_dealloc(PyObject *self)                                                               \
    {                                                                                                        \
        PyObject_GC_UnTrack(self);                                                                           \
        clear_references(self, count);                                                                       \
        free_object(self);                                                                                   \
    }

COLLECTED(item, REFERENCES(item_t, key, record))
COLLECTED(progress, REFERENCES(progress_t, plan, gone))
COLLECTED(hooks, REFERENCES(hooks_t, offload, kept_type))

static PyObject *new_reference(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static void set_reference(PyObject **at, PyObject *object)
{
    PyObject *before = *at;
    *at = object;
    Py_XDECREF(before);
}

static bool is_none(const PyObject *object)
{
    return object == NULL || object == Py_None;
}

/* Returns an object of a type with nothing in it. */
static PyObject *make(PyObject *type)
{
    return PyType_GenericAlloc((PyTypeObject *)type, 0);
}

/* ---- Item, Cell, Handle ---- */

static bool item_fill(item_t *item, PyObject *key, PyObject *storage, Py_ssize_t size_bytes)
{
    set_reference(&item->key, new_reference(key));
    set_reference(&item->storage, new_reference(storage));
    set_reference(&item->cells, PyList_New(0));
    item->size_bytes = size_bytes;
    item->handles = 0;
    return item->cells != NULL;
}

static int item_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *key, *storage;
    Py_ssize_t size_bytes;
    (void)keywords;
    return PyArg_ParseTuple(arguments, "OOn", &key, &storage, &size_bytes) &&
                   item_fill((item_t *)self, key, storage, size_bytes)
               ? 0
               : -1;
}

/* Returns an attribute as a number; -1, which none of these is, and no error if there is none. */
static Py_ssize_t look_number(PyObject *object, name_t name)
{
    PyObject *value = PyObject_GetAttr(object, names[name]);
    Py_ssize_t number = value == NULL ? -1 : PyLong_AsSsize_t(value);
    Py_XDECREF(value);
    if (number == -1) {
        PyErr_Clear();
    }
    return number;
}

static bool cell_fill(cell_t *cell, PyObject *tensor)
{
    set_reference(&cell->tensor, PyObject_CallMethodObjArgs(tensor, names[NAME_detach], NULL));
    PyObject *version = cell->tensor == NULL ? NULL : PyObject_GetAttr(cell->tensor, names[NAME__version]);
    cell->version = version == NULL ? -1 : PyLong_AsSsize_t(version);
    Py_XDECREF(version);
    return PyErr_Occurred() == NULL;
}

static int cell_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *tensor;
    (void)keywords;
    return PyArg_ParseTuple(arguments, "O", &tensor) && cell_fill((cell_t *)self, tensor) ? 0 : -1;
}

static void cell_dealloc(PyObject *self)
{
    clear_references(self, REFERENCES(cell_t, tensor, shape));
    free_object(self);
}

static void handle_fill(handle_t *handle, PyObject *stash, PyObject *item, PyObject *cell)
{
    set_reference(&handle->stash, new_reference(stash));
    set_reference(&handle->item, new_reference(item));
    set_reference(&handle->cell, new_reference(cell));
}

static int handle_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *stash, *item, *cell;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OOO", &stash, &item, &cell)) {
        return -1;
    }
    handle_fill((handle_t *)self, stash, item, cell);
    return 0;
}

/* The stash is told of the end, as __del__() would: errors are printed. */
static void handle_dealloc(PyObject *self)
{
    handle_t *handle = (handle_t *)self;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (handle->item != NULL) {
        PyObject *answer = PyObject_CallMethodObjArgs(handle->stash, names[NAME_end], handle->item, NULL);
        if (answer == NULL) {
            PyErr_WriteUnraisable(handle->stash);
        }
        Py_XDECREF(answer);
    }
    clear_references(self, REFERENCES(handle_t, stash, cell));
    PyErr_Restore(type, value, traceback);
    free_object(self);
}

/* ---- what a call looks at ---- */

enum { HELD_MAX = 24 };

/* References that a call has until it ends. */
typedef struct held {
    PyObject *objects[HELD_MAX];
    int count;
} held_t;

/* Keeps a new reference until the call ends. Returns NULL, and no error, for one that could not be had. */
static PyObject *hold(held_t *held, PyObject *object)
{
    if (object == NULL) {
        PyErr_Clear();
        return NULL;
    }
    assert(held->count < HELD_MAX);
    held->objects[held->count++] = object;
    return object;
}

static void let_go(held_t *held)
{
    while (held->count > 0) {
        Py_DECREF(held->objects[--held->count]);
    }
}

/* Returns an attribute, which lives as long as the call; NULL, and no error, if there is none. */
static PyObject *look(held_t *held, PyObject *object, name_t name)
{
    return object == NULL ? NULL : hold(held, PyObject_GetAttr(object, names[name]));
}

/* Returns list[i]; -1, which none of these is, and no error if there is none. */
static Py_ssize_t number_at(PyObject *list, Py_ssize_t i)
{
    if (list == NULL || i < 0 || i >= PyList_Size(list)) {
        PyErr_Clear();
        return -1;
    }
    return PyLong_AsSsize_t(PyList_GetItem(list, i));
}

static bool add_number(PyObject *object, name_t name, Py_ssize_t added)
{
    PyObject *value = PyLong_FromSsize_t(look_number(object, name) + added);
    bool is_set = value != NULL && PyObject_SetAttr(object, names[name], value) == 0;
    Py_XDECREF(value);
    return is_set;
}

/* Owner.is_in_own_step() */
static bool is_in_own_step(const hooks_t *hooks)
{
    PyObject *stepping = PyObject_GetAttr(hooks->owner, names[NAME_stepping]);
    bool is_own = !is_none(stepping) && PyLong_AsUnsignedLong(stepping) == PyThread_get_thread_ident();
    Py_XDECREF(stepping);
    return is_own;
}

/* True if a plan is followed, in a step of this thread, and nothing is late: Owner.is_free(). */
static bool is_followed(const hooks_t *hooks)
{
    const progress_t *progress = (const progress_t *)hooks->offload;
    return !is_none(progress->plan) && !is_none(progress->numbers) && is_in_own_step(hooks) &&
           PyObject_Size(hooks->late) == 0;
}

/* Offload.compare(): returns the number of the storage, if the call is the plan's next one; else -1. A
   storage without a record gets the next number. */
static Py_ssize_t planned_number(held_t *held, const progress_t *progress, const item_t *item,
                                 Py_ssize_t size_bytes, bool is_unpack)
{
    bool is_new = item == NULL || is_none(item->record);
    if (is_new && is_unpack) {
        return -1;
    }
    Py_ssize_t number = is_new ? PyList_Size(progress->numbers) : PyLong_AsSsize_t(item->record);
    Py_ssize_t event = number_at(look(held, progress->plan, NAME_events), progress->kernel);
    if (number < 0 || event != 2 * number + is_unpack) {
        PyErr_Clear();
        return -1;
    }
    bool has_its_size = !is_new || number_at(look(held, progress->plan, NAME_sizes), number) == size_bytes;
    return has_its_size ? number : -1;
}

static bool follow(const hooks_t *hooks)
{
    PyObject *answer = PyObject_CallMethodObjArgs(hooks->offload, names[NAME_follow], NULL);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* The same while autograd has no tensor of its own of an item yet: it does not leave. */
static bool follow_with(const hooks_t *hooks, PyObject *in_hand)
{
    if (PyObject_SetAttr(hooks->stash, names[NAME_in_hand], in_hand) != 0) {
        return false;
    }
    bool is_right = follow(hooks);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool is_set = PyObject_SetAttr(hooks->stash, names[NAME_in_hand], Py_None) == 0;
    if (!is_right) {
        PyErr_Restore(type, value, traceback);
    }
    return is_right && is_set;
}

/* Offload.note_event(), of a call that is the plan's: what may move by now starts. `in_hand` is the item that
   is unpacked, NULL if one is packed. */
static bool note_event(held_t *held, const hooks_t *hooks, PyObject *in_hand)
{
    progress_t *progress = (progress_t *)hooks->offload;
    progress->kernel++;
    PyObject *leaving = look(held, hooks->stash, NAME_leaving);
    if (leaving != NULL && progress->kernel < progress->next_kernel && PyList_Size(leaving) == 0) {
        return true;
    }
    return in_hand == NULL ? follow(hooks) : follow_with(hooks, in_hand);
}

/* ---- pack ---- */

/* storage_of() a tensor, its key and size. Returns false if it is none for C. */
static bool find_storage(held_t *held, const hooks_t *hooks, PyObject *tensor, PyObject **out_storage,
                         PyObject **out_key, Py_ssize_t *out_size_bytes)
{
    if (look(held, tensor, NAME_is_cpu) != Py_True || look(held, tensor, NAME_layout) != hooks->strided) {
        return false;
    }
    *out_storage = hold(held, PyObject_CallFunctionObjArgs(hooks->untyped_storage, tensor, NULL));
    *out_key = look(held, *out_storage, NAME__cdata);
    if (*out_key == NULL) {
        return false;
    }
    PyObject *size = hold(held, PyObject_CallMethodObjArgs(*out_storage, names[NAME_nbytes], NULL));
    *out_size_bytes = size == NULL ? -1 : PyLong_AsSsize_t(size);
    PyObject *movable = look(held, hooks->weights, NAME_movable);
    return *out_size_bytes >= 0 && movable != NULL && PyDict_GetItemWithError(movable, *out_key) == NULL;
}

/* A new item, which is one of the stash's. Returns NULL with an error. */
static item_t *add_item(held_t *held, const hooks_t *hooks, PyObject *storage, PyObject *key,
                        Py_ssize_t size_bytes)
{
    PyObject *item = make(hooks->item_type);
    if (item == NULL) {
        return NULL;
    }
    hold(held, item);
    bool is_added = item_fill((item_t *)item, key, storage, size_bytes) &&
                    PyDict_SetItem(hooks->by_key, key, item) == 0 &&
                    PyDict_SetItem(hooks->resident, item, Py_None) == 0 &&
                    PyDict_SetItem(hooks->shared, item, Py_None) == 0 &&
                    add_number(hooks->stash, NAME_resident_bytes, size_bytes);
    return is_added ? (item_t *)item : NULL;
}

/* Returns the handle of a tensor that is the plan's; NULL with an error. */
static PyObject *keep(held_t *held, const hooks_t *hooks, item_t *item, PyObject *cell, Py_ssize_t number)
{
    progress_t *progress = (progress_t *)hooks->offload;
    if (PyList_Append(item->cells, cell) != 0) {
        return NULL;
    }
    item->handles++;
    PyObject *handle = make(hooks->handle_type);
    if (handle == NULL) {
        return NULL;
    }
    handle_fill((handle_t *)handle, hooks->stash, (PyObject *)item, cell);
    bool is_kept = true;
    if (is_none(item->record)) {
        set_reference(&item->record, PyLong_FromSsize_t(number));
        is_kept = item->record != NULL && PyList_Append(progress->numbers, (PyObject *)item) == 0;
    }
    if (is_kept && note_event(held, hooks, NULL)) {
        return handle;
    }
    Py_DECREF(handle);
    return NULL;
}

/* Returns what is kept of a tensor; NULL, and no error, if Python has to keep it. */
static PyObject *pack_now(held_t *held, const hooks_t *hooks, PyObject *tensor)
{
    PyObject *storage, *key;
    Py_ssize_t size_bytes;
    if (!is_followed(hooks) || !find_storage(held, hooks, tensor, &storage, &key, &size_bytes)) {
        return NULL;
    }
    PyObject *persistent = look(held, hooks->weights, NAME_persistent);
    if (size_bytes < hooks->small_bytes || (persistent != NULL && PySet_Contains(persistent, key) == 1)) {
        return PyObject_CallFunctionObjArgs(hooks->kept_type, tensor, NULL);
    }
    PyObject *cell = hold(held, make(hooks->cell_type));
    if (cell == NULL || !cell_fill((cell_t *)cell, tensor)) {
        return NULL;
    }
    item_t *item = (item_t *)PyDict_GetItemWithError(hooks->by_key, key);
    if (item != NULL) {
        hold(held, new_reference((PyObject *)item));
    }
    Py_ssize_t number = planned_number(held, (const progress_t *)hooks->offload, item, size_bytes, false);
    if (number < 0) {
        return NULL;
    }
    item = item != NULL ? item : add_item(held, hooks, storage, key, size_bytes);
    return item == NULL ? NULL : keep(held, hooks, item, cell, number);
}

static PyObject *hooks_pack(PyObject *self, PyObject *tensor)
{
    const hooks_t *hooks = (const hooks_t *)self;
    held_t held = {.count = 0};
    PyObject *kept = pack_now(&held, hooks, tensor);
    let_go(&held);
    if (kept == NULL && PyErr_Occurred() == NULL) {
        kept = PyObject_CallFunctionObjArgs(hooks->pack, tensor, NULL);
    }
    return kept;
}

/* ---- unpack ---- */

/* Returns a kept tensor, which lives as long as the call; NULL, and no error, if Python has to look. */
static PyObject *unpack_now(held_t *held, const hooks_t *hooks, PyObject *kept)
{
    if ((PyObject *)Py_TYPE(kept) == hooks->kept_type) {
        PyObject *tensor = look(held, kept, NAME_tensor);
        bool is_right =
            tensor != NULL && look_number(tensor, NAME__version) == look_number(kept, NAME_version);
        return is_right ? tensor : NULL;
    }
    if ((PyObject *)Py_TYPE(kept) != hooks->handle_type || !is_followed(hooks)) {
        return NULL;
    }
    item_t *item = (item_t *)hold(held, new_reference(((handle_t *)kept)->item));
    const cell_t *cell = (const cell_t *)hold(held, new_reference(((handle_t *)kept)->cell));
    if (is_none(cell->tensor) || is_none(item->storage) || item->in_ticket != 0) {
        return NULL;
    }
    PyObject *tensor = hold(held, new_reference(cell->tensor));
    if (look_number(tensor, NAME__version) != cell->version ||
        planned_number(held, (const progress_t *)hooks->offload, item, 0, true) < 0) {
        return NULL;
    }
    return note_event(held, hooks, (PyObject *)item) ? tensor : NULL;
}

static PyObject *hooks_unpack(PyObject *self, PyObject *kept)
{
    const hooks_t *hooks = (const hooks_t *)self;
    held_t held = {.count = 0};
    PyObject *tensor = unpack_now(&held, hooks, kept);
    Py_XINCREF(tensor);
    let_go(&held);
    if (tensor == NULL && PyErr_Occurred() == NULL) {
        tensor = PyObject_CallFunctionObjArgs(hooks->unpack, kept, NULL);
    }
    return tensor;
}

/* ---- the end of a handle ---- */

/* Drops a key that may be there. */
static bool drop_key(PyObject *dictionary, PyObject *key)
{
    if (PyDict_DelItem(dictionary, key) == 0) {
        return true;
    }
    bool is_away = PyErr_ExceptionMatches(PyExc_KeyError);
    if (is_away) {
        PyErr_Clear();
    }
    return is_away;
}

/* Stash.delist() and discard(), of an item that is in memory. The key goes before the last reference. */
static bool discard(const hooks_t *hooks, item_t *item)
{
    progress_t *progress = (progress_t *)hooks->offload;
    if (!is_none(progress->plan) && !is_none(item->record) && PySet_Add(progress->gone, item->record) != 0) {
        return false;
    }
    if (!drop_key(hooks->by_key, item->key) || !drop_key(hooks->resident, (PyObject *)item) ||
        !drop_key(hooks->shared, (PyObject *)item) ||
        !add_number(hooks->stash, NAME_resident_bytes, -item->size_bytes)) {
        return false;
    }
    PyObject *cells = PyList_New(0);
    set_reference(&item->cells, cells);
    set_reference(&item->storage, NULL);
    return cells != NULL;
}

/* Stash.end() */
static PyObject *hooks_end(PyObject *self, PyObject *object)
{
    const hooks_t *hooks = (const hooks_t *)self;
    item_t *item = (item_t *)object;
    bool is_resident = !is_none(item->storage) && is_none(item->parked);
    if (!is_in_own_step(hooks) || !is_none(((progress_t *)hooks->offload)->learner) ||
        (item->handles == 1 && !is_resident)) {
        return PyObject_CallFunctionObjArgs(hooks->end, object, NULL);
    }
    item->handles--;
    if (item->handles == 0 && !discard(hooks, item)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- the module ---- */

static int hooks_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    hooks_t *hooks = (hooks_t *)self;
    (void)keywords;
    PyObject **const given[] = {&hooks->offload,   &hooks->untyped_storage, &hooks->strided,
                                &hooks->item_type, &hooks->cell_type,       &hooks->handle_type,
                                &hooks->kept_type};
    bool is_given = PyArg_ParseTuple(arguments, "OOOOOOOn", given[0], given[1], given[2], given[3], given[4],
                                     given[5], given[6], &hooks->small_bytes);
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        Py_XINCREF(*given[i]);
    }
    if (!is_given) {
        return -1;
    }
    const struct {
        PyObject **at, **of;
        name_t name;
    } parts[] = {
        {&hooks->owner, &hooks->offload, NAME_owner},     {&hooks->stash, &hooks->offload, NAME_stash},
        {&hooks->weights, &hooks->offload, NAME_weights}, {&hooks->pack, &hooks->offload, NAME_pack},
        {&hooks->unpack, &hooks->offload, NAME_unpack},   {&hooks->late, &hooks->owner, NAME_late},
        {&hooks->by_key, &hooks->stash, NAME_by_key},     {&hooks->resident, &hooks->stash, NAME_resident},
        {&hooks->shared, &hooks->stash, NAME_shared},     {&hooks->end, &hooks->stash, NAME_end},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        *parts[i].at = PyObject_GetAttr(*parts[i].of, names[parts[i].name]);
        if (*parts[i].at == NULL) {
            return -1;
        }
    }
    return 0;
}

#define MEMBER(type, kind, name)                                                                             \
    {                                                                                                        \
#name, kind, offsetof(type, name), 0, NULL                                                           \
    }
#define NO_MEMBER                                                                                            \
    {                                                                                                        \
        NULL, 0, 0, 0, NULL                                                                                  \
    }

static PyMemberDef item_members[] = {
    MEMBER(item_t, T_OBJECT, key),
    MEMBER(item_t, T_OBJECT, storage),
    MEMBER(item_t, T_OBJECT, cells),
    MEMBER(item_t, T_OBJECT, parked),
    MEMBER(item_t, T_OBJECT, record),
    MEMBER(item_t, T_PYSSIZET, size_bytes),
    MEMBER(item_t, T_PYSSIZET, handles),
    MEMBER(item_t, T_PYSSIZET, in_ticket),
    NO_MEMBER,
};

static PyMemberDef cell_members[] = {
    MEMBER(cell_t, T_OBJECT, tensor),
    MEMBER(cell_t, T_OBJECT, shape),
    MEMBER(cell_t, T_PYSSIZET, version),
    NO_MEMBER,
};

static PyMemberDef handle_members[] = {
    MEMBER(handle_t, T_OBJECT, stash),
    MEMBER(handle_t, T_OBJECT, item),
    MEMBER(handle_t, T_OBJECT, cell),
    NO_MEMBER,
};

static PyMemberDef progress_members[] = {
    MEMBER(progress_t, T_OBJECT, plan),
    MEMBER(progress_t, T_OBJECT, learner),
    MEMBER(progress_t, T_OBJECT, numbers),
    MEMBER(progress_t, T_OBJECT, gone),
    MEMBER(progress_t, T_PYSSIZET, kernel),
    MEMBER(progress_t, T_PYSSIZET, next_kernel),
    NO_MEMBER,
};

static PyMethodDef hooks_methods[] = {
    {"pack", hooks_pack, METH_O, "Offload.pack()"},
    {"unpack", hooks_unpack, METH_O, "Offload.unpack()"},
    {"end", hooks_end, METH_O, "Stash.end()"},
    {NULL, NULL, 0, NULL},
};

#define COLLECTED_SLOTS(type)                                                                                \
    {Py_tp_traverse, type##_traverse}, {Py_tp_clear, type##_clear},                                          \
    {                                                                                                        \
        Py_tp_dealloc, type##_dealloc                                                                        \
    }

static PyType_Slot item_slots[] = {
    COLLECTED_SLOTS(item), {Py_tp_init, item_init}, {Py_tp_members, item_members}, {0, NULL}};
static PyType_Slot cell_slots[] = {
    {Py_tp_dealloc, cell_dealloc}, {Py_tp_init, cell_init}, {Py_tp_members, cell_members}, {0, NULL}};
static PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, handle_dealloc}, {Py_tp_init, handle_init}, {Py_tp_members, handle_members}, {0, NULL}};
static PyType_Slot progress_slots[] = {
    COLLECTED_SLOTS(progress), {Py_tp_members, progress_members}, {0, NULL}};
static PyType_Slot hooks_slots[] = {
    COLLECTED_SLOTS(hooks), {Py_tp_init, hooks_init}, {Py_tp_methods, hooks_methods}, {0, NULL}};

#define PLAIN  (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE)
#define CYCLIC (PLAIN | Py_TPFLAGS_HAVE_GC)

static PyType_Spec specs[] = {
    {"dao_torch_hooks.Item", sizeof(item_t), 0, CYCLIC, item_slots},
    {"dao_torch_hooks.Cell", sizeof(cell_t), 0, PLAIN, cell_slots},
    {"dao_torch_hooks.Handle", sizeof(handle_t), 0, PLAIN, handle_slots},
    {"dao_torch_hooks.Progress", sizeof(progress_t), 0, CYCLIC, progress_slots},
    {"dao_torch_hooks.Hooks", sizeof(hooks_t), 0, CYCLIC, hooks_slots},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "dao_torch_hooks", .m_size = -1};

/* What dao.torch calls by ctypes, with the interpreter's lock. Returns the module, a new reference; None for
   a caller of another version; NULL with an error. */
DAO_API PyObject *dao_torch_hooks_module(int version);

PyObject *dao_torch_hooks_module(int version)
{
    if (version != HOOKS_VERSION) {
        Py_RETURN_NONE;
    }
    for (int i = 0; i < NAME_COUNT; i++) {
        names[i] = PyUnicode_InternFromString(name_texts[i]);
        if (names[i] == NULL) {
            return NULL;
        }
    }
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module != NULL && i < sizeof(specs) / sizeof(specs[0]); i++) {
        PyObject *type = PyType_FromSpec(&specs[i]);
        if (type == NULL || PyModule_AddObject(module, strchr(specs[i].name, '.') + 1, type) != 0) {
            Py_XDECREF(type);
            Py_CLEAR(module);
        }
    }
    return module;
}
