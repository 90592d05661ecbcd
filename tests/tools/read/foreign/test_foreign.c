/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of other tools' files: a small file of each form with its lives and counts known by hand, what
   is wrong with a file, files that are cut anywhere, memory that runs out; and the real files that lie beside
   the project with their known figures. */
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_events.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/step/read_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 2048 };

/* A snapshot as JSON; as a pickle it is in test_pickle.c. */
#define SEGMENT                                                                                              \
    "{\"segments\": [{\"device\": 0, \"address\": 4096, \"total_size\": 2048, \"blocks\": ["                 \
    "{\"address\": 4096, \"size\": 512, \"requested_size\": 500, \"state\": \"active_allocated\"},"          \
    "{\"address\": 4608, \"size\": 1024, \"requested_size\": 7000, \"state\": \"inactive\"},"                \
    "{\"address\": 5632, \"size\": 512, \"requested_size\": 400, \"state\": \"active_pending_free\"}]}],"    \
    "\"device_traces\": [["
#define ENTRY(action, addr, size) "{\"action\": \"" action "\", \"addr\": " #addr ", \"size\": " #size "}"

#define MEMORY(ts, device, bytes, rest)                                                                      \
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": " #ts ", \"args\": {\"Device Type\": " device           \
    ", \"Bytes\": " #bytes rest "}}"

#define RMM     "Thread,Time,Action,Pointer,Size,Stream\n"
#define ROCPROF "\"Kind\",\"Operation\",\"Agent_Id\",\"Allocation_Size\",\"Address\"\n"

#define RECORDING "time_ns,event,place,address,bytes,tag,stream\n"

#define UMPIRE_MAKE                                                                                          \
    "{\"category\": \"operation\", \"name\": \"make_memory_resource\", \"string_args\": "                    \
    "{\"allocator_ref\": \"0x1\"}, \"tags\": {\"allocator_name\": \"HOST\"}, \"timestamp\": 1}\n"            \
    "{\"category\": \"operation\", \"name\": \"make_allocator\", \"string_args\": {\"allocator_ref\": "      \
    "\"0x2\", \"arg0\": \"HOST\"}, \"tags\": {\"allocator_name\": \"POOL\"}, \"timestamp\": 2}\n"
#define UMPIRE(name, args)                                                                                   \
    "{\"category\": \"operation\", \"name\": \"" name "\", " args ", \"tags\": {}, \"timestamp\": 3}\n"
#define UMPIRE_AT(ref, pointer)                                                                              \
    "\"string_args\": {\"allocator_ref\": \"" ref "\", \"pointer\": \"" pointer "\"}"

typedef struct foreign_case {
    const char *text;
    dao_file_form_t form;
    const char *lives; /* "begin-end size, ..." of the device with the highest peak, in the file's order */
    const char
        *counts; /* window/open/older freed/older kept/replaced/guessed/refused/ignored reserved peak */
} foreign_case_t;

