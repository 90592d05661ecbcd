/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: blocks of another allocator, each cut into objects of one size. What is here is shared by all
   threads; what a thread keeps for itself is in magazines.h. Not thread-safe, but for dao_slabs_mail() and
   what is read by an entry or an object: the owner locks. The memory of the objects is never touched. */
#ifndef DAO_ALLOCATORS_SLAB_H
#define DAO_ALLOCATORS_SLAB_H

#include "allocators/accounting/ledger.h"
#include "allocators/slab/slab_map.h"

/* Largest object. */
#define DAO_SLAB_OBJECT_BYTES_MAX ((size_t)32 << 10)

/* Most sizes of objects that there may be, and the smallest unit of sizes. */
#define DAO_SLAB_CLASS_COUNT    64u
#define DAO_SLAB_UNIT_SHIFT_MIN 6u

/* Which objects there are, and how many of them a thread keeps. */
typedef struct dao_slab_sizes {
    uint32_t unit_shift;   /* objects are multiples of 2^unit_shift bytes, a unit, and aligned to it */
    uint32_t octave_shift; /* 2^octave_shift sizes an octave, from as many units on, which is every number of
                              units up to twice as many; below, every one */
    size_t default_bytes;  /* the largest object, where nobody says */
    size_t kept_bytes;     /* most that a thread keeps, all sizes together */
    size_t magazine_bytes; /* most that it keeps of one size */
} dao_slab_sizes_t;

/* Of places whose blocks are tensors; and of ordinary host memory, whose blocks are anything. */
extern const dao_slab_sizes_t dao_slab_device_sizes;
extern const dao_slab_sizes_t dao_slab_host_sizes;

/* Slabs are multiples of this, as the blocks of the allocators below are: so a slab fills its block. */
#define DAO_SLAB_BLOCK_UNIT_BYTES 256u

/* Most bytes of a slab, and most words of bits for its objects; there are descriptors for each number of
   those. */
#define DAO_SLAB_BYTES_MAX    ((size_t)64 << 10)
#define DAO_SLAB_BIT_WORD_MAX 16u

/* One slab. Descriptors are used again for other slabs, but never freed before the end: a free of a wrong
   address that races with the end of its slab reads memory that is still there. */
typedef struct dao_slab dao_slab_t;
struct dao_slab {
    char *address; /* of the first object */
    uint32_t object_bytes;
    uint32_t object_count;
    uint32_t class_index;
    uint32_t bit_word_count; /* of free_bits and of mail_bits, for 64 objects each; never changes */
    uint32_t free_count;     /* objects that are in the slab: bits in free_bits */
    dao_slab_t *next;        /* in the list that it is in: of its class, retired, or unused */
    dao_slab_t *previous;    /* in the list of its class */
    dao_slab_t *all_next;    /* in the list of all slabs */
    dao_slab_t *all_previous;
    uint64_t *free_bits;         /* by object: it is in the slab */
    _Atomic uint64_t *mail_bits; /* it was handed over by dao_slabs_mail() */
    _Atomic bool has_mail;       /* the slab is among those with mail, or about to be */
    _Atomic(dao_slab_t *) mail_next;
    /* By object, of those that are handed out: requested bytes below, the tag and the owner above. 0 for all
       others, and for places behind the last one, up to the end of the granule. */
    _Atomic uint32_t words[];
};

typedef struct dao_slab_class {
    dao_slab_t *partial; /* slabs that have free objects, and others */
    dao_slab_t *spare;   /* one that has free objects alone, or NULL */
    bool spare_is_idle;  /* it was there at the last dao_slabs_drop_idle() */
    uint64_t out_count;  /* objects that are not in their slabs */
} dao_slab_class_t;

/* Classes by the units of a request, less 1. */
#define DAO_SLAB_UNIT_COUNT_MAX (DAO_SLAB_OBJECT_BYTES_MAX >> DAO_SLAB_UNIT_SHIFT_MIN)

