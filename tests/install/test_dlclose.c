/* SPDX-License-Identifier: Apache-2.0 */
/* The shared library as a program opens it by dlopen(): closing it again leaves it in place, since threads
   have caches whose end it sees, and hooks at fork() and at the exit of the process run its code. The program
   is not linked with it. */
#define _GNU_SOURCE /* barriers */
#include <dao/context.h>
#include <dao/memory.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#undef dao_alloc
#undef dao_free

#define ROUND_COUNT  6
#define THREAD_COUNT 3

#define HOLDS(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, dlerror());             \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

typedef struct library {
    void *handle;
    dao_status_t (*init)(const dao_config_t *config);
    dao_status_t (*finalize)(void);
    void *(*alloc)(dao_place_t place, size_t size_bytes);
    dao_status_t (*free)(dao_place_t place, void *address);
} library_t;

static library_t library;
static pthread_barrier_t barrier;

/* A function of the library; POSIX lets the address of one be a pointer. */
static void find(const char *name, void *out_function)
{
    *(void **)out_function = dlsym(library.handle, name);
    HOLDS(*(void **)out_function != NULL);
}

static void library_open(const char *path)
{
    library.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    HOLDS(library.handle != NULL);
    find("dao_init", (void *)&library.init);
    find("dao_finalize", (void *)&library.finalize);
    find("dao_alloc", (void *)&library.alloc);
    find("dao_free", (void *)&library.free);
}

/* Fills the thread's cache, and ends when the library has been closed. */
static void *use(void *user)
{
    static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
    (void)user;
    for (int i = 0; i < 100; i++) {
        void *block = library.alloc(device, 100);
        HOLDS(block != NULL && library.free(device, block) == DAO_OK);
    }
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier); /* closed meanwhile */
    return NULL;
}

static void open_use_and_close(const char *path, bool finalizes)
{
    pthread_t threads[THREAD_COUNT];
    library_open(path);
    HOLDS(library.init(NULL) == DAO_OK);
    for (int i = 0; i < THREAD_COUNT; i++) {
        HOLDS(pthread_create(&threads[i], NULL, use, NULL) == 0);
    }
    (void)pthread_barrier_wait(&barrier);
    while (finalizes && library.finalize() == DAO_OK) { /* of all rounds */
    }
    HOLDS(dlclose(library.handle) == 0);
    (void)pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREAD_COUNT; i++) {
        HOLDS(pthread_join(threads[i], NULL) == 0);
    }
}

static void fork_after_all(void)
{
    int status = -1;
    pid_t child = fork(); /* its hooks are the library's */
    HOLDS(child >= 0);
    if (child == 0) {
        _exit(0);
    }
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments)
{
    HOLDS(count == 2 && pthread_barrier_init(&barrier, NULL, THREAD_COUNT + 1) == 0);
    for (int i = 0; i < ROUND_COUNT; i++) {
        open_use_and_close(arguments[1], i % 2 == 1);
        fork_after_all();
    }
    HOLDS(dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != NULL);
    (void)pthread_barrier_destroy(&barrier);
    return 0;
}