static const foreign_case_t cases[] = {
    {SEGMENT ENTRY("alloc", 5632, 400) ", " ENTRY("alloc", 4608, 100) ", " ENTRY(
         "free_requested", 4608,
         100) ", " ENTRY("free_completed", 4608,
                         100) ", " ENTRY("free_completed", 9000,
                                         64) ", "
                                             "{\"action\": \"oom\", \"device_free\": 3, \"size\": 99}]]}",
     DAO_FILE_FORM_SNAPSHOT, "1-5 400, 2-3 100, 0-4 64, 0-5 500", "2/1/1/1/0/0/1/0/0 2048 1064"},
    {"{\"segments\": [{\"address\": 64, \"total_size\": 96, \"blocks\": [{\"size\": 64, \"state\": "
     "\"active_allocated\", \"history\": [{\"real_size\": 60}]}, {\"size\": 32, \"state\": "
     "\"active_allocated\"}]}], \"device_traces\": []}",
     DAO_FILE_FORM_SNAPSHOT, "0-1 60, 0-1 32", "0/0/0/2/0/0/0/0/0 96 92"},
    {"{\"x\": [1, {\"y\": 2}], \"traceEvents\": [{\"name\": \"aten::add\", \"dur\": 1.5, \"args\": "
     "{\"Bytes\": "
     "7}}, " MEMORY(30.5, "1, \"Device Id\": 0", -64, ", \"Addr\": 9, \"Total Allocated\": 1000") ", " MEMORY(
         20, "1, \"Device Id\": 0", 64,
         ", \"Addr\": 9, \"Total Allocated\": 1064") ", " MEMORY(25, "0, \"Device Id\": -1", 8,
                                                                 ", \"Addr\": 9") "]}",
     DAO_FILE_FORM_CHROME_TRACE, "1-2 64, 0-3 1000", "1/0/0/1/0/0/0/0/0 0 1064"},
    {"[" MEMORY(1, "1, \"Device Id\": 3", 64, "") ", " MEMORY(2, "1, \"Device Id\": 3", 64, "") ", " MEMORY(
         3, "1, \"Device Id\": 3", -64, "") "]",
     DAO_FILE_FORM_CHROME_TRACE, "1-4 64, 2-3 64", "2/1/0/0/0/1/0/0/0 0 128"},
    {"[[-1, 1, 10, 7], [5, 4, -10, 0], [3, 2, 20, 4], [4, 3, -20, 4], [4, 3, 20, 5]]",
     DAO_FILE_FORM_MEMORY_TIMELINE, "0-2 10, 1-3 20", "1/1/1/0/0/0/0/2/0 0 30"},
    {RMM "1,12:00:00.000001,allocate,0x7f00,256,0x0\r\n2,23:59:60.5,allocate,0xFF,1024.0,0x2\n"
         "1,00:00:00:000002,allocate failure,(nil),4096,0x0\n1,00:00:00.000001,allocate,0x7f00,16,0\n"
         "1,00:00:00:000001,free,0xff,0,0\n",
     DAO_FILE_FORM_RMM, "1-3 256, 2-5 1024, 4-6 16", "3/1/0/0/1/0/1/0/1 0 1280"},
    {"Stream,Pointer,Size,Action,Extra\n0,0xa,8,allocate,\"x, \"\"y\"\"\"\n", DAO_FILE_FORM_RMM, "1-2 8",
     "1/1/0/0/0/0/0/0/0 0 8"},
    {ROCPROF "\"M\",\"MEMORY_ALLOCATION_ALLOCATE\",\"Agent 0\",1024,\"0x00007ffb26354000\"\n"
             "\"M\",\"MEMORY_ALLOCATION_ALLOCATE\",\"Agent 1\",8,\"0x00007ffb26350000\"\n"
             "\"M\",\"MEMORY_ALLOCATION_VMEM_ALLOCATE\",\"Agent 0\",4096,\"0x1\"\n"
             "\"M\",\"MEMORY_ALLOCATION_FREE\",\"\",0,\"0x00007ffb26354000\"\n"
             "\"M\",\"MEMORY_ALLOCATION_FREE\",\"\",0,\"0x0\"\n",
     DAO_FILE_FORM_ROCPROF, "1-2 1024", "1/0/0/0/0/0/0/2/0 0 1024"},
    {UMPIRE_MAKE UMPIRE("allocate", "\"numeric_args\": {\"size\": 128}, " UMPIRE_AT("0x1", "0xa0"))
         UMPIRE("named_allocate", "\"numeric_args\": {\"size\": 64}, " UMPIRE_AT("0x2", "0xa0"))
             UMPIRE("deallocate", UMPIRE_AT("0x1", "0xa0")) UMPIRE(
                 "reallocate", "\"numeric_args\": {\"size\": 80}, \"string_args\": {\"allocator_ref\": "
                               "\"0x2\", \"current_ptr\": \"0xa0\"}")
                 UMPIRE("allocate", "\"numeric_args\": {\"size\": 80}, " UMPIRE_AT("0x2", "0xb0"))
                     UMPIRE("deallocate", UMPIRE_AT("0x2", "0xa0"))
                         UMPIRE("reallocate",
                                "\"string_args\": {\"allocator_ref\": \"0x2\", \"new_ptr\": \"0xb0\"}"),
     DAO_FILE_FORM_UMPIRE, "1-3 128, 2-4 64, 5-6 80", "3/1/0/0/0/0/0/0/0 0 192"},
    {"400 -1\n100 -1\r\n100 1\n0 -1\n\n400 0\n", DAO_FILE_FORM_SIZE_LIST, "1-5 400, 2-3 100",
     "3/1/0/0/0/0/0/0/0 0 500"},
    /* a segment's device is found whether its events come before or behind */
    {"{\"device_traces\": [[], [" ENTRY("alloc", 64, 60) ", 7], [" ENTRY(
         "alloc", 64,
         8) "]], \"segments\": "
            "[{\"device\": 1, \"address\": 64, \"total_size\": 96, \"blocks\": [{\"size\": 64, \"state\": "
            "\"active_allocated\"}, {\"size\": 32, \"state\": \"active_allocated\"}]}]}",
     DAO_FILE_FORM_SNAPSHOT, "1-2 60, 0-2 32", "1/1/0/1/0/0/0/1/0 96 92"},
    /* a free whose line came late, another place at the same address, and a line that was cut off */
    {RECORDING "10,alloc,device:0,0x700,1024,\"a,b\",0\n20,refused,device:0,0x0,4096,,0\n"
               "15,alloc,cpu,0x700,8,,0\n40,alloc,device:0,0x700,512,a,1\n30,free,device:0,0x700,1024,,0\n"
               "35,step,device:0,0x0,0,,0\n50,trim,device:0,0x0,64,,0\n60,free,device:0,0x7",
     DAO_FILE_FORM_RECORDING, "1-2 1024, 3-4 512", "2/1/0/0/0/0/1/1/0 0 1024"},
};

