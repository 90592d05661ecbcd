/* SPDX-License-Identifier: Apache-2.0 */
/* Where the program is in its script. A lane has some guesses, which all go on with every request:

       script     a a b c d e f g           a guess scores while its sizes are right, and forgets with time
       asked      a a b x                   x is none of the leading guess' sizes. It may be a larger or smaller c: that guess
                  | | | `- c was resized    goes on. Or it is new: a second guess waits at c. Or c and perhaps more are left
                  | | |    x is new         out: a third one goes on behind. If nothing fits, runs of sizes are looked up.
                  | | |    c was left out

   The one with the best score leads, but only once it is ahead by more than a size can be by chance. So one
   equal size never moves the program to another place of its script: a run of several does.

   What holds between calls:

       guess_count <= 1 + DAO_FOLLOW_GUESS_COUNT; places of guesses lie in the lane, or at its end, and differ
       scores are at most SCORE_FULL; no guess is behind the leading one by more than SCORE_LOST */
#include "planning/steps/follow.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

/* Scores forget a sixteenth with each request and grow by SCORE_EQUAL where the size is right: a guess that
   always is comes to sixteen times that. Sizes that an entry was seen with in a whole range say less. */
#define SCORE_FORGET_SHIFT 4
#define SCORE_EQUAL        256
#define SCORE_IN_RANGE     128
#define SCORE_FULL         (SCORE_EQUAL << SCORE_FORGET_SHIFT)

/* A new guess starts below the one that it comes from by this much for each entry that it leaves out or puts
   in. */
#define SCORE_DOUBT 128

/* Ahead by more than this a guess leads; behind by more it is dropped; a leading one below is looked up anew.
   */
#define SCORE_AHEAD  384
#define SCORE_LOST   (SCORE_FULL * 3 / 8)
#define SCORE_UNSURE (SCORE_FULL * 5 / 8)
#define NEAR         4u
#define BEHIND_MAX   3u

/* Entries that may be left out at once without a look-up, and places of a chain that a look-up tells apart.
   */
#define SKIP_MAX  3u
#define CHAIN_MAX 32u

/* Where the order alone says that it is the one, an entry is given for sizes that differ by up to this
   factor. */
#define RESIZED_PART_MAX 2u

/* ---- begin and end ---- */

dao_status_t dao_follow_init(dao_follow_t *follow, const dao_script_t *script)
{
    *follow = (dao_follow_t){.script = script};
    follow->key_turns = dao_host_calloc((size_t)script->key_mask + 1, sizeof(*follow->key_turns));
    follow->serials = dao_host_calloc((size_t)script->count + 1, sizeof(*follow->serials));
    if (follow->key_turns == NULL || follow->serials == NULL) {
        dao_follow_finish(follow);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to follow a plan");
    }
    dao_follow_restart(follow);
    return DAO_OK;
}

void dao_follow_finish(dao_follow_t *follow)
{
    dao_host_free(follow->key_turns);
    dao_host_free(follow->serials);
    *follow = (dao_follow_t){0};
}

void dao_follow_restart(dao_follow_t *follow)
{
    const dao_script_t *script = follow->script;
    if (script == NULL) {
        return;
    }
    memset(follow->lanes, 0, sizeof(follow->lanes));
    for (uint32_t slot = 0; slot <= script->key_mask; slot++) {
        follow->key_turns[slot] = script->keys[slot].key != 0 ? script->keys[slot].first : DAO_SCRIPT_NONE;
    }
    follow->serial++;
    if (follow->serial == 0) { /* numbers are used up: the oldest must not look like new ones */
        memset(follow->serials, 0, (size_t)script->count * sizeof(*follow->serials));
        follow->serial = 1;
    }
}

/* ---- guesses ---- */

static const dao_script_entry_t *entry_at(const dao_script_t *script, uint32_t place)
{
    return &script->entries[script->order[place]];
}

static bool is_right(const dao_script_t *script, uint32_t place, uint32_t end, uint64_t units)
{
    return place < end && dao_script_size_is_usual(entry_at(script, place), units);
}

/* What a right size says for a guess. */
static int32_t gain_at(const dao_script_t *script, uint32_t place)
{
    const dao_script_entry_t *entry = entry_at(script, place);
    bool is_exact = dao_lifetime_units(entry->least_bytes) == dao_lifetime_units(entry->most_bytes);
    return is_exact ? SCORE_EQUAL : SCORE_IN_RANGE;
}

