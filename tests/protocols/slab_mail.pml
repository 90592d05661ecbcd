/* SPDX-License-Identifier: Apache-2.0 */
/* The mailbox of slabs, as allocators/slab/slab.c has it: threads put objects of two slabs back while others,
   one at a time, drain. Each object is put back once; a slab is in the stack once.

   BROKEN: MARKS_FIRST UNMARKS_LAST PUSHES_WITHOUT_LOOK NEVER_UNMARKS */

#define SLAB_COUNT 2
#define OBJECT_COUNT 2 /* of a slab */
#define NONE SLAB_COUNT

byte mail_bits[SLAB_COUNT];
bool has_mail[SLAB_COUNT];
byte mail_next[SLAB_COUNT];
byte mail = NONE;       /* the top of the stack */
byte given[SLAB_COUNT]; /* bits of the objects that were put back */
bool lock;
byte ended_count;

/* dao_slabs_mail() */
proctype sender(byte slab; byte object)
{
    byte head;
    bool was_marked;
#ifdef MARKS_FIRST
    d_step { was_marked = has_mail[slab]; has_mail[slab] = true };
    d_step { mail_bits[slab] = mail_bits[slab] | object };
#else
    d_step { mail_bits[slab] = mail_bits[slab] | object };
    d_step { was_marked = has_mail[slab]; has_mail[slab] = true };
#endif
    if
    :: was_marked
    :: else ->
       head = mail;
       do
       :: mail_next[slab] = head;
#ifdef PUSHES_WITHOUT_LOOK
          mail = slab; break
#else
          if
          :: d_step { mail == head -> mail = slab }; break
          :: d_step { mail != head -> head = mail }
          fi
#endif
       od
    fi;
    ended_count++
}

/* dao_slabs_drain(), under the lock of the slabs */
inline drain() {
    d_step { slab = mail; mail = NONE };
    do
    :: slab == NONE -> break
    :: else ->
       next = mail_next[slab];
#ifndef UNMARKS_LAST
#ifndef NEVER_UNMARKS
       has_mail[slab] = false;
#endif
#endif
       d_step { bits = mail_bits[slab]; mail_bits[slab] = 0 };
       assert((given[slab] & bits) == 0);
       given[slab] = given[slab] | bits;
#ifdef UNMARKS_LAST
       has_mail[slab] = false;
#endif
       slab = next
    od
}

proctype drainer()
{
    byte slab, next, bits;
    atomic { !lock -> lock = true };
    drain();
    lock = false;
    ended_count++
}

init
{
    byte slab, next, bits;
    atomic { run sender(0, 1); run sender(0, 2); run sender(1, 1); run sender(1, 2); run drainer(); run drainer() };
    ended_count == 6;
    drain();
    assert(given[0] == 3 && given[1] == 3);
    assert(mail == NONE && !has_mail[0] && !has_mail[1])
}