static dao_status_t read_text(const char *text, dao_life_log_t *out_log)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    return dao_read_event_log(dao_test_path, out_log);
}

static void print_lives(const dao_event_file_t *events, char out_text[TEXT_BYTES])
{
    dao_plan_input_t lifetimes;
    size_t length = 0;
    dao_plan_input_init(&lifetimes);
    CU_ASSERT_EQUAL(dao_plan_input_of_events(events, &lifetimes), DAO_OK);
    out_text[0] = '\0';
    for (size_t i = 0; i < lifetimes.buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &lifetimes.buffers[i];
        length +=
            (size_t)snprintf(out_text + length, TEXT_BYTES - length, "%s%" PRIu64 "-%" PRIu64 " %" PRIu64,
                             i > 0 ? ", " : "", buffer->begin_time, buffer->end_time, buffer->size_bytes);
    }
    dao_plan_input_finish(&lifetimes);
}

static void print_counts(const dao_life_device_t *device, char out_text[TEXT_BYTES])
{
    const dao_life_counts_t *counts = &device->events.counts;
    (void)snprintf(out_text, TEXT_BYTES,
                   "%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%" PRIu64
                   "/%" PRIu64 "/%" PRIu64 " %" PRIu64 " %" PRIu64,
                   counts->in_window_count, counts->open_count, counts->older_freed_count,
                   counts->older_kept_count, counts->replaced_count, counts->guessed_count,
                   counts->refused_count, counts->ignored_count, counts->backward_count,
                   counts->reserved_bytes, device->peak_bytes);
}

static void check_text(const char *text, const char *wanted)
{
    CU_ASSERT_STRING_EQUAL(text, wanted);
    if (strcmp(text, wanted) != 0) {
        (void)printf("    read:   %s\n    wanted: %s\n", text, wanted);
    }
}

static void every_form_is_read(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[TEXT_BYTES];
        dao_life_log_t log;
        dao_file_form_t form = DAO_FILE_FORM_COUNT;
        dao_status_t status = read_text(cases[i].text, &log);
        CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
        CU_ASSERT_EQUAL(dao_recognise(dao_test_path, &form), DAO_OK);
        CU_ASSERT_EQUAL(form, cases[i].form);
        const dao_life_device_t *device = dao_life_log_find(&log, NULL);
        print_lives(&device->events, text);
        check_text(text, cases[i].lives);
        print_counts(device, text);
        check_text(text, cases[i].counts);
        dao_life_log_finish(&log);
    }
}

/* A cut file is refused, or it is a shorter one; never more than that. */
static void cut_files_are_refused_or_shorter(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t length = 0; length < strlen(cases[i].text); length += 3) {
            dao_life_log_t log;
            dao_test_write_file(dao_test_path, cases[i].text, length);
            if (dao_read_event_log(dao_test_path, &log) == DAO_OK) {
                CU_ASSERT(dao_life_log_is_valid(&log));
                dao_life_log_finish(&log);
            } else {
                CU_ASSERT(strlen(dao_last_message()) > 0);
            }
        }
    }
}

