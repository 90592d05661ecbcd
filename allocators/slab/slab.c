/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs, the lists that they are in, and the mailbox.

       slab       [ obj | obj | obj | ... | obj ]      a block of the allocator below, of any end
       granules   [      ][      ][      ][      ]     each has an entry in the map; no granule has two slabs
       words      [ 300 |  0  | 256 | ...              what is handed out, by object
       free_bits  [  -  |  1  |  -  | ...              what is in the slab

   An object is in exactly one place. What holds there:

                        word    free bit   mail bit
       handed out       not 0      0          0
       in a magazine      0        0          0       of one thread, which alone may hand it out
       in the mail        0        0          1
       in its slab        0        1          0

   A slab's states; one that has just been added is partial for the moment, although all of it is free:

       state     free_count               in                    made by            left by
       partial   1 .. object_count - 1    the list of its class add, give, take    take, give
       full      0                        no list               take               give
       spare     object_count             class.spare           give               take, drop_spares, give
       retired   object_count, no bits    slabs.retired         give, drop_spares  take_retired
       unused    no bits                  slabs.unused          recycle            prepare

   A retired slab has left the map; the owner gives its memory back without the lock, then recycles it.

       out_count == objects of the class that have no free bit
       slab_bytes == sum of object_count * object_bytes
       slab_count == taken_count - given_count

   The mailbox is for threads that have objects to put back while another one holds the lock. Why it is right:

   - A thread sets the object's bit, then marks the slab with has_mail; if it was not marked it pushes the
     slab. A drain takes the whole stack with one exchange; of each slab it reads the next one, takes the mark
     off, then takes the bits. Both change has_mail by read-modify-writes that acquire and release. A thread
     that found the mark had set its bit before the mark was taken off, so the bits that are taken then have
     it. A thread that found no mark pushes, and the next drain finds it. No bit is left without its slab in
     the stack or in the hands of a thread that is about to push it.
   - Nothing is popped singly, so a head that is seen again is really the top again: there is no ABA.
     mail_next is written only by the thread that set the mark, so a slab is in the stack once.
   - A slab with an object in the mail has that object out, so it does not end. But a thread may push a slab
     whose bit another drain has taken already. It may have ended by then, even be another slab: its
     descriptor still exists, its bits are 0, and draining it puts nothing back. That is why the mark and
     mail_next are never reset. */
#include "allocators/slab/slab.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <assert.h>

/* A new slab adds one part in so many to its class, but never less than a granule. Small slabs: one object
   that a thread keeps holds its whole slab back. On recorded steps of five models slabs of at most 64 KiB
   cost 0.02 to 0.4 % of the peak, ones of 256 KiB up to 1.1 %. */
#define POPULATION_SHARE 8u

/* Bits of a word of free_bits and mail_bits. */
#define BITS 64u

static_assert(DAO_SLAB_BYTES_MAX >> DAO_SLAB_UNIT_SHIFT_MIN == BITS * DAO_SLAB_BIT_WORD_MAX,
              "every object has a bit");
static_assert(DAO_SLAB_BYTES_MAX >> DAO_SLAB_GRANULE_SHIFT <= DAO_SLAB_ENTRY_GRANULE_MASK + 1,
              "granules fit into an entry");
static_assert(DAO_SLAB_BYTES_MAX >> DAO_SLAB_UNIT_SHIFT_MIN <= UINT64_C(1)
                                                                   << (64 - DAO_SLAB_ENTRY_COUNT_SHIFT),
              "counts fit into an entry");
static_assert(DAO_SLAB_CLASS_COUNT <= 1u << (DAO_SLAB_ENTRY_COUNT_SHIFT - DAO_SLAB_ENTRY_CLASS_SHIFT),
              "classes fit into an entry");
static_assert(DAO_SLAB_OBJECT_BYTES_MAX < 1u << DAO_SLAB_WORD_TAG_SHIFT, "a request fits");
static_assert(DAO_SLAB_OBJECT_BYTES_MAX * DAO_SLAB_BYTES_MAX <= UINT64_C(1) << 32,
              "dao_slab_index() is exact");
static_assert(DAO_TAG_COUNT_MAX <= 1u << (DAO_SLAB_WORD_OWNER_SHIFT - DAO_SLAB_WORD_TAG_SHIFT), "a tag fits");
#define OWNER_FITS(number, name, text, end)                                                                  \
    static_assert((number) < DAO_SLAB_WORD_LEFT >> DAO_SLAB_WORD_OWNER_SHIFT,                                \
                  "an owner fits, and is not LEFT");
DAO_BLOCK_OWNER_LIST(OWNER_FITS)
#undef OWNER_FITS

/* ---- begin and end ---- */

void dao_slabs_init(dao_slabs_t *slabs, const dao_slab_sizes_t *sizes)
{
    DAO_ASSERT(sizes->unit_shift >= DAO_SLAB_UNIT_SHIFT_MIN);
    DAO_ASSERT(dao_slab_class_count(sizes) <= DAO_SLAB_CLASS_COUNT);
    *slabs = (dao_slabs_t){.sizes = sizes, .unit_shift = sizes->unit_shift};
    dao_slab_classes_fill(sizes, slabs->class_of_units);
    dao_slab_map_init(&slabs->map);
}

void dao_slabs_finish(dao_slabs_t *slabs)
{
    for (uint32_t i = 0; i < DAO_SLAB_BIT_WORD_MAX; i++) {
        while (slabs->unused[i] != NULL) {
            dao_slab_t *slab = slabs->unused[i];
            slabs->unused[i] = slab->next;
            dao_host_free(slab);
        }
    }
    while (slabs->all != NULL) {
        dao_slab_t *slab = slabs->all;
        slabs->all = slab->all_next;
        dao_host_free(slab);
    }
    dao_slab_map_finish(&slabs->map);
}

static size_t bytes_of(const dao_slab_t *slab)
{
    return (size_t)slab->object_bytes * slab->object_count;
}

static uint64_t slab_bytes(const dao_slabs_t *slabs)
{
    return atomic_load_explicit(&slabs->slab_bytes, memory_order_relaxed);
}

/* Returns true if an object is in its slab. */
static bool is_free(const dao_slab_t *slab, uint32_t index)
{
    return (slab->free_bits[index / BITS] >> index % BITS & 1u) != 0;
}

static uint32_t word_of(const dao_slab_t *slab, uint32_t index)
{
    return atomic_load_explicit(&slab->words[index], memory_order_relaxed);
}

/* Returns true if any object is in its slab. */
static bool has_free_bits(const dao_slab_t *slab)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < slab->bit_word_count; i++) {
        bits |= slab->free_bits[i];
    }
    return bits != 0;
}

