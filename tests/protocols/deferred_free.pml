/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred frees beside the end of a runtime, as runtime/device/deferred_free.c has them: threads defer and
   drain one, as every call of the place does, then the end waits for all. Each block is freed once, not
   before its event has finished, and none is left.

   BROKEN: COUNTS_WHAT_IS_LISTED COUNTS_LATER FREES_AT_ONCE TAKES_WITHOUT_LOCK */

#define FREE_COUNT 2
#define NONE FREE_COUNT

byte next[FREE_COUNT];
byte first = NONE, last = NONE;
byte count;
bool lock;
bool has_finished[FREE_COUNT]; /* the event of each */
byte freed[FREE_COUNT];
byte ended_count;

inline acquire() { atomic { !lock -> lock = true } }
inline release() { lock = false }

inline append(it) {
    next[it] = NONE;
    acquire();
    if
    :: last != NONE -> next[last] = it
    :: else -> first = it
    fi;
    last = it;
    release()
}

/* The free that has waited longest, or NONE. */
inline take(it) {
#ifndef TAKES_WITHOUT_LOCK
    acquire();
#endif
    it = first;
    if
    :: it != NONE ->
       first = next[it];
       if
       :: first == NONE -> last = NONE
       :: else
       fi;
#ifdef COUNTS_WHAT_IS_LISTED
       count--;
#endif
    :: else
    fi;
#ifndef TAKES_WITHOUT_LOCK
    release()
#endif
}

/* reclaim() */
inline reclaim(it) {
    assert(has_finished[it]);
    freed[it]++;
    assert(freed[it] == 1);
#ifndef COUNTS_WHAT_IS_LISTED
    d_step { assert(count > 0); count-- }
#else
    skip
#endif
}

/* dao_runtime_defer() */
inline defer(it) {
#ifdef COUNTS_LATER
    append(it);
    count++
#else
    count++;
    append(it)
#endif
}

/* dao_runtime_drain_some(), of one free */
inline drain_some() {
    take(it);
    if
    :: it == NONE
    :: else ->
       if
#ifdef FREES_AT_ONCE
       :: reclaim(it)
#else
       :: has_finished[it] -> reclaim(it)
       :: !has_finished[it] ->
#ifdef COUNTS_WHAT_IS_LISTED
          count++;
#endif
          append(it)
#endif
       fi
    fi
}

proctype caller(byte own)
{
    byte it;
    defer(own);
    drain_some();
    ended_count++
}

/* The device, which ends its work in any order. */
proctype device(byte which)
{
    has_finished[which] = true
}

/* A thread whose calls are not ended by those that end the runtime: it holds what it took off. */
proctype drainer()
{
    byte it;
    drain_some()
}

/* dao_runtime_drain_all(): no call that defers is under way */
init
{
    byte it;
    atomic {
        run caller(0); run caller(1); run drainer(); run device(0); run device(1)
    };
    ended_count == FREE_COUNT;
    do
    :: count == 0 -> break
    :: else ->
       take(it);
       if
       :: it == NONE /* another thread has it */
       :: else -> has_finished[it]; reclaim(it)
       fi
    od;
    assert(freed[0] == 1 && freed[1] == 1)
}