static void devices_are_chosen_by_name(void)
{
    dao_event_file_t events;
    dao_test_write_file(dao_test_path, cases[2].text, strlen(cases[2].text));
    CU_ASSERT_EQUAL_FATAL(dao_read_events(dao_test_path, "cpu", &events), DAO_OK);
    CU_ASSERT_EQUAL(events.tensor_count, 1);
    CU_ASSERT_EQUAL(events.tensors[0].size_bytes, 8);
    dao_event_file_finish(&events);
    CU_ASSERT_EQUAL(dao_read_events(dao_test_path, "7", &events), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "no device 7; there are:"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), " cpu"));
}

static void what_is_wrong_is_told(void)
{
    static const struct {
        const char *text, *wanted;
    } wrong[] = {
        {"{\"segments\": [{\"total_size\": 1}]}", ": a segment has no address or no total_size"},
        {"{\"segments\": [{\"address\": 1, \"total_size\": 1, \"blocks\": [{\"state\": \"active\"}]}]}",
         "has no size"},
        {"{\"segments\": [], \"device_traces\": [[]]}", "was memory ever allocated?"},
        {"{\"segments\": [], \"device_traces\": [[{\"action\": \"alloc\", \"addr\": 1}]]}",
         "an entry \"alloc\" has no addr or no size"},
        {"{\"segments\": [], \"device_traces\": [[7, " ENTRY("alloc", 1, 1) "]]}",
         "a list has events and other things"},
        {"{\"segments\": [], \"device_traces\": [[7]]}", "device 0 begins with what is no event"},
        {"{\"segments\": [" ENTRY("alloc", 1, 1) "], \"device_traces\": [[" ENTRY("alloc", 1, 1) "]]}",
         "there are events outside of device_traces"},
        {"{\"traceEvents\": [" MEMORY(1, "1, \"Device Id\": 0", 8, "") "]} {}",
         "found, expected nothing more"},
        {"[" MEMORY(1, "1, \"Device Id\": 0", 8, "") "]]", "found, expected nothing more"},
        {"{\"traceEvents\": [{\"name\": \"x\"}]}", "no event is called [memory]"},
        {"{\"traceEvents\": [{\"name\": \"[memory]\", \"args\": {\"Bytes\": 8}}]}", "has no ts, or no Bytes"},
        {"{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Bytes\": 8.5}}]}",
         ":1:66: this is no whole number of 64 bits"},
        {"{\"traceEvents\": [7]}", ":1:18: expected an event"},
        {"[[1, 5, 8, 0]]", "the action is none of 1 to 4"},
        {"[[1, 2, 8, 0, 9]]", "this is a list, perhaps the sums"},
        {"[[1, 2, 8, 0], [1, 2, 8]]", "expected a whole number"},
        {RMM "1,1,deallocate,0x1,8,0\n", ":2:5: this is no action that is known"},
        {RMM "1,0,allocate failure,(nil),1e,0\n", ":2:28: the size is no whole number"},
        {RMM "1,0,free,77,8,0\n", ":2:10: this is no address"},
        {RMM "1,0,free,0x1,8\n", "the line has 5 fields, and the first one 6"},
        {RMM "1,0,free,\"0x1,8,0\n", ":2:10: the quotes of this field are not closed on its line"},
        {RMM, "no event in it is one of memory"},
        {RMM "1,25:61:61,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,23:60:00.1,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,23:59:61.1,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,1:02:03.4,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,01:02:03,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,01:02:03.,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,01:02:03.1234567890,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,01:02:03.4x,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {RMM "1,,free,0x1,8,0\n", ":2:3: this is no time of a day"},
        {"Action,Pointer,Size,Stream,Pointer\nfree,0x1,8,0,0x2\n",
         ":1:28: the first line has a second column"},
        {UMPIRE("allocate", "\"numeric_args\": {\"size\": 1}, " UMPIRE_AT("0x1", "0x2")),
         "no line before makes the allocator 0x1"},
        {UMPIRE_MAKE UMPIRE("allocate", UMPIRE_AT("0x1", "0x2")), "an allocation has no size"},
        {UMPIRE_MAKE UMPIRE("allocate", "\"numeric_args\": {\"size\": 1}, " UMPIRE_AT("0x1", "2")),
         "\"2\" is no address"},
        {UMPIRE_MAKE UMPIRE("reallocate",
                            "\"string_args\": {\"allocator_ref\": \"0x1\", \"new_ptr\": \"0x2\"}"),
         "a reallocate ends that has not begun"},
        {"T 0\nK 0 0\n", "which has no events of allocations"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_life_log_t log;
        CU_ASSERT_NOT_EQUAL(read_text(wrong[i].text, &log), DAO_OK);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wrong[i].wanted));
        if (strstr(dao_last_message(), wrong[i].wanted) == NULL) {
            (void)printf("    wanted: %s\n    told:   %s\n", wrong[i].wanted, dao_last_message());
        }
    }
}