/* ---- lists ---- */

static void class_link(dao_slabs_t *slabs, dao_slab_t *slab)
{
    DAO_ASSERT(slab != NULL);
    dao_slab_class_t *class = &slabs->classes[slab->class_index];
    DAO_ASSERT(slab->free_count > 0);
    slab->previous = NULL;
    slab->next = class->partial;
    if (class->partial != NULL) {
        class->partial->previous = slab;
    }
    class->partial = slab;
}

static void class_unlink(dao_slabs_t *slabs, dao_slab_t *slab)
{
    DAO_ASSERT(slab->previous != NULL || slabs->classes[slab->class_index].partial == slab);
    if (slab->previous != NULL) {
        slab->previous->next = slab->next;
    } else {
        slabs->classes[slab->class_index].partial = slab->next;
    }
    if (slab->next != NULL) {
        slab->next->previous = slab->previous;
    }
}

static void all_link(dao_slabs_t *slabs, dao_slab_t *slab)
{
    slab->all_previous = NULL;
    slab->all_next = slabs->all;
    if (slabs->all != NULL) {
        slabs->all->all_previous = slab;
    }
    slabs->all = slab;
}

static void all_unlink(dao_slabs_t *slabs, dao_slab_t *slab)
{
    DAO_ASSERT(slab->all_previous != NULL || slabs->all == slab);
    if (slab->all_previous != NULL) {
        slab->all_previous->all_next = slab->all_next;
    } else {
        slabs->all = slab->all_next;
    }
    if (slab->all_next != NULL) {
        slab->all_next->all_previous = slab->all_previous;
    }
}

/* ---- slabs begin and end ---- */