static int32_t forget(int32_t score)
{
    return score - (score >> SCORE_FORGET_SHIFT);
}

/* Adds a guess, unless there is one for that place; a full lane gives up its worst. */
static void guess_add(dao_follow_lane_t *lane, uint32_t place, int32_t score)
{
    uint32_t worst = lane->guess_count;
    for (uint32_t i = 0; i < lane->guess_count; i++) {
        if (lane->guesses[i].place == place) {
            if (i > 0 && lane->guesses[i].score < score) {
                lane->guesses[i].score = score;
            }
            return;
        }
        bool is_worse =
            i > 0 && (worst == lane->guess_count || lane->guesses[i].score < lane->guesses[worst].score);
        worst = is_worse ? i : worst;
    }
    if (lane->guess_count <= DAO_FOLLOW_GUESS_COUNT) {
        worst = lane->guess_count++;
    } else if (lane->guesses[worst].score >= score) {
        return;
    }
    lane->guesses[worst] = (dao_follow_guess_t){.place = place, .score = score};
}

/* Lets every guess go on by one request. Gives the place of the best one whose size is right, or
   DAO_SCRIPT_NONE. */
static uint32_t guesses_go_on(dao_follow_lane_t *lane, const dao_script_t *script, uint32_t end,
                              uint64_t units)
{
    uint32_t best = lane->guess_count, leading = lane->guesses[0].place;
    for (uint32_t i = 0; i < lane->guess_count; i++) {
        dao_follow_guess_t *guess = &lane->guesses[i];
        guess->score = forget(guess->score);
        if (is_right(script, guess->place, end, units)) {
            guess->score += gain_at(script, guess->place);
            bool is_near = guess->place <= leading + NEAR && leading <= guess->place + NEAR;
            bool is_better = best == lane->guess_count || guess->score > lane->guesses[best].score;
            best = is_near && is_better ? i : best;
        }
        guess->place += guess->place < end;
    }
    return best < lane->guess_count ? lane->guesses[best].place - 1 : DAO_SCRIPT_NONE;
}

/* Makes one of guesses that have come to the same place, with the better score. */
static void guesses_merge(dao_follow_lane_t *lane)
{
    uint32_t kept = 1;
    for (uint32_t i = 1; i < lane->guess_count; i++) {
        dao_follow_guess_t guess = lane->guesses[i];
        uint32_t same = 0;
        while (same < kept && lane->guesses[same].place != guess.place) {
            same++;
        }
        if (same == kept) {
            lane->guesses[kept++] = guess;
        } else if (guess.score > lane->guesses[same].score) {
            lane->guesses[same].score = guess.score;
        }
    }
    lane->guess_count = kept;
}

/* Drops the guesses that are far behind the leading one. */
static void guesses_drop(dao_follow_lane_t *lane)
{
    uint32_t kept = 1;
    for (uint32_t i = 1; i < lane->guess_count; i++) {
        if (lane->guesses[i].score >= lane->guesses[0].score - SCORE_LOST) {
            lane->guesses[kept++] = lane->guesses[i];
        }
    }
    lane->guess_count = kept;
}

/* Lets the best guess lead, if it is clearly ahead. */
static bool lead_changes(dao_follow_lane_t *lane)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < lane->guess_count; i++) {
        best = lane->guesses[i].score > lane->guesses[best].score ? i : best;
    }
    if (lane->guesses[best].score <= lane->guesses[0].score + SCORE_AHEAD) {
        return false;
    }
    dao_follow_guess_t leading = lane->guesses[best];
    lane->guesses[best] = lane->guesses[0];
    lane->guesses[0] = leading;
    return true;
}

/* ---- a size that the leading guess did not expect ---- */

/* Looks up the latest sizes, and guesses the place behind them that is nearest. */
static void guess_by_run(dao_follow_lane_t *lane, const dao_script_t *script, uint32_t begin, uint32_t end)
{
    uint32_t place = script->run_first[dao_script_run_hash(lane->latest_units) & script->run_mask];
    uint32_t leading = lane->guesses[0].place, nearest = DAO_SCRIPT_NONE, distance = UINT32_MAX;
    for (uint32_t i = 0; i < CHAIN_MAX && place != DAO_SCRIPT_NONE; i++, place = script->run_next[place]) {
        uint32_t next = place + 1;
        uint32_t away = next > leading ? next - leading : leading - next;
        bool is_in_lane = place >= begin && place < end;
        if (is_in_lane && away < distance && dao_script_run_ends_at(script, place, lane->latest_units)) {
            nearest = next;
            distance = away;
        }
    }
    if (nearest != DAO_SCRIPT_NONE) {
        int32_t score = -SCORE_DOUBT;
        for (uint32_t i = 0; i < DAO_SCRIPT_RUN; i++) {
            score = forget(score) + SCORE_EQUAL;
        }
        guess_add(lane, nearest, score);
    }
}

