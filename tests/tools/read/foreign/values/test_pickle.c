/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles: every opcode that is taken, all others refused by name and offset, numbers of all sizes, damage.
 */
#include "tests/support/suite.h"
#include "tools/read/events/read_events.h"
#include "tools/read/foreign/values/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BYTES(text) text, sizeof(text) - 1

static const char *const keys[] = {"size", "addr", "list", NULL};

enum { KEY_SIZE, KEY_ADDR, KEY_LIST, FIRST_REPEATED = KEY_ADDR };

static dao_value_store_t store;

/* Reads bytes; the store is the caller's to finish. */
static dao_status_t read_bytes(const char *bytes, size_t length, dao_value_t *out_value)
{
    dao_test_write_file(dao_test_path, bytes, length);
    dao_value_store_init(&store, keys, FIRST_REPEATED);
    return dao_pickle_read(dao_test_path, &store, out_value);
}

static void numbers_of_all_sizes_are_exact(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        dao_value_type_t type;
        uint64_t payload;
    } numbers[] = {
        {BYTES("\x80\x02K\xff."), DAO_VALUE_TYPE_COUNT, 255},
        {BYTES("\x80\x03M\x01\x02."), DAO_VALUE_TYPE_COUNT, 513},
        {BYTES("\x80\x04J\xff\xff\xff\x7f."), DAO_VALUE_TYPE_COUNT, INT32_MAX},
        {BYTES("\x80\x05J\xfe\xff\xff\xff."), DAO_VALUE_TYPE_NEGATIVE, 2},
        {BYTES("\x80\x02\x8a\x00."), DAO_VALUE_TYPE_COUNT, 0},
        {BYTES("\x80\x02\x8a\x01\x80."), DAO_VALUE_TYPE_NEGATIVE, 128},
        {BYTES("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), DAO_VALUE_TYPE_NEGATIVE,
         (uint64_t)1 << 63},
        {BYTES("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."), DAO_VALUE_TYPE_COUNT, UINT64_MAX},
        {BYTES("\x80\x02N."), DAO_VALUE_TYPE_NONE, 0},
        {BYTES("\x80\x02\x88."), DAO_VALUE_TYPE_FLAG, 1},
        {BYTES("\x80\x02\x89."), DAO_VALUE_TYPE_FLAG, 0},
        {BYTES("\x80\x02G12345678."), DAO_VALUE_TYPE_REAL, 0},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        dao_value_t value = {0};
        CU_ASSERT_EQUAL(read_bytes(numbers[i].bytes, numbers[i].length, &value), DAO_OK);
        CU_ASSERT_EQUAL(value.type, numbers[i].type);
        CU_ASSERT_EQUAL(value.payload, numbers[i].payload);
        dao_value_store_finish(&store);
    }
}

/* Every way to make a list: empty, appended to, from a mark, as a tuple of 0 to 3 and of many. */
static void lists_are_made_in_all_ways(void)
{
    static const struct {
        const char *bytes;
        size_t length, count;
    } lists[] = {
        {BYTES("\x80\x02]."), 0},
        {BYTES("\x80\x02)."), 0},
        {BYTES("\x80\x02]K\x01"
               "a."),
         1},
        {BYTES("\x80\x02](K\x01K\x02"
               "e."),
         2},
        {BYTES("\x80\x02(K\x01K\x02K\x03l."), 3},
        {BYTES("\x80\x02(K\x01K\x02K\x03t."), 3},
        {BYTES("\x80\x02K\x01\x85."), 1},
        {BYTES("\x80\x02K\x01K\x02\x86."), 2},
        {BYTES("\x80\x02K\x01K\x02K\x03\x87."), 3},
        {BYTES("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94h\x00"
               "a."),
         1}, /* it holds itself */
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        dao_value_t value = {0};
        CU_ASSERT_EQUAL(read_bytes(lists[i].bytes, lists[i].length, &value), DAO_OK);
        CU_ASSERT_EQUAL(value.type, DAO_VALUE_TYPE_LIST);
        CU_ASSERT_EQUAL(dao_value_list(&store, value).count, lists[i].count);
        dao_value_store_finish(&store);
    }
}

