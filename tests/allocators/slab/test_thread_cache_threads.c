/* SPDX-License-Identifier: Apache-2.0 */
/* The small front among threads: what each keeps, what it gives back and when, and blocks that change
   hands. */
#include "allocators/paged/device_memory.h"
#include "allocators/segments/host.h"
#include "allocators/slab/magazines.h"
#include "allocators/slab/thread_cache.h"
#include "allocators/slow_path.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/gate.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAPACITY_BYTES (256 * MIB)

static heap_backend_t *heap;
static dao_allocator_t *inner;
static dao_allocator_t *allocator;

/* ---- helpers ---- */

static void begin(void)
{
    heap = heap_backend_create(CAPACITY_BYTES, 2 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(heap);
    CU_ASSERT_EQUAL_FATAL(
        dao_device_memory_create(&(dao_device_memory_config_t){.ops = heap_backend_ops(heap),
                                                               .device = heap_backend_device(heap),
                                                               .name = "device:0"},
                                 &inner),
        DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_cache_create(inner, "device:0", &dao_slab_device_sizes, 0, &allocator),
                          DAO_OK);
}

static void end(void)
{
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

/* Blocks over memory that may be touched. */
static void host_begin(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_host_allocator_create(&(dao_host_config_t){.name = "cpu"}, &inner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_cache_create(inner, "cpu", &dao_slab_host_sizes, 0, &allocator), DAO_OK);
}

static void host_end(void)
{
    allocator->ops->destroy(allocator);
}

/* While no other thread allocates or frees. */
static dao_stats_t stats_now(void)
{
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    return stats;
}

static uint64_t bytes_below(void)
{
    return inner->ops->used_get(inner);
}

static void *take(size_t size_bytes)
{
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, size_bytes, &address), DAO_OK);
    return address;
}

static void give(void *address)
{
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_OK);
}

static void trim(void)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(allocator->ops->trim(allocator, 0, &released_bytes), DAO_OK);
}

static void run_thread(void *(*function)(void *), void *user)
{
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "other", function, user), DAO_OK);
    dao_thread_join(&thread);
}

/* ---- a thread ends ---- */

static void *use_a_little(void *user)
{
    (void)user;
    void *addresses[20];
    for (size_t i = 0; i < 20; i++) {
        addresses[i] = take(2000);
    }
    for (size_t i = 0; i < 20; i++) {
        give(addresses[i]);
    }
    return NULL;
}

static void what_a_thread_keeps_goes_back_as_it_ends(void)
{
    run_thread(use_a_little, NULL);
    CU_ASSERT_EQUAL(stats_now().alloc_count, 20);
    CU_ASSERT_EQUAL(stats_now().free_count, 20);
    CU_ASSERT_EQUAL(stats_now().cached_bytes, 0);
    CU_ASSERT_TRUE(bytes_below() <= DAO_SLAB_GRANULE_BYTES); /* a spare slab */
    trim();
    CU_ASSERT_EQUAL(bytes_below(), 0);
}

static void *take_one(void *user)
{
    *(void **)user = take(3000);
    return NULL;
}

static void blocks_outlive_their_thread(void)
{
    void *address = NULL;
    run_thread(take_one, &address);
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
    CU_ASSERT_EQUAL(stats_now().requested_bytes, 3000);
    give(address);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 0);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_ERR_DOUBLE_FREE);
}