/* Guesses what else it may be than another size for the entry at `place`, where the leading guess was. */
static void guess_anew(dao_follow_lane_t *lane, const dao_script_t *script, uint32_t begin, uint32_t end,
                       dao_follow_guess_t before, uint64_t units)
{
    uint32_t old_count = lane->guess_count;
    for (uint32_t i = 1; i < old_count;
         i++) { /* it is new, and the script goes on where another guess says */
        uint32_t place = lane->guesses[i].place;
        if (place > begin && !is_right(script, place - 1, end, units)) {
            guess_add(lane, place - 1, lane->guesses[i].score - SCORE_DOUBT);
        }
    }
    int32_t score = forget(before.score) - SCORE_DOUBT;
    guess_add(lane, before.place, score); /* it is new, and the script goes on with the next one */
    for (uint32_t skip = 1; skip <= SKIP_MAX; skip++) {
        score -= SCORE_DOUBT;
        if (is_right(script, before.place + skip, end, units)) { /* some were left out */
            guess_add(lane, before.place + skip + 1, score + gain_at(script, before.place + skip));
            break;
        }
    }
    if (lane->guesses[0].score < SCORE_UNSURE && lane->latest_count == DAO_SCRIPT_RUN) {
        guess_by_run(lane, script, begin, end);
    }
}

/* ---- requests ---- */

static void remember(dao_follow_lane_t *lane, uint64_t units)
{
    for (uint32_t i = 1; i < DAO_SCRIPT_RUN; i++) {
        lane->latest_units[i - 1] = lane->latest_units[i];
    }
    lane->latest_units[DAO_SCRIPT_RUN - 1] = units;
    lane->latest_count += lane->latest_count < DAO_SCRIPT_RUN;
}

/* Gives the place in the order that a request is for, or DAO_SCRIPT_NONE. */
static uint32_t place_of(dao_follow_t *follow, uint32_t number, uint64_t units)
{
    const dao_script_t *script = follow->script;
    dao_follow_lane_t *lane = &follow->lanes[number];
    uint32_t begin = script->lane_begin[number], end = script->lane_begin[number + 1];
    lane->move_count++;
    if (begin == end) {
        return DAO_SCRIPT_NONE;
    }
    if (lane->guess_count == 0) {
        lane->guesses[0] = (dao_follow_guess_t){.place = begin, .score = SCORE_FULL};
        lane->guess_count = 1;
    }
    dao_follow_guess_t before = lane->guesses[0];
    bool is_expected = is_right(script, before.place, end, units);
    lane->is_plain = is_expected && lane->guess_count == 1;
    if (lane->is_plain) {
        lane->old_score = before.score;
        lane->old_count = lane->latest_count;
        lane->gone_units = lane->latest_units[0];
    } else {
        follow->before[number] = *lane;
    }
    remember(lane, units);
    uint32_t right_place = guesses_go_on(lane, script, end, units);
    if (lane->is_plain) {
        return before.place;
    }
    if (!is_expected) {
        guess_anew(lane, script, begin, end, before, units);
    }
    bool has_changed = lead_changes(lane);
    guesses_merge(lane);
    guesses_drop(lane);
    if (has_changed) {
        uint32_t place = lane->guesses[0].place;
        return place > begin && is_right(script, place - 1, end, units) ? place - 1 : DAO_SCRIPT_NONE;
    }
    if (is_expected || before.place == end || right_place != DAO_SCRIPT_NONE) {
        return is_expected ? before.place : right_place;
    }
    uint64_t most_units = dao_lifetime_units(entry_at(script, before.place)->most_bytes);
    return units * RESIZED_PART_MAX >= most_units && units / RESIZED_PART_MAX <= most_units ? before.place
                                                                                            : DAO_SCRIPT_NONE;
}

/* Finds a place of that size that was passed by lately and that nothing was found at. It does not move the
   program. */
