/* SPDX-License-Identifier: Apache-2.0 */
/* The fences of residency, as runtime/executor/state/residency.c has them: two tensors, parts of the arena and
   slots of the host that either may get, and three streams that run what is queued as late as they like.
   A copy that is refused changes nothing, and is no step. Every kernel and every copy finds the content that
   it is for.

   BROKEN: FETCH_MISSES_COPY_OUT EVICT_MISSES_READERS WRITE_MISSES_COPY_OUT SLOT_MISSES_ITS_USES */

#define TENSOR_COUNT 2
#define PLACE_COUNT TENSOR_COUNT /* parts of the arena, and slots: each tensor has one at most */
#define CALL_COUNT 7
#define STREAM_COUNT 3
#define H2D 0
#define D2H 1
#define COMPUTE 2
#define NONE 255

mtype = { IN, OUT, READ, WRITE };
mtype = { EMPTY, DEVICE, BOTH, HOST };

typedef fence_t { byte sequence[STREAM_COUNT] };

/* An operation: what it is, its part, its slot, the content that it finds, or makes, and what it waits for. */
chan queue[STREAM_COUNT] = [CALL_COUNT] of { mtype, byte, byte, byte, byte, byte, byte };
byte issued[STREAM_COUNT];
byte done[STREAM_COUNT];

/* What the bytes are. */
byte part_content[PLACE_COUNT];
byte slot_content[PLACE_COUNT];

/* What the executor knows. */
mtype residency[TENSOR_COUNT] = EMPTY;
byte content[TENSOR_COUNT]; /* once all has run that was queued */
byte part_of[TENSOR_COUNT] = NONE;
byte slot_of[TENSOR_COUNT] = NONE;
fence_t device_written[TENSOR_COUNT], device_busy[TENSOR_COUNT], host_written[TENSOR_COUNT];
fence_t part_busy[PLACE_COUNT], slot_busy[PLACE_COUNT]; /* by whomever had it before */
byte content_count;

active [STREAM_COUNT] proctype stream()
{
    mtype kind;
    byte part, slot, found, after_in, after_out, after_compute;
end:
    do
    :: queue[_pid]?kind, part, slot, found, after_in, after_out, after_compute;
       atomic {
           done[H2D] >= after_in && done[D2H] >= after_out && done[COMPUTE] >= after_compute;
           if
           :: kind == IN -> assert(slot_content[slot] == found); part_content[part] = found
           :: kind == OUT -> assert(part_content[part] == found); slot_content[slot] = found
           :: kind == READ -> assert(part_content[part] == found)
           :: kind == WRITE -> part_content[part] = found
           fi;
           done[_pid]++
       }
    od
}

/* What is queued next waits for the work of a fence. */
inline wait_for(fence) {
    for (i : 0 .. STREAM_COUNT - 1) {
        if
        :: fence.sequence[i] > wait[i] -> wait[i] = fence.sequence[i]
        :: else
        fi
    }
}

inline wait_for_nothing() { wait[H2D] = 0; wait[D2H] = 0; wait[COMPUTE] = 0 }

inline forget(fence) { fence.sequence[H2D] = 0; fence.sequence[D2H] = 0; fence.sequence[COMPUTE] = 0 }

inline push(role, what) {
    queue[role]!what, part_of[t], slot_of[t], content[t], wait[H2D], wait[D2H], wait[COMPUTE];
    issued[role]++
}

/* Any place that the other tensor has not. */
inline take(place, others) {
    if
    :: others != 0 -> place = 0
    :: others != 1 -> place = 1
    fi
}

/* DEVICE -> BOTH */
inline save() {
    take(slot_of[t], slot_of[1 - t]);
    wait_for_nothing();
    wait_for(device_written[t]);
#ifndef SLOT_MISSES_ITS_USES
    wait_for(slot_busy[slot_of[t]]);
#endif
    push(D2H, OUT);
    device_busy[t].sequence[D2H] = issued[D2H];
    forget(host_written[t]);
    host_written[t].sequence[D2H] = issued[D2H];
    slot_busy[slot_of[t]].sequence[D2H] = issued[D2H];
    residency[t] = BOTH
}

/* BOTH -> HOST: the part goes to whoever takes it next, behind all that uses it. */
inline evict() {
    forget(part_busy[part_of[t]]);
    for (i : 0 .. STREAM_COUNT - 1) {
#ifdef EVICT_MISSES_READERS
        part_busy[part_of[t]].sequence[i] = device_written[t].sequence[i]
#else
        part_busy[part_of[t]].sequence[i] = device_busy[t].sequence[i]
#endif
    }
    part_of[t] = NONE;
    residency[t] = HOST
}

/* HOST -> BOTH */
inline fetch() {
    take(part_of[t], part_of[1 - t]);
    wait_for_nothing();
#ifndef FETCH_MISSES_COPY_OUT
    wait_for(host_written[t]);
#endif
    wait_for(part_busy[part_of[t]]);
    push(H2D, IN);
    forget(device_written[t]);
    forget(device_busy[t]);
    device_written[t].sequence[H2D] = issued[H2D];
    device_busy[t].sequence[H2D] = issued[H2D];
    slot_busy[slot_of[t]].sequence[H2D] = issued[H2D];
    residency[t] = BOTH
}

inline run_reader() {
    wait_for_nothing();
    wait_for(device_written[t]);
    push(COMPUTE, READ);
    device_busy[t].sequence[COMPUTE] = issued[COMPUTE]
}

/* Any with a part, or EMPTY -> DEVICE: the slot is free for others, behind all that uses it. */
inline run_writer() {
    wait_for_nothing();
    if
    :: part_of[t] == NONE -> take(part_of[t], part_of[1 - t]); wait_for(part_busy[part_of[t]])
    :: else ->
       wait_for(device_written[t]);
#ifndef WRITE_MISSES_COPY_OUT
       wait_for(device_busy[t])
#endif
    fi;
    content_count++;
    content[t] = content_count;
    push(COMPUTE, WRITE);
    forget(device_written[t]);
    forget(device_busy[t]);
    device_written[t].sequence[COMPUTE] = issued[COMPUTE];
    device_busy[t].sequence[COMPUTE] = issued[COMPUTE];
    slot_of[t] = NONE;
    residency[t] = DEVICE
}

active proctype executor()
{
    byte t, i, call;
    byte wait[STREAM_COUNT];
    for (call : 1 .. CALL_COUNT) {
        atomic {
            if
            :: t = 0
            :: t = 1
            fi;
            if
            :: residency[t] == DEVICE -> save()
            :: residency[t] == BOTH -> evict()
            :: residency[t] == HOST -> fetch()
            :: residency[t] == DEVICE || residency[t] == BOTH -> run_reader()
            :: residency[t] != HOST -> run_writer()
            fi
        }
    }
}