static void many_threads_leave_nothing_behind(void)
{
    for (size_t i = 0; i < 200; i++) {
        run_thread(use_a_little, NULL);
    }
    CU_ASSERT_EQUAL(stats_now().alloc_count, 4000);
    trim();
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

/* ---- a thread and an allocator end in either order ---- */

typedef struct survivor {
    dao_gate_t first;
    dao_gate_t second;
} survivor_t;

static void *outlive(void *user)
{
    survivor_t *survivor = user;
    give(take(1000));
    dao_gate_wait(&survivor->first); /* the allocator is replaced meanwhile */
    give(take(1000));
    dao_gate_wait(&survivor->second); /* and ends */
    return NULL;
}

static void a_thread_may_outlive_the_allocator(void)
{
    survivor_t survivor;
    dao_gate_init(&survivor.first);
    dao_gate_init(&survivor.second);
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "survivor", outlive, &survivor), DAO_OK);
    dao_gate_await_reached(&survivor.first);
    end();
    begin(); /* in the slot of the one before */
    dao_gate_open(&survivor.first);
    dao_gate_await_reached(&survivor.second);
    CU_ASSERT_EQUAL(stats_now().alloc_count, 1);
    end();
    dao_gate_open(&survivor.second);
    dao_thread_join(&thread);
    begin();
    dao_gate_finish(&survivor.first);
    dao_gate_finish(&survivor.second);
}

static void allocators_beyond_the_slots_do_without(void)
{
    enum { COUNT = DAO_MAGAZINES_OWNER_MAX + 2 };
    static dao_allocator_t *fronts[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        dao_allocator_t *below = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_host_allocator_create(&(dao_host_config_t){.name = "cpu"}, &below), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_thread_cache_create(below, "cpu", &dao_slab_host_sizes, 0, &fronts[i]),
                              DAO_OK);
        void *address = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_allocator_alloc(fronts[i], 1000, &address), DAO_OK);
        CU_ASSERT_EQUAL(dao_allocator_free(fronts[i], address), DAO_OK);
        dao_stats_t stats;
        fronts[i]->ops->stats_get(fronts[i], &stats);
        CU_ASSERT_EQUAL(stats.free_count, 1);
        CU_ASSERT_TRUE(stats.peak_used_bytes >= 1000);
        CU_ASSERT_EQUAL(stats.cached_bytes > 0,
                        i < DAO_MAGAZINES_OWNER_MAX - 1); /* `allocator` has one, too */
        CU_ASSERT_TRUE(fronts[i]->ops->is_valid(fronts[i]));
    }
    for (size_t i = 0; i < COUNT; i++) {
        fronts[i]->ops->destroy(fronts[i]);
    }
}

/* ---- blocks change hands ---- */

enum { RING = 64, HANDED_COUNT = 20000 };

/* Blocks on their way from one thread to another. */
typedef struct ring {
    dao_mutex_t lock;
    dao_cond_t changed;
    void *blocks[RING];
    size_t first;
    size_t count;
    _Atomic size_t failures; /* threads that run at the same time do not assert */
} ring_t;

static void ring_put(ring_t *ring, void *block)
{
    dao_mutex_lock(&ring->lock);
    while (ring->count == RING) {
        dao_cond_wait(&ring->changed, &ring->lock);
    }
    ring->blocks[(ring->first + ring->count++) % RING] = block;
    dao_cond_broadcast(&ring->changed);
    dao_mutex_unlock(&ring->lock);
}

static void *ring_get(ring_t *ring)
{
    dao_mutex_lock(&ring->lock);
    while (ring->count == 0) {
        dao_cond_wait(&ring->changed, &ring->lock);
    }
    void *block = ring->blocks[ring->first];
    ring->first = (ring->first + 1) % RING;
    ring->count--;
    dao_cond_broadcast(&ring->changed);
    dao_mutex_unlock(&ring->lock);
    return block;
}

static void *produce(void *user)
{
    ring_t *ring = user;
    for (size_t i = 0; i < HANDED_COUNT; i++) {
        void *address = NULL;
        ring->failures += dao_allocator_alloc(allocator, 3072 + i % 4 * 256, &address) != DAO_OK;
        ring_put(ring, address);
    }
    return NULL;
}

static void *consume(void *user)
{
    ring_t *ring = user;
    for (size_t i = 0; i < HANDED_COUNT; i++) {
        ring->failures += dao_allocator_free(allocator, ring_get(ring)) != DAO_OK;
    }
    return NULL;
}