/* dao_slabs_next_count() of a class with so many objects out. */
static uint32_t count_for(uint64_t out_count, uint32_t object_bytes)
{
    uint64_t bytes = out_count * object_bytes / POPULATION_SHARE;
    if (bytes > DAO_SLAB_BYTES_MAX) {
        bytes = DAO_SLAB_BYTES_MAX;
    } else if (bytes < DAO_SLAB_GRANULE_BYTES) {
        bytes = DAO_SLAB_GRANULE_BYTES;
    }
    uint32_t count = bytes < object_bytes ? 1 : (uint32_t)(bytes / object_bytes);
    while ((uint64_t)count * object_bytes % DAO_SLAB_BLOCK_UNIT_BYTES != 0) {
        count--; /* objects of an odd size are small, and many */
    }
    DAO_ASSERT(count > 0);
    return count;
}

uint32_t dao_slabs_next_count(const dao_slabs_t *slabs, uint32_t class_index)
{
    return count_for(slabs->classes[class_index].out_count, dao_slab_object_bytes(slabs->sizes, class_index));
}

/* Makes a descriptor, all zero. */
static dao_slab_t *descriptor_create(uint32_t bit_word_count)
{
    size_t words_bytes = sizeof(dao_slab_t) + bit_word_count * BITS * sizeof(uint32_t);
    char *memory = dao_host_calloc(1, words_bytes + 2 * bit_word_count * sizeof(uint64_t));
    if (memory == NULL) {
        return NULL;
    }
    if (((uint64_t)(uintptr_t)memory >> DAO_SLAB_POINTER_BITS) != 0) {
        dao_host_free(memory); /* a system that does not give such addresses unasked */
        return NULL;
    }
    DAO_ASSERT(((uintptr_t)memory & DAO_SLAB_ENTRY_GRANULE_MASK) == 0);
    dao_slab_t *slab = (dao_slab_t *)(void *)memory;
    slab->bit_word_count = bit_word_count;
    slab->free_bits = (uint64_t *)(void *)(memory + words_bytes);
    slab->mail_bits = (_Atomic uint64_t *)(void *)(slab->free_bits + bit_word_count);
    return slab;
}

/* Returns how many words of bits there are for a slab: for all objects that would fit into its granules. */
static uint32_t bit_words_for(uint32_t object_bytes, uint32_t object_count)
{
    size_t granule_count =
        ((size_t)object_bytes * object_count + DAO_SLAB_GRANULE_BYTES - 1) >> DAO_SLAB_GRANULE_SHIFT;
    DAO_ASSERT(granule_count << DAO_SLAB_GRANULE_SHIFT <= DAO_SLAB_BYTES_MAX);
    size_t place_count = ((granule_count << DAO_SLAB_GRANULE_SHIFT) + object_bytes - 1) / object_bytes;
    return (uint32_t)((place_count + BITS - 1) / BITS);
}

dao_slab_t *dao_slabs_prepare(dao_slabs_t *slabs, uint32_t class_index, uint32_t object_count)
{
    uint32_t object_bytes = dao_slab_object_bytes(slabs->sizes, class_index);
    DAO_ASSERT(object_count > 0);
    DAO_ASSERT((uint64_t)object_bytes * object_count % DAO_SLAB_BLOCK_UNIT_BYTES == 0);
    uint32_t bit_word_count = bit_words_for(object_bytes, object_count);
    dao_slab_t *slab = slabs->unused[bit_word_count - 1];
    if (slab != NULL) {
        slabs->unused[bit_word_count - 1] = slab->next;
    } else {
        slab = descriptor_create(bit_word_count);
    }
    if (slab != NULL) {
        slab->class_index = class_index;
        slab->object_bytes = object_bytes;
        slab->object_count = object_count;
        DAO_ASSERT(slab->bit_word_count == bit_word_count);
        DAO_ASSERT(!has_free_bits(slab));
    }
    return slab;
}

void dao_slabs_recycle(dao_slabs_t *slabs, dao_slab_t *slab)
{
    DAO_ASSERT(!has_free_bits(slab));
    slab->next = slabs->unused[slab->bit_word_count - 1];
    slabs->unused[slab->bit_word_count - 1] = slab;
}

