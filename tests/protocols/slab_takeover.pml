/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread keeps is put back by another one, as allocators/slab/thread_visits.c has it: a thread that
   makes calls, whose processor has its marks of being inside seen later than it goes on, and one that takes
   what it keeps away, twice. Nobody touches the magazines beside another, and what was taken away is not
   handed out.

   BROKEN: NO_BARRIER LOOKS_FIRST READS_THE_EPOCH_FIRST LEAVES_FIRST ONE_MARK LEAVES_THE_EPOCH */

#define CALL_COUNT 3
#define TAKE_COUNT 2

byte epoch = 1;     /* the cache's */
byte own_epoch = 1; /* of the thread's magazines */
bool is_inside;     /* the marks, as the other one sees them: */
byte slow_depth;
bool inside_stored; /* and as the thread has stored them, one of each at most on its way: */
byte depth_stored;
bool lock;
byte touching_count;
byte ended_count;

inline acquire() { atomic { !lock -> lock = true } }
inline release() { lock = false }

/* Uses the magazines in two steps: nobody else does so in between. */
inline touch() {
    touching_count++;
    assert(touching_count == 1);
    touching_count--
}

/* The processor writes what was stored, at any time and in order. */
active proctype store_buffer()
{
end:
    do
    :: atomic { slow_depth != depth_stored -> slow_depth = depth_stored }
    :: atomic { slow_depth == depth_stored && is_inside != inside_stored -> is_inside = inside_stored }
    od
}

/* dao_threads_barrier(): the thread's stores are written. */
inline barrier() { d_step { slow_depth = depth_stored; is_inside = inside_stored } }

/* A store that finds an earlier one of its kind on the way waits for it. */
inline store_inside(value) { atomic { is_inside == inside_stored -> inside_stored = value } }
inline store_depth(value) { atomic { slow_depth == depth_stored -> depth_stored = value } }

/* alloc_small_fast(), free_small() */
inline call_fast() {
#ifdef READS_THE_EPOCH_FIRST
    is_ready = own_epoch == epoch;
    store_inside(true);
#else
    store_inside(true);
    is_ready = own_epoch == epoch;
#endif
#ifdef LEAVES_FIRST
    store_inside(false);
#endif
    if
    :: is_ready -> touch()
    :: else
    fi;
#ifndef LEAVES_FIRST
    store_inside(false)
#endif
}

#ifdef ONE_MARK
#define ENTER_SLOW() store_inside(true)
#define LEAVE_SLOW() store_inside(false)
#else
#define ENTER_SLOW() store_depth(1)
#define LEAVE_SLOW() store_depth(0)
#endif

/* own_enter(), a call from within by a callback, own_leave() */
inline call_slow() {
    ENTER_SLOW();
    if
    :: own_epoch != epoch ->
       acquire();
       own_epoch = epoch;
       touch();
       release()
    :: else
    fi;
    call_fast();
    touch();
    LEAVE_SLOW()
}

active proctype thread()
{
    byte call_count;
    bool is_ready;
    do
    :: call_count < CALL_COUNT ->
       call_count++;
       if
       :: call_fast()
       :: call_slow()
       fi
    :: call_count == CALL_COUNT -> break
    od;
    ended_count++
}

/* dao_thread_cache_relieve(), take_from_called_locked() */
active proctype other()
{
    byte take_count;
    bool is_entered;
    do
    :: take_count < TAKE_COUNT ->
       take_count++;
       acquire();
#ifdef LOOKS_FIRST
       is_entered = is_inside || slow_depth > 0;
#endif
#ifndef LEAVES_THE_EPOCH
       epoch++;
#endif
#ifndef NO_BARRIER
       barrier();
#endif
#ifndef LOOKS_FIRST
       is_entered = is_inside || slow_depth > 0;
#endif
       if
       :: !is_entered -> touch()
       :: else
       fi;
       release()
    :: take_count == TAKE_COUNT -> break
    od;
    ended_count++
}