static void steps_say_what_they_need(void)
{
    dao_step_trace_t trace;
    dao_test_write_file(dao_test_path, cases[0].text, strlen(cases[0].text));
    CU_ASSERT_EQUAL(dao_read_step(dao_test_path, NULL, &trace), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "not which operator reads and writes what"));
}

#if defined(DAO_FAULTS)
static void want_of_memory_is_told(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_complete = false;
        dao_test_write_file(dao_test_path, cases[i].text, strlen(cases[i].text));
        for (uint64_t skip = 0; !is_complete; skip++) {
            dao_life_log_t log;
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
            dao_status_t status = dao_read_event_log(dao_test_path, &log);
            is_complete = dao_fault_disarm() == 0;
            CU_ASSERT_EQUAL(status, is_complete ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
            if (status == DAO_OK) {
                dao_life_log_finish(&log);
            }
        }
    }
}
#endif

/* ---- who called ---- */

#define FRAME(name, file, line) "{\"name\": \"" name "\", \"filename\": \"" file "\", \"line\": " #line "}"
#define LINEAR                                                                                               \
    "[" FRAME("at::native::empty_cuda(long)", "??", 0) ", " FRAME(                                           \
        "at::_ops::addmm::call(at::Tensor)", "??",                                                           \
        0) ", " FRAME("at::_ops::linear::call(at::Tensor)", "??",                                            \
                      0) ", " FRAME("forward", "/me/model.py",                                               \
                                    55) ", " FRAME("_call_impl",                                             \
                                                   "/x/site-packages/torch/nn/modules/module.py",            \
                                                   1) ", " FRAME("ma;in", "/me/train.py", 9) "]"
#define BACKWARD                                                                                             \
    "[" FRAME("at::_ops::mm::call(at::Tensor)", "", 0) ", " FRAME("torch::autograd::Engine::thread_init()",  \
                                                                  "engine.cpp", 7) "]"
#define LIBRARY                                                                                              \
    "[" FRAME("zeros", "/x/site-packages/torch/a.py", 3) ", " FRAME("init", "/x/site-packages/b.py", 4) "]"
#define MADE(addr, size, rest) "{\"action\": \"alloc\", \"addr\": " #addr ", \"size\": " #size rest "}"

#define MADE_LINEAR   MADE(1, 10, ", \"category\": \"activation\", \"frames\": " LINEAR)
#define MADE_BACKWARD MADE(2, 20, ", \"frames\": " BACKWARD)
#define MADE_UNTOLD   MADE(3, 30, "") ", " MADE(4, 40, ", \"frames\": []")
#define STACK_BLOCK                                                                                          \
    "{\"address\": 64, \"size\": 64, \"state\": \"active_allocated\", \"frames\": " LIBRARY "}"

static const char stacks[] =
    "{\"segments\": [{\"device\": 0, \"address\": 64, \"total_size\": 64, \"blocks\": [" STACK_BLOCK
    "]}], \"device_traces\": [[" MADE_LINEAR ", " MADE_BACKWARD ", " MADE_UNTOLD "]]}";

static void stacks_say_who_called(void)
{
    static const struct {
        uint64_t size_bytes;
        const char *tag, *maker, *module;
    } wanted[] = {
        {10, "activation", "linear, forward (model.py:55)", ";ma,in (train.py:9);forward (model.py:55)"},
        {20, "", "mm, backward", ""},
        {30, "", "", ""},
        {40, "", "", ""},
        {64, "", "zeros (a.py:3)", ";init (b.py:4);zeros (a.py:3)"},
    };
    dao_plan_input_t lifetimes;
    dao_test_write_file(dao_test_path, stacks, strlen(stacks));
    CU_ASSERT_EQUAL_FATAL(
        dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){.has_labels = true}, &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(lifetimes.buffer_count, sizeof(wanted) / sizeof(wanted[0]));
    for (size_t i = 0; i < lifetimes.buffer_count; i++) {
        dao_plan_label_t label = dao_plan_input_label(&lifetimes, i);
        CU_ASSERT_EQUAL(lifetimes.buffers[i].size_bytes, wanted[i].size_bytes);
        check_text(dao_plan_input_text(&lifetimes, label.tag), wanted[i].tag);
        check_text(dao_plan_input_text(&lifetimes, label.maker), wanted[i].maker);
        check_text(dao_plan_input_text(&lifetimes, label.module), wanted[i].module);
    }
    dao_plan_input_finish(&lifetimes);
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL(lifetimes.label_count, 0); /* nobody asked */
    dao_plan_input_finish(&lifetimes);
}