static void a_producer_and_a_consumer_stay_bounded(void)
{
    ring_t ring = {.count = 0};
    dao_mutex_init(&ring.lock, DAO_RANK_LEAF);
    dao_cond_init(&ring.changed);
    dao_thread_t producer, consumer;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&producer, "producer", produce, &ring), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&consumer, "consumer", consume, &ring), DAO_OK);
    dao_thread_join(&producer);
    dao_thread_join(&consumer);
    CU_ASSERT_EQUAL(ring.failures, 0);
    dao_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.alloc_count, HANDED_COUNT);
    CU_ASSERT_EQUAL(stats.live_count, 0);
    CU_ASSERT_EQUAL(stats.used_bytes, 0);
    /* on the way, kept by both, and slabs that are not full */
    uint64_t most_bytes =
        (RING + 2) * 4 * KIB + 2 * dao_slab_device_sizes.kept_bytes + 4 * 2 * DAO_SLAB_BYTES_MAX;
    CU_ASSERT_TRUE(stats.peak_used_bytes >= 3072 && stats.peak_used_bytes <= most_bytes);
    dao_cond_finish(&ring.changed);
    dao_mutex_finish(&ring.lock);
    trim();
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

/* ---- the mailbox ---- */

typedef struct mailing {
    dao_gate_t gate;
    void *blocks[400];
} mailing_t;

/* The visit of a walk holds the front's lock. */
static void hold_up(const dao_block_t *block, void *user)
{
    (void)block;
    dao_gate_wait(user);
}

static void *walk_and_hold_up(void *user)
{
    allocator->ops->walk(allocator, hold_up, user);
    return NULL;
}

static void a_free_does_not_wait_for_the_lock(void)
{
    enum { COUNT = 400 };
    static mailing_t mailing;
    dao_gate_init(&mailing.gate);
    for (size_t i = 0; i < COUNT; i++) {
        mailing.blocks[i] = take(1024);
    }
    void *stays = take(1024);
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "walk", walk_and_hold_up, &mailing.gate), DAO_OK);
    dao_gate_await_reached(&mailing.gate);
    for (size_t i = 0; i < COUNT; i++) {
        give(mailing.blocks[i]); /* more than this thread may keep */
    }
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, mailing.blocks[0]), DAO_ERR_DOUBLE_FREE); /* in the mail */
    dao_gate_open(&mailing.gate);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
    CU_ASSERT_EQUAL(stats_now().used_bytes, 1024);
    CU_ASSERT_TRUE(bytes_below() > 300 * KIB); /* not put back yet */
    give(stays);
    trim();
    CU_ASSERT_EQUAL(bytes_below(), 0);
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
    dao_gate_finish(&mailing.gate);
}

/* ---- pressure ---- */

static void *keep_and_wait(void *user)
{
    survivor_t *survivor = user;
    (void)use_a_little(NULL);
    dao_gate_wait(&survivor->first);
    give(take(3 * KIB)); /* any call for a small block will do; it keeps some of these, and no others */
    dao_gate_wait(&survivor->second);
    return NULL;
}

/* A thread that has used a little, and waits at its first gate. */
static dao_thread_t keeper_start(survivor_t *survivor, void *(*function)(void *))
{
    dao_thread_t thread;
    dao_gate_init(&survivor->first);
    dao_gate_init(&survivor->second);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "keeper", function, survivor), DAO_OK);
    dao_gate_await_reached(&survivor->first);
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
    return thread;
}

static void keeper_join(survivor_t *survivor, dao_thread_t *thread)
{
    dao_gate_open(&survivor->first);
    dao_gate_await_reached(&survivor->second);
    dao_gate_open(&survivor->second);
    dao_thread_join(thread);
    dao_gate_finish(&survivor->first);
    dao_gate_finish(&survivor->second);
}