/* [[1, 2], [1, 2], [2, 1]] in a tuple; then that list twice, and its second one. */
static void equal_lists_are_one(void)
{
    dao_value_t value = {0};
    CU_ASSERT_EQUAL_FATAL(read_bytes(BYTES("\x80\x04(](K\x01K\x02"
                                           "e\x94](K\x01K\x02"
                                           "e\x94](K\x02K\x01"
                                           "el\x94\x85(h\x02h\x02h\x01l\x86."),
                                     &value),
                          DAO_OK);
    dao_value_list_t both = dao_value_list(&store, value);
    CU_ASSERT_EQUAL_FATAL(both.count, 2);
    dao_value_list_t lists = dao_value_list(&store, dao_value_list(&store, both.items[0]).items[0]);
    CU_ASSERT_EQUAL_FATAL(lists.count, 3);
    CU_ASSERT_EQUAL(lists.items[0].payload, lists.items[1].payload);
    CU_ASSERT_NOT_EQUAL(lists.items[0].payload, lists.items[2].payload);
    CU_ASSERT_EQUAL(dao_value_list(&store, lists.items[0]).items[0].payload, 1);
    CU_ASSERT_EQUAL(dao_value_list(&store, lists.items[2]).items[0].payload, 2);
    lists = dao_value_list(&store, both.items[1]);
    CU_ASSERT_EQUAL_FATAL(lists.count, 3);
    CU_ASSERT_EQUAL(dao_value_list(&store, lists.items[0]).count, 3);
    CU_ASSERT_EQUAL(dao_value_list(&store, lists.items[2]).count, 2);
    CU_ASSERT_EQUAL(lists.items[0].payload, lists.items[1].payload);
    dao_value_store_finish(&store);
}

/* A thousand stacks of the same twenty calls take the room of one. */
static void equal_stacks_are_kept_once(void)
{
    static char bytes[64 * 1024];
    size_t used = 0;
    dao_value_t value = {0};
    memcpy(bytes, "\x80\x04](", 4);
    used += 4;
    for (int i = 0; i < 1000; i++) {
        memcpy(bytes + used, "](", 2);
        used += 2;
        for (char k = 0; k < 20; k++) {
            bytes[used++] = 'K';
            bytes[used++] = k;
        }
        bytes[used++] = 'e';
    }
    memcpy(bytes + used, "e.", 2);
    CU_ASSERT_EQUAL_FATAL(read_bytes(bytes, used + 2, &value), DAO_OK);
    dao_value_list_t stacks = dao_value_list(&store, value);
    CU_ASSERT_EQUAL_FATAL(stacks.count, 1000);
    for (size_t i = 0; i < stacks.count; i++) {
        CU_ASSERT_EQUAL(stacks.items[i].payload, stacks.items[0].payload);
    }
    CU_ASSERT_EQUAL(dao_value_list(&store, stacks.items[0]).count, 20);
    dao_value_store_finish(&store);
}

/* Two of {"addr": 1}, {"addr": 1, "xyz": 2}; two of {"size": 1}; each of a list of its own. */
static void equal_dictionaries_of_keys_that_repeat_are_one(void)
{
    dao_value_t value = {0};
    CU_ASSERT_EQUAL_FATAL(read_bytes(BYTES("\x80\x04(}\x8c\x04"
                                           "addrK\x01s\x85}(\x8c\x04"
                                           "addrK\x01\x8c\x03xyzK\x02u\x85}\x8c\x04sizeK\x01s\x85}"
                                           "\x8c\x04sizeK\x01s\x85l."),
                                     &value),
                          DAO_OK);
    dao_value_list_t lists = dao_value_list(&store, value);
    CU_ASSERT_EQUAL_FATAL(lists.count, 4);
    CU_ASSERT_EQUAL(lists.items[0].payload, lists.items[1].payload);
    CU_ASSERT_NOT_EQUAL(lists.items[2].payload, lists.items[3].payload);
    for (size_t i = 0; i < lists.count; i++) {
        uint64_t number = 0;
        dao_value_t dict = dao_value_list(&store, lists.items[i]).items[0];
        CU_ASSERT_TRUE(dao_value_get_count(&store, dict, i < 2 ? KEY_ADDR : KEY_SIZE, &number));
        CU_ASSERT_EQUAL(number, 1);
    }
    dao_value_store_finish(&store);
}