/* Writes a slab's entries in the map, or takes them out. */
static void map_slab(dao_slabs_t *slabs, const dao_slab_t *slab, bool is_there)
{
    uint64_t entry = (uint64_t)(uintptr_t)slab | (uint64_t)slab->class_index << DAO_SLAB_ENTRY_CLASS_SHIFT |
                     (uint64_t)(slab->object_count - 1) << DAO_SLAB_ENTRY_COUNT_SHIFT;
    size_t granule = 0;
    for (size_t offset = 0; offset < bytes_of(slab); offset += DAO_SLAB_GRANULE_BYTES) {
        dao_slab_map_set(&slabs->map, slab->address + offset, is_there ? entry | granule : 0);
        granule++;
    }
}

bool dao_slabs_add(dao_slabs_t *slabs, dao_slab_t *slab, void *address)
{
    if ((uintptr_t)address % DAO_SLAB_GRANULE_BYTES != 0 ||
        !dao_slab_map_reserve(&slabs->map, address, bytes_of(slab))) {
        return false;
    }
    DAO_ASSERT(!has_free_bits(slab));
    slab->address = address;
    for (uint32_t i = 0; i < slab->object_count; i++) {
        slab->free_bits[i / BITS] |= UINT64_C(1) << i % BITS;
    }
    slab->free_count = slab->object_count;
    all_link(slabs, slab);
    slabs->slab_count++;
    slabs->taken_count++;
    atomic_store_explicit(&slabs->slab_bytes, slab_bytes(slabs) + bytes_of(slab), memory_order_relaxed);
    class_link(slabs,
               slab); /* its objects are about to be taken; what is then left whole is put right by give */
    map_slab(slabs, slab, true);
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(slabs));
    return true;
}

/* Takes a slab without objects outside of it, and in no list of its class, out of the map. */
static void retire(dao_slabs_t *slabs, dao_slab_t *slab)
{
    DAO_ASSERT(slab->free_count == slab->object_count);
    DAO_ASSERT(slabs->classes[slab->class_index].spare != slab);
    DAO_ASSERT(slabs->slab_count > 0);
    map_slab(slabs, slab, false);
    for (uint32_t i = 0; i < slab->bit_word_count; i++) {
        slab->free_bits[i] = 0;
    }
    all_unlink(slabs, slab);
    slabs->slab_count--;
    slabs->given_count++;
    atomic_store_explicit(&slabs->slab_bytes, slab_bytes(slabs) - bytes_of(slab), memory_order_relaxed);
    slab->next = slabs->retired;
    slabs->retired = slab;
    DAO_ASSERT(dao_slab_map_find(&slabs->map, slab->address) == 0);
    DAO_ASSERT(slabs->taken_count - slabs->given_count == slabs->slab_count);
}

dao_slab_t *dao_slabs_take_retired(dao_slabs_t *slabs)
{
    dao_slab_t *first = slabs->retired;
    slabs->retired = NULL;
    return first;
}

static void drop_spare(dao_slabs_t *slabs, dao_slab_class_t *class)
{
    dao_slab_t *spare = class->spare;
    if (spare != NULL) {
        class->spare = NULL;
        retire(slabs, spare);
    }
}

void dao_slabs_drop_idle(dao_slabs_t *slabs)
{
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        dao_slab_class_t *class = &slabs->classes[i];
        if (class->spare_is_idle) {
            drop_spare(slabs, class);
        }
        class->spare_is_idle = class->spare != NULL;
    }
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(slabs));
}

void dao_slabs_drop_spares(dao_slabs_t *slabs)
{
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        drop_spare(slabs, &slabs->classes[i]);
    }
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(slabs));
}

/* ---- objects ---- */