typedef struct dao_slabs {
    dao_slab_map_t map;
    const dao_slab_sizes_t *sizes; /* borrowed; as what follows, it never changes */
    uint32_t unit_shift;
    uint8_t class_of_units[DAO_SLAB_UNIT_COUNT_MAX];
    _Atomic uint64_t slab_bytes; /* of all slabs; written under the lock */
    _Atomic(dao_slab_t *) mail;  /* slabs with mail, any thread pushes */
    uint64_t slab_count;
    uint64_t taken_count; /* slabs since the start */
    uint64_t given_count; /* of those, how many have ended */
    dao_slab_class_t classes[DAO_SLAB_CLASS_COUNT];
    dao_slab_t *all;
    dao_slab_t *retired;                       /* slabs that have ended, their memory not yet given back */
    dao_slab_t *unused[DAO_SLAB_BIT_WORD_MAX]; /* descriptors by bit_word_count - 1 */
} dao_slabs_t;

/* `sizes` is borrowed. */
void dao_slabs_init(dao_slabs_t *slabs, const dao_slab_sizes_t *sizes);

/* Frees the descriptors; the slabs themselves are the owner's. Zeroed memory is allowed. */
void dao_slabs_finish(dao_slabs_t *slabs);

/* ---- sizes ---- */

/* Returns the class for a request of 1 .. DAO_SLAB_OBJECT_BYTES_MAX bytes. */
static inline uint32_t dao_slabs_class_of(const dao_slabs_t *slabs, size_t size_bytes)
{
    return slabs->class_of_units[(size_bytes - 1) >> slabs->unit_shift];
}

/* Writes the class of every number of units, less 1, up to DAO_SLAB_OBJECT_BYTES_MAX. */
void dao_slab_classes_fill(const dao_slab_sizes_t *sizes, uint8_t *out_class_of_units);

/* Returns how many classes there are. */
uint32_t dao_slab_class_count(const dao_slab_sizes_t *sizes);

/* Returns the bytes of an object of a class. */
uint32_t dao_slab_object_bytes(const dao_slab_sizes_t *sizes, uint32_t class_index);

/* ---- which object an offset in a slab lies in, without a division: the reciprocal of object_bytes is
        2^32 / object_bytes, rounded up, so less than object_bytes / 2^32 too large; times an offset that is
        less than a part of 1 / object_bytes, since their product is below 2^32 ---- */

static inline uint32_t dao_slab_reciprocal(uint32_t object_bytes)
{
    return UINT32_MAX / object_bytes + 1;
}

static inline uint32_t dao_slab_index(uint32_t offset_bytes, uint32_t reciprocal)
{
    return (uint32_t)((uint64_t)offset_bytes * reciprocal >> 32);
}

/* ---- an object in one word: its slab, and its number in it above ---- */

#define DAO_SLAB_POINTER_BITS 48u

static inline dao_slab_t *dao_slab_of_object(uint64_t object)
{
    return (dao_slab_t *)(uintptr_t)(object & ((UINT64_C(1) << DAO_SLAB_POINTER_BITS) - 1));
}

static inline uint32_t dao_slab_object_index(uint64_t object)
{
    return (uint32_t)(object >> DAO_SLAB_POINTER_BITS);
}

static inline uint64_t dao_slab_object(const dao_slab_t *slab, uint32_t index)
{
    return (uint64_t)(uintptr_t)slab | (uint64_t)index << DAO_SLAB_POINTER_BITS;
}

/* An object as a thread keeps it, to be handed out without a look at its slab: where it is, and where its
   slab keeps what it was asked for. Threads may look at what another one keeps. */
typedef struct dao_slab_item {
    _Atomic(void *) address;
    _Atomic(_Atomic uint32_t *) word;
} dao_slab_item_t;

/* ---- an entry of the map: all that a free has to know of a slab, in one word, so that it cannot be torn.
        From the lowest bit up: the granule's number in the slab (4 bits, those that are 0 in the descriptor's
        address), the address of the descriptor (to bit 47), the class (6), the number of objects less 1 (10)
        ---- */