/* A sandbox may forbid the barrier; then it stays until the thread's next call. */
static void what_a_waiting_thread_keeps_is_there_for_others(void)
{
    survivor_t survivor;
    dao_thread_t thread = keeper_start(&survivor, keep_and_wait);
    void *address = NULL;
    dao_status_t status = dao_allocator_alloc(allocator, CAPACITY_BYTES, &address);
    if (dao_threads_barrier()) {
        CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
        CU_ASSERT_EQUAL(stats_now().cached_bytes, 0);
        give(address);
    } else {
        CU_ASSERT_EQUAL(status, DAO_ERR_NO_DEVICE_MEMORY);
    }
    keeper_join(&survivor, &thread);
    give(take(CAPACITY_BYTES));
}

static void what_an_idle_thread_keeps_goes_back(void)
{
    survivor_t survivor;
    dao_thread_t thread = keeper_start(&survivor, keep_and_wait);
    void *addresses[1024];
    for (size_t round = 0; round < 200; round++) { /* others come to the slabs for three ticks and more */
        for (size_t i = 0; i < 1024; i++) {
            addresses[i] = take(256);
        }
        for (size_t i = 0; i < 1024; i++) {
            give(addresses[i]);
        }
    }
    CU_ASSERT_EQUAL(stats_now().cached_bytes <= 64 * (size_t)256, dao_threads_barrier());
    keeper_join(&survivor, &thread);
}

/* ---- a thread inside of a call ---- */

static const dao_allocator_ops_t *inner_ops; /* as they are */
static survivor_t *held_up;

/* As an inner allocator that logs once, whose callback allocates and frees, and then waits. */
static dao_status_t alloc_and_wait(dao_allocator_t *below, const dao_block_request_t *request,
                                   dao_block_grant_t *out_grant)
{
    below->ops = inner_ops;
    give(take(2000)); /* by the fast path */
    dao_gate_wait(&held_up->first);
    return below->ops->alloc(below, request, out_grant);
}

static void *keep_and_wait_inside(void *user)
{
    survivor_t *survivor = user;
    (void)use_a_little(NULL);
    dao_allocator_ops_t waiting_ops = *inner_ops;
    waiting_ops.alloc = alloc_and_wait;
    inner->ops = &waiting_ops;
    give(take(100)); /* from a new slab */
    give(take(2000));
    dao_gate_wait(&survivor->second);
    return NULL;
}

/* Its call goes on as if nobody had asked, and its next one flushes. */
static void what_a_thread_keeps_is_its_own_while_it_is_in_a_call(void)
{
    survivor_t survivor;
    held_up = &survivor;
    inner_ops = inner->ops;
    dao_thread_t thread = keeper_start(&survivor, keep_and_wait_inside);
    uint64_t kept_bytes = stats_now().cached_bytes;
    trim();
    CU_ASSERT_EQUAL(stats_now().cached_bytes, kept_bytes);
    dao_gate_open(&survivor.first);
    dao_gate_await_reached(&survivor.second);
    CU_ASSERT_TRUE(stats_now().cached_bytes < kept_bytes);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    keeper_join(&survivor, &thread);
}

#if defined(DAO_FAULTS)

static void without_a_barrier_other_threads_flush_at_their_next_call(void)
{
    survivor_t survivor;
    dao_thread_t thread = keeper_start(&survivor, keep_and_wait);
    void *address = NULL;
    dao_fault_arm(DAO_FAULT_THREADS_BARRIER, 0, true);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, CAPACITY_BYTES, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0);
    dao_gate_open(&survivor.first);
    dao_gate_await_reached(&survivor.second);
    CU_ASSERT_EQUAL(stats_now().cached_bytes % (3 * KIB), 0);
    trim();
    keeper_join(&survivor, &thread);
    give(take(CAPACITY_BYTES));
}

#endif

/* ---- peaks ---- */