/* The same dictionary by SETITEM, SETITEMS and DICT; its keys by the memo in all its forms. */
static void dictionaries_keep_what_is_known(void)
{
    static const struct {
        const char *bytes;
        size_t length;
    } dicts[] = {
        {BYTES("\x80\x02}X\x04\x00\x00\x00sizeK\x05sX\x03\x00\x00\x00xyzK\x07s.")},
        {BYTES("\x80\x02}(X\x04\x00\x00\x00sizeq\x00K\x04X\x03\x00\x00\x00xyzr\x01\x00\x00\x00K\x07u"
               "h\x00K\x05s.")},
        {BYTES("\x80\x04(\x8c\x04size\x94K\x05\x8c\x03xyz\x94K\x07"
               "d.")},
        {BYTES("\x80\x04}\x94\x8c\x04size\x94K\x04sj\x01\x00\x00\x00K\x05s.")},
    };
    for (size_t i = 0; i < sizeof(dicts) / sizeof(dicts[0]); i++) {
        dao_value_t value = {0};
        uint64_t size_bytes = 0, address = 77;
        CU_ASSERT_EQUAL(read_bytes(dicts[i].bytes, dicts[i].length, &value), DAO_OK);
        CU_ASSERT(dao_value_get_count(&store, value, KEY_SIZE, &size_bytes));
        CU_ASSERT_EQUAL(size_bytes, 5);
        CU_ASSERT_FALSE(dao_value_get_count(&store, value, KEY_ADDR, &address));
        CU_ASSERT_EQUAL(address, 77);
        CU_ASSERT_EQUAL(dao_value_list(&store, dao_value_get(&store, value, KEY_LIST)).count, 0);
        dao_value_store_finish(&store);
    }
}

static void what_is_wrong_is_told_with_its_offset(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *wanted;
    } wrong[] = {
        {BYTES("\x80\x02"
               "cos\nsystem\n."),
         "byte 2: the opcode GLOBAL is refused"},
        {BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "byte 14: the opcode STACK_GLOBAL is refused"},
        {BYTES("\x80\x02]R."), "byte 3: the opcode REDUCE is refused"},
        {BYTES("\x80\x02\xfe."), "byte 2: 0xfe is no opcode"},
        {BYTES("\x80\x01."), "byte 0: protocol 1 is none of 2 to 5"},
        {BYTES("\x80\x06."), "byte 0: protocol 6 is none of 2 to 5"},
        {BYTES("\x80\x02"), "byte 2: the file is cut off here"},
        {BYTES("\x80\x02K"), "byte 2: the file is cut off here"},
        {BYTES("\x80\x02X\x04\x00\x00\x00siz"), "byte 2: the file is cut off here"},
        {BYTES("\x80\x02X\x00\x00\x00\x80"), "a text of 2147483648 bytes"},
        {BYTES("\x80\x02K\x01K\x02."), "the file ends with 2 values"},
        {BYTES("\x80\x02."), "the file ends with 0 values"},
        {BYTES("\x80\x02(K\x01."), "the file ends with 1 values"},
        {BYTES("\x80\x02K\x01.K"), "there is more behind the end"},
        {BYTES("\x80\x02"
               "e."),
         "no mark is open"},
        {BYTES("\x80\x02(K\x01"
               "e."),
         "there is no list to append to"},
        {BYTES("\x80\x02K\x01K\x02"
               "a."),
         "there is no list to append to"},
        {BYTES("\x80\x02](a."), "the stack has too few values"},
        {BYTES("\x80\x02\x85."), "the stack has too few values"},
        {BYTES("\x80\x02(K\x01u."), "there is no dictionary to put items in"},
        {BYTES("\x80\x02}(K\x01u."), "a key has no item"},
        {BYTES("\x80\x02(K\x01"
               "d."),
         "a key has no item"},
        {BYTES("\x80\x02h\x00."), "memo 0 holds nothing"},
        {BYTES("\x80\x02]q\x00q\x01."), "memo 1 and 0 are one value"},
        {BYTES("\x80\x02]q\x00]q\x00."), "memo 0 has a value already"},
        {BYTES("\x80\x02]q\x00\x85h\x00K\x01"
               "a."),
         "byte 10: what was put somewhere is changed"},
        {BYTES("\x80\x02}q\x00\x85h\x00K\x01K\x01s."), "what was put somewhere is changed"},
        {BYTES("\x80\x02\x8a\x05\x00\x00\x00\x00\x01q\x00."), "the memo holds no numbers above"},
        {BYTES("\x80\x02q\x00."), "there is no value to remember"},
        {BYTES("\x80\x02K\x01q\x05."), "memo 5 comes before 0"},
        {BYTES("\x80\x02\x8a\x0a."), "a number of 10 bytes"},
        {BYTES("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "does not fit 64 bits"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_value_t value;
        CU_ASSERT_EQUAL(read_bytes(wrong[i].bytes, wrong[i].length, &value), DAO_ERR_PARSE);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wrong[i].wanted));
        if (strstr(dao_last_message(), wrong[i].wanted) == NULL) {
            (void)printf("    wanted: %s\n    told:   %s\n", wrong[i].wanted, dao_last_message());
        }
        dao_value_store_finish(&store);
    }
}