#if defined(DAO_FAULTS)
static void want_of_memory_for_stacks_is_told(void)
{
    bool is_complete = false;
    dao_test_write_file(dao_test_path, stacks, strlen(stacks));
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_plan_input_t lifetimes;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status =
            dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){.has_labels = true}, &lifetimes);
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT_EQUAL(status, is_complete ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
        if (status == DAO_OK) {
            dao_plan_input_finish(&lifetimes);
        }
    }
}
#endif

static void real_files_have_their_figures(void)
{
    static const struct {
        const char *name;
        size_t buffer_count;
        const char *counts; /* window, older and freed, older and kept */
        uint64_t peak_bytes;
    } files[] = {
        {"torch-snapshot/cs336_fwd_fp32_2026.pickle.gz", 818, "681 0 137", 556843008},
        {"torch-snapshot/cs336_infer_ctx512_2026.pickle.gz", 1889, "1666 0 223", 1949343744},
        {"torch-snapshot/cs336_small_2026.pickle", 36, "36 0 0", 3249143816},
        {"torch-snapshot/cs336_step_b_2026.pickle.gz", 2609, "2162 222 225", 3849232640},
        {"torch-snapshot/cs336_train_ctx128_2026.pickle.gz", 7190, "6526 438 226", 7013335044},
        {"torch-snapshot/llm_1.3b_2023.pickle.gz", 786, "0 1 785", 5692346376},
        {"torch-snapshot/llm_oom_2023.pickle.gz", 460, "0 0 460", 11840159744},
        {"torch-snapshot/mosaic_generated.pickle.gz", 537, "520 0 17", 2255398598},
        {"torch-snapshot/sketchkv2_2024.pickle.gz", 840, "0 1 839", 16380108176},
        {"torch-profiler/hta_v100_rank1.memory.json.gz", 13386, "13385 0 1", 6629508096},
        {"torch-profiler/kineto_resnet50_w0_a.memory.json.gz", 4110, "4110 0 0", 2791636480},
        {"torch-profiler/hta_memory_timeline.raw.json.gz", 3990, "3345 161 484", 3082832104},
        {"umpire/output.replay", 204, "204 0 0", 372},
        {"rocprof/memory_allocation_trace.csv", 2, "2 0 0", 2048},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[512], counts[64];
        dao_life_log_t log;
        (void)snprintf(path, sizeof(path), "%s/../shared/data/%s", DAO_TEST_SOURCE_DIR, files[i].name);
        if (access(path, R_OK) != 0) {
            continue; /* the files are not a part of the project; its own are above */
        }
        CU_ASSERT_EQUAL_FATAL(dao_read_event_log(path, &log), DAO_OK);
        const dao_life_device_t *device = dao_life_log_find(&log, NULL);
        (void)snprintf(counts, sizeof(counts), "%" PRIu64 " %" PRIu64 " %" PRIu64,
                       device->events.counts.in_window_count, device->events.counts.older_freed_count,
                       device->events.counts.older_kept_count);
        CU_ASSERT_EQUAL(device->events.tensor_count, files[i].buffer_count);
        CU_ASSERT_EQUAL(device->peak_bytes, files[i].peak_bytes);
        check_text(counts, files[i].counts);
        dao_life_log_finish(&log);
    }
}

static CU_TestInfo tests[] = {
    {"every form is read", every_form_is_read},
    {"cut files are refused or shorter", cut_files_are_refused_or_shorter},
    {"devices are chosen by name", devices_are_chosen_by_name},
    {"what is wrong is told", what_is_wrong_is_told},
    {"steps say what they need", steps_say_what_they_need},
#if defined(DAO_FAULTS)
    {"want of memory is told", want_of_memory_is_told},
    {"want of memory for stacks is told", want_of_memory_for_stacks_is_told},
#endif
    {"stacks say who called", stacks_say_who_called},
    {"real files have their figures", real_files_have_their_figures},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"foreign", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