static void peaks_of_several_threads_are_never_too_low(void)
{
    void *own = take(1000), *other = NULL;
    run_thread(take_one, &other);
    dao_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.used_bytes, 1024 + 3072);
    CU_ASSERT_TRUE(stats.peak_used_bytes >= stats.used_bytes);
    CU_ASSERT_TRUE(stats.peak_used_bytes <= bytes_below());
    give(own);
    allocator->ops->stats_reset_peaks(allocator, NULL);
    give(other);
    CU_ASSERT_TRUE(stats_now().peak_used_bytes >= 3072 && stats_now().peak_used_bytes <= bytes_below());
    CU_ASSERT_TRUE(stats_now().peak_requested_bytes >= 3000);
    uint64_t slab_bytes = bytes_below();
    give(take(2 * MIB));
    CU_ASSERT_EQUAL(stats_now().peak_used_bytes, 2 * MIB + slab_bytes);
}

/* ---- without host memory ---- */

#if defined(DAO_FAULTS)

static void *free_without_magazines(void *user)
{
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    dao_status_t status = dao_allocator_free(allocator, user);
    (void)dao_fault_disarm();
    CU_ASSERT_EQUAL(status, DAO_OK);
    return NULL;
}

static void *take_without_magazines(void *user)
{
    dao_fault_arm(DAO_FAULT_THREAD, 0, true);
    *(void **)user = take(500);
    (void)dao_fault_disarm();
    return NULL;
}

static void a_thread_without_magazines_is_served(void)
{
    void *address = take(4000), *other = NULL;
    run_thread(free_without_magazines, address);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, address), DAO_ERR_DOUBLE_FREE);
    dao_thread_t thread; /* started by hand: starting it is a fault point, too */
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "without", take_without_magazines, &other), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(stats_now().live_count, 1);
    CU_ASSERT_TRUE(stats_now().peak_used_bytes >= 4096);
    give(other);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
}

#endif

/* ---- forks ---- */

#if !defined(TEST_HAS_THREAD_SANITIZER) /* its own thread would live on in the child */

static void a_forked_child_ends_its_thread_in_peace(void)
{
    give(take(100));
    pid_t child = fork();
    if (child == 0) {
        pthread_exit(NULL); /* its last thread: the process ends with 0 */
    }
    CU_ASSERT_TRUE_FATAL(child > 0);
    int state = 0;
    CU_ASSERT_EQUAL(waitpid(child, &state, 0), child);
    CU_ASSERT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CU_ASSERT_TRUE(stats_now().cached_bytes > 0); /* the parent's is the parent's */
}

#endif

/* ---- random operations, several threads, every byte checked ---- */

enum { PLAYERS = 4, HELD = 40, STEPS = 6000, SHARED = 32 };

static _Atomic(unsigned char *) shared_blocks[SHARED]; /* blocks that wait to be freed by whoever comes */

typedef struct player {
    uint64_t seed;
    unsigned char pattern;
    size_t failures;
} player_t;

/* The first bytes of a block say what it holds. */
typedef struct label {
    size_t size_bytes;
    unsigned char pattern;
} label_t;

static unsigned char *take_labelled(player_t *own)
{
    uint64_t dice = dao_random_next(&own->seed);
    size_t size_bytes =
        sizeof(label_t) + (size_t)(dao_random_next(&own->seed) % (dice % 16 == 0 ? 100000 : 6000));
    void *address = NULL;
    if (dao_allocator_alloc(allocator, size_bytes, &address) != DAO_OK) {
        own->failures++;
        return NULL;
    }
    memset(address, own->pattern, size_bytes);
    memcpy(address, &(label_t){.size_bytes = size_bytes, .pattern = own->pattern}, sizeof(label_t));
    return address;
}

static void give_labelled(player_t *own, unsigned char *address)
{
    label_t label;
    memcpy(&label, address, sizeof(label));
    for (size_t i = sizeof(label); i < label.size_bytes; i++) {
        own->failures += address[i] != label.pattern;
    }
    own->failures += dao_allocator_free(allocator, address) != DAO_OK;
}