/* {"segments": [], "device_traces": [[{"action": "alloc", "addr": 9, "size": 64}]]} as protocol 2. */
static void a_snapshot_is_a_pickle(void)
{
    static const char bytes[] = "\x80\x02}q\x00(X\x08\x00\x00\x00segmentsq\x01]q\x02X\x0d\x00\x00\x00"
                                "device_tracesq\x03]q\x04]q\x05}q\x06(X\x06\x00\x00\x00"
                                "actionq\x07X\x05"
                                "\x00\x00\x00"
                                "allocq\x08X\x04\x00\x00\x00"
                                "addrq\x09K\x09X\x04\x00\x00\x00"
                                "sizeq\x0aK@u"
                                "a"
                                "a"
                                "u.";
    dao_life_log_t log;
    dao_test_write_file(dao_test_path, bytes, sizeof(bytes) - 1);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &log), DAO_OK);
    const dao_life_device_t *device = dao_life_log_find(&log, "0");
    CU_ASSERT_PTR_NOT_NULL_FATAL(device);
    CU_ASSERT_EQUAL(device->peak_bytes, 64);
    CU_ASSERT_EQUAL(device->events.counts.open_count, 1);
    dao_life_log_finish(&log);
}

/* Protocol 4: {"segments": [], "device_traces": [[entry, ...]]}, an alloc and a free at one address in turn,
   a thousand at a time as Python puts them; and what is to stand behind them. */
static size_t write_trace(char *bytes, int count, const char *rest, size_t rest_bytes)
{
    static const char begin[] = "\x80\x04}(\x8c\x08segments]\x8c\x0d"
                                "device_traces](](";
    static const char *const actions[] = {"\x8c\x05"
                                          "alloc",
                                          "\x8c\x04"
                                          "free"};
    size_t used = sizeof(begin) - 1;
    memcpy(bytes, begin, used);
    for (int i = 0; i < count; i++) {
        used += (size_t)sprintf(bytes + used, "%s}\x94(\x8c\x06%s%s\x8c\x04%sK@\x8c\x04%sK@u",
                                i % 1000 == 999 ? "e(" : "", "action", actions[i % 2], "addr", "size");
    }
    memcpy(bytes + used, rest, rest_bytes);
    used += rest_bytes;
    memcpy(bytes + used, "eeu.", 4);
    return used + 4;
}

static dao_status_t take_each_dict(void *user, dao_value_t list, dao_value_t dict, bool *out_taken)
{
    (void)list;
    (void)dict;
    ++*(int *)user;
    *out_taken = true;
    return DAO_OK;
}

/* Five times as many entries of a trace take no more of the store, where each thousand is taken. */
static void entries_that_are_taken_take_no_room(void)
{
    static char bytes[512 * 1024];
    size_t dict_counts[2], cell_counts[2];
    for (int i = 0; i < 2; i++) {
        int count = i == 0 ? 2000 : 10000, taken_count = 0;
        dao_value_t value = {0};
        dao_test_write_file(dao_test_path, bytes, write_trace(bytes, count, "", 0));
        dao_value_store_init(&store, keys, FIRST_REPEATED);
        store.take = take_each_dict;
        store.take_user = &taken_count;
        CU_ASSERT_EQUAL_FATAL(dao_pickle_read(dao_test_path, &store, &value), DAO_OK);
        CU_ASSERT_EQUAL(taken_count, count);
        dict_counts[i] = store.dict_count;
        cell_counts[i] = store.cell_count;
        dao_value_store_finish(&store);
    }
    CU_ASSERT_EQUAL(dict_counts[1], dict_counts[0]);
    CU_ASSERT_EQUAL(cell_counts[1], cell_counts[0]);
}