#define DAO_SLAB_ENTRY_GRANULE_MASK UINT64_C(15)
#define DAO_SLAB_ENTRY_CLASS_SHIFT  48u
#define DAO_SLAB_ENTRY_COUNT_SHIFT  54u

static inline dao_slab_t *dao_slab_of_entry(uint64_t entry)
{
    return (dao_slab_t *)(uintptr_t)(entry & ((UINT64_C(1) << DAO_SLAB_POINTER_BITS) - 1) &
                                     ~DAO_SLAB_ENTRY_GRANULE_MASK);
}

static inline uint32_t dao_slab_entry_class(uint64_t entry)
{
    return (uint32_t)(entry >> DAO_SLAB_ENTRY_CLASS_SHIFT) & (DAO_SLAB_CLASS_COUNT - 1);
}

static inline uint32_t dao_slab_entry_object_count(uint64_t entry)
{
    return (uint32_t)(entry >> DAO_SLAB_ENTRY_COUNT_SHIFT) + 1;
}

/* Returns where in the slab an address lies. */
static inline uint32_t dao_slab_entry_offset(uint64_t entry, const void *address)
{
    uint32_t offset = (uint32_t)((uintptr_t)address & (DAO_SLAB_GRANULE_BYTES - 1));
    return offset | (uint32_t)(entry & DAO_SLAB_ENTRY_GRANULE_MASK) << DAO_SLAB_GRANULE_SHIFT;
}

/* ---- what a slab keeps of an object that is handed out ---- */

#define DAO_SLAB_WORD_TAG_SHIFT   16u
#define DAO_SLAB_WORD_OWNER_SHIFT 26u

/* A larger word has a tag or an owner. */
#define DAO_SLAB_WORD_REQUESTED_MAX ((1u << DAO_SLAB_WORD_TAG_SHIFT) - 1)

/* In place of a word: the owner has freed the object while another thread had the word in its hands, which is
   to take the object back (thread_cache.c). No owner has this number. */
#define DAO_SLAB_WORD_LEFT (UINT32_MAX << DAO_SLAB_WORD_OWNER_SHIFT)

static inline bool dao_slab_word_is_live(uint32_t word)
{
    return word != 0 && word != DAO_SLAB_WORD_LEFT;
}

static inline uint32_t dao_slab_word_requested_bytes(uint32_t word)
{
    return word & 0xffffu;
}

static inline uint32_t dao_slab_word_tag(uint32_t word)
{
    return word >> DAO_SLAB_WORD_TAG_SHIFT &
           ((1u << (DAO_SLAB_WORD_OWNER_SHIFT - DAO_SLAB_WORD_TAG_SHIFT)) - 1);
}

static inline dao_block_owner_t dao_slab_word_owner(uint32_t word)
{
    return (dao_block_owner_t)(word >> DAO_SLAB_WORD_OWNER_SHIFT);
}

/* `mark` is what stands above the requested bytes: of dao_slab_mark(), 0 for no tag of the program's. */
static inline uint32_t dao_slab_word(size_t size_bytes, uint32_t mark)
{
    return (uint32_t)size_bytes | mark << DAO_SLAB_WORD_TAG_SHIFT;
}

static inline uint32_t dao_slab_mark(const dao_block_request_t *request)
{
    return request->tag | (uint32_t)request->owner << (DAO_SLAB_WORD_OWNER_SHIFT - DAO_SLAB_WORD_TAG_SHIFT);
}

/* ---- slabs ---- */

/* Returns how many objects the next slab of a class is to have. */
uint32_t dao_slabs_next_count(const dao_slabs_t *slabs, uint32_t class_index);

/* Returns a descriptor for a slab, to be handed to dao_slabs_add() or dao_slabs_recycle(). NULL without host
   memory. */
dao_slab_t *dao_slabs_prepare(dao_slabs_t *slabs, uint32_t class_index, uint32_t object_count);

/* Makes a block of object_count * object_bytes a slab, all of whose objects are free. False, and nothing
   changed, if it does not begin at a granule (a segment's blocks are aligned only as far as the segment is),
   or if the map cannot take it: without host memory, or above 2^48. */