static uint32_t find_behind(const dao_follow_t *follow, uint32_t number, uint64_t units)
{
    const dao_script_t *script = follow->script;
    uint32_t begin = script->lane_begin[number], leading = follow->lanes[number].guesses[0].place;
    for (uint32_t i = 1; i <= BEHIND_MAX && leading >= begin + i; i++) {
        uint32_t place = leading - i;
        bool is_free = follow->serials[script->order[place]] != follow->serial;
        if (is_free && dao_script_size_is_usual(entry_at(script, place), units)) {
            return place;
        }
    }
    return DAO_SCRIPT_NONE;
}

uint32_t dao_follow_next(dao_follow_t *follow, uint32_t lane, uint64_t key, uint64_t size_bytes)
{
    const dao_script_t *script = follow->script;
    uint32_t entry = DAO_SCRIPT_NONE;
    if (script == NULL) {
        return DAO_SCRIPT_NONE;
    }
    if (key != 0) {
        uint32_t *turn = &follow->key_turns[dao_script_key_slot(script, key)];
        entry = *turn;
        *turn = entry != DAO_SCRIPT_NONE ? script->key_next[entry] : DAO_SCRIPT_NONE;
    } else {
        uint64_t units = dao_lifetime_units(size_bytes);
        uint32_t place = place_of(follow, lane, units);
        if (place == DAO_SCRIPT_NONE || follow->serials[script->order[place]] == follow->serial) {
            place = find_behind(follow, lane, units);
        }
        entry = place != DAO_SCRIPT_NONE ? script->order[place] : DAO_SCRIPT_NONE;
    }
    if (entry == DAO_SCRIPT_NONE || follow->serials[entry] == follow->serial) {
        return DAO_SCRIPT_NONE;
    }
    follow->serials[entry] = follow->serial;
    return entry;
}

/* Takes a request back that was what the only guess of its lane expected. */
static void take_back_plain(dao_follow_lane_t *lane)
{
    for (uint32_t i = DAO_SCRIPT_RUN - 1; i > 0; i--) {
        lane->latest_units[i] = lane->latest_units[i - 1];
    }
    lane->latest_units[0] = lane->gone_units;
    lane->latest_count = lane->old_count;
    lane->guesses[0] = (dao_follow_guess_t){.place = lane->guesses[0].place - 1, .score = lane->old_score};
}

/* Gives a key's turn back to an entry; tells whether it was that of the next one. */
static bool take_back_turn(dao_follow_t *follow, uint64_t key, uint32_t entry)
{
    uint32_t *turn = &follow->key_turns[dao_script_key_slot(follow->script, key)];
    bool is_latest = entry != DAO_SCRIPT_NONE && *turn == follow->script->key_next[entry];
    *turn = is_latest ? entry : *turn;
    return is_latest;
}

/* Lets a lane stand where it stood before its latest request; tells whether that is the one. */
static bool take_back_place(dao_follow_t *follow, uint32_t number, uint32_t move_count)
{
    dao_follow_lane_t *lane = &follow->lanes[number];
    if (move_count != lane->move_count || lane->guess_count == 0) {
        return false;
    }
    if (lane->is_plain) {
        take_back_plain(lane);
    } else {
        *lane = follow->before[number];
    }
    return true;
}

void dao_follow_take_back(dao_follow_t *follow, uint32_t lane, uint64_t key, uint32_t entry,
                          uint32_t move_count)
{
    if (follow->script == NULL) {
        return;
    }
    bool is_latest =
        key != 0 ? take_back_turn(follow, key, entry) : take_back_place(follow, lane, move_count);
    if (is_latest && entry != DAO_SCRIPT_NONE) {
        follow->serials[entry] = 0; /* no pass has that number */
    }
}

/* ---- the check ---- */

static bool lane_is_valid(const dao_follow_lane_t *lane, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < lane->guess_count; i++) {
        const dao_follow_guess_t *guess = &lane->guesses[i];
        if (guess->place < begin || guess->place > end || guess->score > SCORE_FULL ||
            guess->score < lane->guesses[0].score - SCORE_LOST) {
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (lane->guesses[k].place == guess->place) {
                return false;
            }
        }
    }
    return lane->guess_count <= 1 + DAO_FOLLOW_GUESS_COUNT && lane->latest_count <= DAO_SCRIPT_RUN;
}

bool dao_follow_is_valid(const dao_follow_t *follow)
{
    for (uint32_t lane = 0; follow->script != NULL && lane < DAO_LIFETIME_LANE_COUNT; lane++) {
        if (!lane_is_valid(&follow->lanes[lane], follow->script->lane_begin[lane],
                           follow->script->lane_begin[lane + 1])) {
            return false;
        }
    }
    return true;
}