/* A trace is replayed as it is read. */
static void entries_of_a_trace_are_not_kept(void)
{
    static char bytes[512 * 1024];
    dao_life_log_t log;
    size_t length = write_trace(bytes, 10000, "", 0);
    dao_test_write_file(dao_test_path, bytes, length);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &log), DAO_OK);
    const dao_life_device_t *device = dao_life_log_find(&log, "0");
    CU_ASSERT_PTR_NOT_NULL_FATAL(device);
    CU_ASSERT_EQUAL(device->peak_bytes, 64);
    CU_ASSERT_EQUAL(device->events.record_count, 10000);
    CU_ASSERT_EQUAL(device->events.tensor_count, 5000);
    CU_ASSERT_EQUAL(device->events.operator_count, 0);
    dao_life_log_finish(&log);
}

/* An allocation, its free, and the same allocation again, behind where it was taken and before. */
static void an_entry_may_be_said_again(void)
{
    static char bytes[1024];
    for (int is_late = 0; is_late < 2; is_late++) {
        dao_life_log_t log;
        size_t length = write_trace(bytes, 2, is_late == 1 ? "e(j\0\0\0" : "j\0\0\0", is_late == 1 ? 7 : 5);
        dao_test_write_file(dao_test_path, bytes, length);
        CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &log), DAO_OK);
        CU_ASSERT_EQUAL(log.device_count, 1);
        const dao_event_file_t *events = &log.devices[0].events;
        CU_ASSERT_EQUAL_FATAL(events->record_count, 3);
        CU_ASSERT_EQUAL(events->tensor_count, 2);
        CU_ASSERT(events->records[0].is_alloc && !events->records[1].is_alloc && events->records[2].is_alloc);
        dao_life_log_finish(&log);
    }
}

static dao_status_t take_every_dict(void *user, dao_value_t list, dao_value_t dict, bool *out_taken)
{
    uint64_t number = 0;
    CU_ASSERT_EQUAL(list.type, DAO_VALUE_TYPE_LIST);
    CU_ASSERT(dao_value_get_count(&store, dict, KEY_SIZE, &number));
    *(uint64_t *)user += number;
    *out_taken = number != 1;
    return DAO_OK;
}

/* [{"size": 1}, {"size": 2}, {"size": 4}] in all ways to make a list: what was taken is not there. */
static void what_is_taken_leaves_nothing(void)
{
#define SIZE_OF(number) "}\x8c\x04sizeK" number "s"
    static const struct {
        const char *bytes;
        size_t length;
    } lists[] = {{BYTES("\x80\x04](" SIZE_OF("\x01") SIZE_OF("\x02") SIZE_OF("\x04") "e.")},
                 {BYTES("\x80\x04(" SIZE_OF("\x01") SIZE_OF("\x02") SIZE_OF("\x04") "l.")},
                 {BYTES("\x80\x04" SIZE_OF("\x01") SIZE_OF("\x02") SIZE_OF("\x04") "\x87.")}};
#undef SIZE_OF
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint64_t sum = 0;
        dao_value_t value = {0};
        dao_test_write_file(dao_test_path, lists[i].bytes, lists[i].length);
        dao_value_store_init(&store, keys, FIRST_REPEATED);
        store.take = take_every_dict;
        store.take_user = &sum;
        CU_ASSERT_EQUAL_FATAL(dao_pickle_read(dao_test_path, &store, &value), DAO_OK);
        CU_ASSERT_EQUAL(sum, 7);
        CU_ASSERT_EQUAL(dao_value_list(&store, value).count, 1);
        CU_ASSERT_NOT_EQUAL(store.free_dict, 0);
        CU_ASSERT_NOT_EQUAL(store.free_cell, 0);
        dao_value_store_finish(&store);
    }
}

static CU_TestInfo tests[] = {
    {"numbers of all sizes are exact", numbers_of_all_sizes_are_exact},
    {"lists are made in all ways", lists_are_made_in_all_ways},
    {"equal lists are one", equal_lists_are_one},
    {"equal stacks are kept once", equal_stacks_are_kept_once},
    {"equal dictionaries of keys that repeat are one", equal_dictionaries_of_keys_that_repeat_are_one},
    {"dictionaries keep what is known", dictionaries_keep_what_is_known},
    {"what is wrong is told with its offset", what_is_wrong_is_told_with_its_offset},
    {"a snapshot is a pickle", a_snapshot_is_a_pickle},
    {"entries that are taken take no room", entries_that_are_taken_take_no_room},
    {"entries of a trace are not kept", entries_of_a_trace_are_not_kept},
    {"an entry may be said again", an_entry_may_be_said_again},
    {"what is taken leaves nothing", what_is_taken_leaves_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pickle", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