bool dao_slabs_add(dao_slabs_t *slabs, dao_slab_t *slab, void *address);

/* Takes up to `most` free objects of a class out of its slabs, those of one slab by address, the first one
   last; returns how many. */
uint32_t dao_slabs_take(dao_slabs_t *slabs, uint32_t class_index, dao_slab_item_t *items, uint32_t most);

/* Puts an object that nobody has any more back into its slab. A slab that is whole again becomes the spare
   one of its class, or ends. */
void dao_slabs_give(dao_slabs_t *slabs, uint64_t object);

/* The same for objects of one class, at least one. */
void dao_slabs_give_all(dao_slabs_t *slabs, const dao_slab_item_t *items, uint32_t count);

/* Hands an object over, to be put back by whoever holds the lock next. Threads: any. Lock-free. */
void dao_slabs_mail(dao_slabs_t *slabs, uint64_t object);

/* Tells whether there is any that dao_slabs_drain() would put back. Threads: any. */
static inline bool dao_slabs_has_mail(const dao_slabs_t *slabs)
{
    return atomic_load_explicit(&slabs->mail, memory_order_relaxed) != NULL;
}

/* Puts all objects back that were handed over. */
void dao_slabs_drain(dao_slabs_t *slabs);

/* Ends the spare slabs that were there at the last such call already. */
void dao_slabs_drop_idle(dao_slabs_t *slabs);

/* Ends the spare slabs. */
void dao_slabs_drop_spares(dao_slabs_t *slabs);

/* Takes the slabs that have ended since the last call, linked by `next`: their memory is to be given back,
   which needs no lock, and then they are to be recycled. */
dao_slab_t *dao_slabs_take_retired(dao_slabs_t *slabs);

/* Keeps a descriptor for the next slab. */
void dao_slabs_recycle(dao_slabs_t *slabs, dao_slab_t *slab);

/* Sees the objects that are handed out. */
void dao_slabs_walk(const dao_slabs_t *slabs, dao_block_visit_t visit, void *user);

/* These three look at the entry alone: the slab may have ended, and its descriptor be another one's. */

/* Returns the number of the object that an address of an entry's slab lies in. False: it lies behind the last
   one. */
bool dao_slab_entry_object_index(const dao_slab_sizes_t *sizes, uint64_t entry, const void *address,
                                 uint32_t *out_index);

/* Returns true if that object begins at the address. */
bool dao_slab_entry_begins_object(const dao_slab_sizes_t *sizes, uint64_t entry, const void *address);

/* Returns an object of an entry as a block; word is not 0. */
dao_block_t dao_slab_describe(const dao_slab_sizes_t *sizes, uint64_t entry, const void *address,
                              uint32_t word);

/* Returns the object that an address, which belongs to a slab, lies in. */
uint64_t dao_slabs_object_at(const dao_slabs_t *slabs, const void *address);

/* Returns the slab of an object that a thread keeps, and the object's number in it. */
static inline dao_slab_t *dao_slabs_slab_of(const dao_slabs_t *slabs, const dao_slab_item_t *item)
{
    void *address = atomic_load_explicit(&item->address, memory_order_relaxed);
    return dao_slab_of_entry(dao_slab_map_get(&slabs->map, address));
}

static inline uint32_t dao_slab_item_index(dao_slab_t *slab, const dao_slab_item_t *item)
{
    return (uint32_t)(atomic_load_explicit(&item->word, memory_order_relaxed) - slab->words);
}

/* Checks all that the lock guards. */
bool dao_slabs_is_valid(const dao_slabs_t *slabs);

/* Adds the objects that are handed out to a recount, and gives the bytes of those that are neither handed out
   nor in their slab. Right while no other thread allocates or frees. */
uint64_t dao_slabs_recount(const dao_slabs_t *slabs, dao_recount_t *recount);

/* Returns the bytes that were handed over by dao_slabs_mail() and not yet put back. As
   dao_slabs_recount(). */
uint64_t dao_slabs_mail_bytes(const dao_slabs_t *slabs);

#endif