static void *play(void *user)
{
    player_t *own = user;
    unsigned char *held[HELD] = {NULL};
    for (size_t i = 0; i < STEPS; i++) {
        size_t slot = (size_t)(dao_random_next(&own->seed) % HELD);
        if (held[slot] == NULL) {
            held[slot] = take_labelled(own);
        } else if (dao_random_next(&own->seed) % 3 == 0) {
            held[slot] = atomic_exchange(&shared_blocks[dao_random_next(&own->seed) % SHARED], held[slot]);
        } else {
            give_labelled(own, held[slot]);
            held[slot] = NULL;
        }
        if (i % 500 == 499) {
            dao_stats_t stats;
            allocator->ops->stats_get(allocator, &stats);
            own->failures += stats.used_bytes > stats.reserved_bytes;
            own->failures += stats.peak_used_bytes < stats.used_bytes;
            own->failures += stats.alloc_count - stats.free_count != stats.live_count;
            size_t released_bytes = 0;
            own->failures += allocator->ops->trim(allocator, 0, &released_bytes) != DAO_OK;
        }
    }
    for (size_t slot = 0; slot < HELD; slot++) {
        if (held[slot] != NULL) {
            give_labelled(own, held[slot]);
        }
    }
    return NULL;
}

static void threads_that_share_blocks_do_not_harm_each_other(void)
{
    uint64_t seed = dao_test_seed("slab threads", 17);
    player_t players[PLAYERS];
    dao_thread_t threads[PLAYERS];
    for (size_t i = 0; i < PLAYERS; i++) {
        players[i] = (player_t){.seed = seed + i, .pattern = (unsigned char)(0x40 + i)};
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "player", play, &players[i]), DAO_OK);
    }
    for (size_t i = 0; i < PLAYERS; i++) {
        dao_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(players[i].failures, 0);
    }
    for (size_t i = 0; i < SHARED; i++) {
        unsigned char *address = atomic_exchange(&shared_blocks[i], NULL);
        if (address != NULL) {
            give_labelled(&players[0], address);
        }
    }
    CU_ASSERT_EQUAL(players[0].failures, 0);
    dao_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.live_count, 0);
    CU_ASSERT_EQUAL(stats.used_bytes, 0);
    CU_ASSERT_EQUAL(stats.requested_bytes, 0);
    trim();
    CU_ASSERT_EQUAL(stats_now().reserved_bytes, 0);
}

/* ---- where the fast paths end ---- */

static uint32_t fallback_count;

static void *alloc_counted(void *user, size_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes};
    dao_block_grant_t grant = {0};
    fallback_count++;
    return allocator->ops->alloc(user, &request, &grant) == DAO_OK ? grant.address : NULL;
}

static dao_status_t free_counted(void *user, void *address)
{
    fallback_count++;
    return allocator->ops->free(user, address, NULL);
}

static void fallbacks_count(void)
{
    fallback_count = 0;
    allocator->fallback = (dao_fallback_t){.alloc = alloc_counted, .free = free_counted, .user = allocator};
}

