/* SPDX-License-Identifier: Apache-2.0 */
/* A wrong dao_free() of a handle's small block beside the right free, as allocators/slab/thread_cache.c has it
   ("a wrong free beside the right one"). Whoever comes when: the block is taken back once, nothing is left in
   its word, and only its owner is told that it was freed.

   BROKEN: LEAVES_NO_MARK PUTS_BACK_BLINDLY LOOKS_ONCE KEEPS_WHAT_IS_ANOTHERS */

#define FREED 0  /* the word of an object that nobody has */
#define HANDLE 1 /* of the handle's */
#define LEFT 2   /* DAO_SLAB_WORD_LEFT */

#define WRONG_COUNT 3

byte word = HANDLE;
byte taken_count; /* how often the block was taken back */
byte ended_count;

/* put_back() */
inline put_back(held) {
    do
#ifdef PUTS_BACK_BLINDLY
    :: word = held; break
#else
    :: atomic { word == FREED -> word = held }; break
#endif
#ifdef LOOKS_ONCE
    :: word != FREED -> break
#else
    :: atomic { word != FREED -> assert((word == LEFT) != (held == LEFT)); word = FREED };
       taken_count++; break
#endif
    od
}

/* free_small() */
active [WRONG_COUNT] proctype wrong_free()
{
    byte held;
    d_step { held = word; word = FREED };
    if
    :: held == FREED /* DAO_ERR_DOUBLE_FREE */
    :: else ->
#ifdef KEEPS_WHAT_IS_ANOTHERS
       taken_count++
#else
       put_back(held) /* DAO_ERR_NOT_YOURS */
#endif
    fi;
    ended_count++
}

/* take_word() */
active proctype right_free()
{
    if
    :: atomic { word == HANDLE -> word = FREED }; taken_count++
#ifdef LEAVES_NO_MARK
    :: word == FREED
#else
    :: atomic { word == FREED -> word = LEFT }
#endif
    :: atomic { word == LEFT -> assert(false) } /* who leaves it is the owner, and there is one */
    fi;
    ended_count++
}

active proctype end()
{
    ended_count == WRONG_COUNT + 1;
    assert(taken_count == 1);
    assert(word == FREED)
}