/* Takes so many objects out of a slab, the first one to just before `end`. */
static void take_from(dao_slab_t *slab, dao_slab_item_t *end, uint32_t count)
{
    DAO_ASSERT(count > 0 && count <= slab->free_count);
    char *address = slab->address;
    size_t object_bytes = slab->object_bytes;
    slab->free_count -= count;
    for (uint32_t i = 0; count > 0; i++) {
        uint64_t bits = slab->free_bits[i];
        for (; bits != 0 && count > 0; count--) {
            uint32_t index = i * BITS + (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            end--;
            atomic_store_explicit(&end->address, address + index * object_bytes, memory_order_relaxed);
            atomic_store_explicit(&end->word, &slab->words[index], memory_order_relaxed);
        }
        slab->free_bits[i] = bits;
    }
    DAO_ASSERT(slab->free_count < slab->object_count);
    DAO_ASSERT((slab->free_count == 0) == !has_free_bits(slab));
}

/* Returns how many objects the partial slabs of a class have, `most` at most; the spare one is made partial
   if they have none. */
static uint32_t count_free(dao_slabs_t *slabs, dao_slab_class_t *class, uint32_t most)
{
    if (class->partial == NULL && class->spare != NULL) {
        class_link(slabs, class->spare);
        class->spare = NULL;
    }
    uint32_t count = 0;
    for (const dao_slab_t *slab = class->partial; slab != NULL && count < most; slab = slab->next) {
        count += slab->free_count;
    }
    return count < most ? count : most;
}

uint32_t dao_slabs_take(dao_slabs_t *slabs, uint32_t class_index, dao_slab_item_t *items, uint32_t most)
{
    DAO_ASSERT(class_index < DAO_SLAB_CLASS_COUNT && most > 0);
    dao_slab_class_t *class = &slabs->classes[class_index];
    uint32_t count = count_free(slabs, class, most), left = count;
    dao_slab_t *slab = class->partial;
    while (left > 0) {
        uint32_t taken_count = slab->free_count < left ? slab->free_count : left;
        take_from(slab, &items[left], taken_count);
        left -= taken_count;
        slab = slab->free_count > 0 ? slab : slab->next;
    }
    class->partial = slab;
    if (slab != NULL) {
        slab->previous = NULL;
    }
    class->out_count += count;
    DAO_ASSERT_HEAVY(dao_slabs_is_valid(slabs));
    return count;
}

/* A slab has become whole, and is in no list: keeps it if the class has no spare one. */
static void settle_whole(dao_slabs_t *slabs, dao_slab_t *slab)
{
    DAO_ASSERT(slab->free_count == slab->object_count);
    dao_slab_class_t *class = &slabs->classes[slab->class_index];
    if (class->spare == NULL) {
        class->spare = slab;
        class->spare_is_idle = false;
    } else {
        retire(slabs, slab);
    }
}

/* Ends a spare slab that is larger than a new one would be. */
static void check_spare(dao_slabs_t *slabs, dao_slab_class_t *class)
{
    dao_slab_t *spare = class->spare;
    if (spare != NULL && spare->object_count > count_for(class->out_count, spare->object_bytes)) {
        class->spare = NULL;
        retire(slabs, spare);
    }
}

/* Puts an object back into its slab. */
static void put_back(dao_slabs_t *slabs, dao_slab_t *slab, uint32_t index)
{
    DAO_ASSERT(index < slab->object_count);
    DAO_ASSERT(!is_free(slab, index));
    DAO_ASSERT(word_of(slab, index) == 0);
    slab->free_bits[index / BITS] |= UINT64_C(1) << index % BITS;
    slab->free_count++;
    bool is_whole = slab->free_count == slab->object_count;
    bool is_listed = slab->free_count > 1;
    if (is_whole && is_listed) {
        class_unlink(slabs, slab);
    } else if (!is_whole && !is_listed) {
        class_link(slabs, slab);
    }
    if (is_whole) {
        settle_whole(slabs, slab);
    }
}

/* So many objects of a class were put back. */
static void count_back(dao_slabs_t *slabs, uint32_t class_index, uint32_t count)
{
    dao_slab_class_t *class = &slabs->classes[class_index];
    DAO_ASSERT(class->out_count >= count);
    class->out_count -= count;
    check_spare(slabs, class);
}

void dao_slabs_give(dao_slabs_t *slabs, uint64_t object)
{
    dao_slab_t *slab = dao_slab_of_object(object);
    put_back(slabs, slab, dao_slab_object_index(object));
    count_back(slabs, slab->class_index, 1);
}

void dao_slabs_give_all(dao_slabs_t *slabs, const dao_slab_item_t *items, uint32_t count)
{
    DAO_ASSERT(count > 0);
    uint32_t class_index = dao_slabs_slab_of(slabs, &items[0])->class_index;
    for (uint32_t i = 0; i < count; i++) {
        dao_slab_t *slab = dao_slabs_slab_of(slabs, &items[i]);
        DAO_ASSERT(slab->class_index == class_index);
        put_back(slabs, slab, dao_slab_item_index(slab, &items[i]));
    }
    count_back(slabs, class_index, count);
}

/* ---- the mailbox ---- */

void dao_slabs_mail(dao_slabs_t *slabs, uint64_t object)
{
    dao_slab_t *slab = dao_slab_of_object(object);
    uint32_t index = dao_slab_object_index(object);
    DAO_ASSERT(index < slab->object_count);
    DAO_ASSERT(word_of(slab, index) == 0);
    atomic_fetch_or_explicit(&slab->mail_bits[index / BITS], UINT64_C(1) << index % BITS,
                             memory_order_release);
    if (atomic_exchange_explicit(&slab->has_mail, true, memory_order_acq_rel)) {
        return;
    }
    dao_slab_t *head = atomic_load_explicit(&slabs->mail, memory_order_relaxed);
    do {
        atomic_store_explicit(&slab->mail_next, head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&slabs->mail, &head, slab, memory_order_release,
                                                    memory_order_relaxed));
}

/* Puts the objects of one slab back. */
static void drain_slab(dao_slabs_t *slabs, dao_slab_t *slab)
{
    for (uint32_t i = 0; i < slab->bit_word_count; i++) {
        uint64_t bits = atomic_exchange_explicit(&slab->mail_bits[i], 0, memory_order_acquire);
        while (bits != 0) {
            uint32_t bit = (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            dao_slabs_give(slabs, dao_slab_object(slab, i * BITS + bit));
        }
    }
}

void dao_slabs_drain(dao_slabs_t *slabs)
{
    if (atomic_load_explicit(&slabs->mail, memory_order_relaxed) == NULL) {
        return;
    }
    dao_slab_t *slab = atomic_exchange_explicit(&slabs->mail, NULL, memory_order_acquire);
    while (slab != NULL) {
        dao_slab_t *next = atomic_load_explicit(&slab->mail_next, memory_order_relaxed);
        (void)atomic_exchange_explicit(&slab->has_mail, false, memory_order_acq_rel);
        drain_slab(slabs, slab);
        slab = next;
    }
}

uint64_t dao_slabs_mail_bytes(const dao_slabs_t *slabs)
{
    uint64_t bytes = 0;
    for (const dao_slab_t *slab = slabs->all; slab != NULL; slab = slab->all_next) {
        for (uint32_t i = 0; i < slab->bit_word_count; i++) {
            uint64_t bits = atomic_load_explicit(&slab->mail_bits[i], memory_order_relaxed);
            bytes += (uint64_t)__builtin_popcountll(bits) * slab->object_bytes;
        }
    }
    return bytes;
}

/* ---- looking ---- */

bool dao_slab_entry_object_index(const dao_slab_sizes_t *sizes, uint64_t entry, const void *address,
                                 uint32_t *out_index)
{
    uint32_t object_bytes = dao_slab_object_bytes(sizes, dao_slab_entry_class(entry));
    *out_index = dao_slab_entry_offset(entry, address) / object_bytes;
    return *out_index < dao_slab_entry_object_count(entry);
}

bool dao_slab_entry_begins_object(const dao_slab_sizes_t *sizes, uint64_t entry, const void *address)
{
    uint32_t object_bytes = dao_slab_object_bytes(sizes, dao_slab_entry_class(entry));
    return dao_slab_entry_offset(entry, address) % object_bytes == 0;
}

uint64_t dao_slabs_object_at(const dao_slabs_t *slabs, const void *address)
{
    uint64_t entry = dao_slab_map_find(&slabs->map, address);
    uint32_t index = 0;
    bool is_object = dao_slab_entry_object_index(slabs->sizes, entry, address, &index);
    DAO_ASSERT(is_object);
    (void)is_object; /* where nothing is asserted */
    return dao_slab_object(dao_slab_of_entry(entry), index);
}

dao_block_t dao_slab_describe(const dao_slab_sizes_t *sizes, uint64_t entry, const void *address,
                              uint32_t word)
{
    uint32_t object_bytes = dao_slab_object_bytes(sizes, dao_slab_entry_class(entry));
    uint32_t inside_bytes = dao_slab_entry_offset(entry, address) % object_bytes;
    return (dao_block_t){.address = (void *)((uintptr_t)address - inside_bytes),
                         .requested_bytes = dao_slab_word_requested_bytes(word),
                         .block_bytes = object_bytes,
                         .tag = dao_slab_word_tag(word),
                         .owner = dao_slab_word_owner(word),
                         .is_idle_at_free = true};
}

void dao_slabs_walk(const dao_slabs_t *slabs, dao_block_visit_t visit, void *user)
{
    for (dao_slab_t *slab = slabs->all; slab != NULL; slab = slab->all_next) {
        for (uint32_t i = 0; i < slab->object_count; i++) {
            uint32_t word = word_of(slab, i);
            if (dao_slab_word_is_live(word)) {
                dao_block_t block = {.address = slab->address + (size_t)i * slab->object_bytes,
                                     .requested_bytes = dao_slab_word_requested_bytes(word),
                                     .block_bytes = slab->object_bytes,
                                     .tag = dao_slab_word_tag(word),
                                     .owner = dao_slab_word_owner(word),
                                     .is_idle_at_free = true};
                visit(&block, user);
            }
        }
    }
}

/* The part of a check that counts. */
typedef struct slab_sums {
    uint64_t count;
    uint64_t bytes;
    uint64_t out_counts[DAO_SLAB_CLASS_COUNT];
    uint64_t partial_counts[DAO_SLAB_CLASS_COUNT]; /* slabs that belong into the list of their class */
} slab_sums_t;

static bool slab_is_valid(const dao_slabs_t *slabs, const dao_slab_t *slab, slab_sums_t *sums)
{
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < slab->object_count; i++) {
        if (!is_free(slab, i)) {
            continue;
        }
        free_count++;
        if (word_of(slab, i) != 0) {
            return false;
        }
    }
    for (size_t offset = 0; offset < bytes_of(slab); offset += DAO_SLAB_GRANULE_BYTES) {
        uint64_t entry = dao_slab_map_find(&slabs->map, slab->address + offset);
        if (dao_slab_of_entry(entry) != slab || dao_slab_entry_class(entry) != slab->class_index ||
            dao_slab_entry_object_count(entry) != slab->object_count ||
            dao_slab_entry_offset(entry, slab->address + offset) != offset) {
            return false;
        }
    }
    sums->count++;
    sums->bytes += bytes_of(slab);
    sums->out_counts[slab->class_index] += slab->object_count - free_count;
    bool is_spare = slabs->classes[slab->class_index].spare == slab;
    sums->partial_counts[slab->class_index] += free_count > 0 && !is_spare;
    return free_count == slab->free_count && (!is_spare || free_count == slab->object_count) &&
           slab->object_count <= slab->bit_word_count * BITS &&
           (slab->all_next == NULL || slab->all_next->all_previous == slab);
}

bool dao_slabs_is_valid(const dao_slabs_t *slabs)
{
    slab_sums_t sums = {0};
    for (const dao_slab_t *slab = slabs->all; slab != NULL; slab = slab->all_next) {
        if (!slab_is_valid(slabs, slab, &sums)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        uint64_t listed_count = 0;
        for (const dao_slab_t *slab = slabs->classes[i].partial; slab != NULL; slab = slab->next) {
            listed_count++;
            if (slab->class_index != i || slab->free_count == 0 ||
                (slab->next != NULL && slab->next->previous != slab)) {
                return false;
            }
        }
        if (listed_count != sums.partial_counts[i] || sums.out_counts[i] != slabs->classes[i].out_count) {
            return false;
        }
    }
    return sums.count == slabs->slab_count && sums.bytes == slab_bytes(slabs) &&
           slabs->taken_count - slabs->given_count == slabs->slab_count;
}

uint64_t dao_slabs_recount(const dao_slabs_t *slabs, dao_recount_t *recount)
{
    uint64_t idle_bytes = 0;
    for (const dao_slab_t *slab = slabs->all; slab != NULL; slab = slab->all_next) {
        for (uint32_t i = 0; i < slab->object_count; i++) {
            uint32_t word = word_of(slab, i);
            if (dao_slab_word_is_live(word)) {
                recount->requested_bytes += dao_slab_word_requested_bytes(word);
                recount->used_bytes += slab->object_bytes;
                recount->live_count++;
            } else if (!is_free(slab, i)) {
                idle_bytes += slab->object_bytes;
            }
        }
    }
    return idle_bytes;
}