static void *take_fast(size_t size_bytes)
{
    void *address = allocator->ops->alloc_fast(allocator, size_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(address);
    return address;
}

static void give_fast(void *address)
{
    CU_ASSERT_EQUAL(allocator->ops->free_fast(allocator, address), DAO_OK);
}

/* Many batches of objects, which come from slabs that there are and go back to them. */
static void batches_come_and_go_on_the_fast_path(void)
{
    static void *addresses[500];
    fallbacks_count();
    void *last = take_fast(1 * KIB); /* of the first slab, which stays */
    for (size_t i = 0; i < 500; i++) {
        addresses[i] = take_fast(1 * KIB);
    }
    CU_ASSERT_TRUE(fallback_count > 0); /* new slabs are the slow path's */
    CU_ASSERT_TRUE(fallback_count < 50);
    uint64_t before_count = stats_now().slow_count;
    fallback_count = 0;
    for (size_t i = 0; i < 500; i += 2) {
        give_fast(addresses[i]);
    }
    CU_ASSERT_TRUE(stats_now().slow_count > before_count);
    for (size_t i = 0; i < 500; i += 2) {
        addresses[i] = take_fast(1 * KIB);
    }
    CU_ASSERT_EQUAL(fallback_count, 0);
    CU_ASSERT_TRUE(allocator->ops->is_valid(allocator));
    for (size_t i = 0; i < 500; i++) {
        give_fast(addresses[i]);
    }
    give_fast(last);
    CU_ASSERT_EQUAL(fallback_count, 0);
    CU_ASSERT_EQUAL(stats_now().live_count, 0);
}

static const dao_allocator_ops_t *ops_below;
static bool is_waiting;

/* A thread begins to wait for memory, just before a slab comes back. */
static dao_status_t free_and_wait(dao_allocator_t *below, void *address, dao_stream_fence_t *fence,
                                  dao_block_owner_t owner)
{
    if (!is_waiting) {
        is_waiting = true;
        dao_slow_path_begin();
    }
    return ops_below->free_owned(below, address, fence, owner);
}

/* Then the free that has given it back goes the slow way, which wakes the thread. */
static void a_flush_looks_for_who_waits(void)
{
    static void *addresses[500];
    fallbacks_count();
    for (size_t i = 0; i < 500; i++) {
        addresses[i] = take(1 * KIB);
    }
    ops_below = inner->ops;
    dao_allocator_ops_t ops = *ops_below;
    ops.free_owned = free_and_wait;
    inner->ops = &ops;
    is_waiting = false;
    size_t count = 0;
    while (count < 500 && !is_waiting) {
        give_fast(addresses[count++]);
    }
    inner->ops = ops_below;
    CU_ASSERT_TRUE_FATAL(is_waiting);
    CU_ASSERT_EQUAL(fallback_count, 1);
    dao_slow_path_end();
    while (count < 500) {
        give_fast(addresses[count++]);
    }
    CU_ASSERT_EQUAL(fallback_count, 1);
}

static CU_TestInfo tests[] = {
    {"what a thread keeps goes back as it ends", what_a_thread_keeps_goes_back_as_it_ends},
    {"blocks outlive their thread", blocks_outlive_their_thread},
    {"many threads leave nothing behind", many_threads_leave_nothing_behind},
    {"a thread may outlive the allocator", a_thread_may_outlive_the_allocator},
    {"allocators beyond the slots do without", allocators_beyond_the_slots_do_without},
    {"a producer and a consumer stay bounded", a_producer_and_a_consumer_stay_bounded},
    {"a free does not wait for the lock", a_free_does_not_wait_for_the_lock},
    {"what a waiting thread keeps is there for others", what_a_waiting_thread_keeps_is_there_for_others},
    {"what an idle thread keeps goes back", what_an_idle_thread_keeps_goes_back},
    {"what a thread keeps is its own while it is in a call",
     what_a_thread_keeps_is_its_own_while_it_is_in_a_call},
    {"peaks of several threads are never too low", peaks_of_several_threads_are_never_too_low},
    {"batches come and go on the fast path", batches_come_and_go_on_the_fast_path},
    {"a flush looks for who waits", a_flush_looks_for_who_waits},
#if defined(DAO_FAULTS)
    {"without a barrier other threads flush at their next call",
     without_a_barrier_other_threads_flush_at_their_next_call},
    {"a thread without magazines is served", a_thread_without_magazines_is_served},
#endif
#if !defined(TEST_HAS_THREAD_SANITIZER)
    {"a forked child ends its thread in peace", a_forked_child_ends_its_thread_in_peace},
#endif
    CU_TEST_INFO_NULL,
};

static CU_TestInfo host_tests[] = {
    {"threads that share blocks do not harm each other", threads_that_share_blocks_do_not_harm_each_other},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"slab, threads", NULL, NULL, begin, end, tests},
        {"slab, threads, over host memory", NULL, NULL, host_begin, host_end, host_tests},
        CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
