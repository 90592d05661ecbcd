#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks files that `dao convert` wrote by the rules of the programs that read them.

snapshot FILE PEAK     PyTorch's memory viewer: how it counts, and what it throws at; a pickle or JSON
chrome FILE PEAK       Chrome's trace events: Perfetto, Speedscope
run FILE KERNELS       the same of a run's trace, of so many kernels, or that many times some steps
rmm FILE PEAK          RMM's replay benchmark
segments FILE OUT      the bare list of segments, which `_memory_viz.py stats` of PyTorch 1.13 takes

PEAK is the most bytes alive at once, as dao says it.
"""
import csv
import json
import pickle
import pickletools
import sys

# What the viewer's own unpickler knows.
VIEWER_OPCODES = {
    "PROTO", "STOP", "MARK", "EMPTY_DICT", "SETITEMS", "SETITEM", "EMPTY_LIST", "APPENDS", "APPEND",
    "BINUNICODE", "SHORT_BINUNICODE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "BININT",
    "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE",
}  # fmt: skip
BATCH_ITEMS = 1000


def require(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_opcodes(data):
    """Only known opcodes, protocol 2, and no batch of more than BATCH_ITEMS."""
    depth_items = []
    for opcode, argument, place in pickletools.genops(data):
        require(opcode.name in VIEWER_OPCODES, f"opcode {opcode.name} at {place}")
        if opcode.name == "PROTO":
            require(argument == 2, f"protocol {argument}")
        if opcode.name == "MARK":
            depth_items.append(place)
    require(data.endswith(b"."), "no STOP at the end")
    stack = [[]]
    for opcode, _, place in pickletools.genops(data):
        name = opcode.name
        if name == "MARK":
            stack.append([0])
        elif name in ("APPENDS", "SETITEMS"):
            items = stack.pop()[0]
            require(name != "APPENDS" or items <= BATCH_ITEMS, f"a batch of {items} at {place}")
        elif name not in ("PROTO", "STOP", "BINPUT", "LONG_BINPUT") and len(stack) > 1:
            stack[-1][0] += 1


def check_segments(segments):
    """Blocks tile their segment, as the assertion of _memory_viz.py says. Gives what is alive."""
    live = {}
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            require(block["address"] == address, f"a block at {block['address']:#x}, not {address:#x}")
            require(block["state"] in ("active_allocated", "active_pending_free", "inactive"),
                    f"state {block['state']}")
            address += block["size"]
            if block["state"] == "active_allocated":
                live[block["address"]] = block["requested_size"]
                require(0 < block["requested_size"] <= block["size"], "a block smaller than its request")
        require(address == segment["address"] + segment["total_size"], "the blocks do not fill the segment")
        active = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
        require(segment["requested_size"] == sum(b["requested_size"] for b in active), "requested_size")
        require(segment["allocated_size"] == sum(b["size"] for b in active), "allocated_size")
    return live


def check_places(segments, entries):
    """The viewer goes back from the end, and finds the segment of each block that was alive."""
    places = {(segment["address"], segment["address"] + segment["total_size"]) for segment in segments}
    kept = {b["address"] for s in segments for b in s["blocks"] if b["state"] == "active_pending_free"}
    for entry in reversed(entries):
        begin, end = entry["addr"], entry["addr"] + entry["size"]
        if entry["action"] == "segment_free":
            require(all(end <= a or b <= begin for a, b in places), "a segment over another one")
            places.add((begin, end))
        elif entry["action"] == "segment_alloc":
            require((begin, end) in places, "a segment begins that is not there")
            places.remove((begin, end))
        elif entry["action"] != "snapshot":
            require(any(a <= begin < b for a, b in places), f"{begin:#x} is in no segment")
        if entry["action"] == "free_completed":
            kept.add(begin)
        elif entry["action"] == "free_requested":
            require(begin in kept, "a free was asked for of no block")
            kept.remove(begin)


def check_snapshot(path, peak):
    with open(path, "rb") as file:
        data = file.read()
    is_json = data.startswith(b"{")
    if not is_json:
        check_opcodes(data)
    top = json.loads(data) if is_json else pickle.loads(data)
    require(set(top) >= {"segments", "device_traces"}, f"keys {sorted(top)}")
    devices = max([s["device"] for s in top["segments"]], default=0) + 1
    require(len(top["device_traces"]) >= devices, "a device without its list")
    at_end = check_segments(top["segments"])
    entries = top["device_traces"][devices - 1]
    check_places(top["segments"], entries)
    categories = [e.get("category") for e in entries]
    require(all(categories) or not any(categories), "some entries have a category, others not")
    require(not any(categories) or "unknown" in categories, "no entry has the category unknown")
    # What is freed and not allocated, or alive at the end and not allocated, was alive before.
    allocated, before, live, asked = set(), [], {}, {}
    last_us = 0
    for entry in entries:
        require(entry["time_us"] >= last_us, "times go back")
        last_us = entry["time_us"]
        require(isinstance(entry["frames"], list), "an entry without frames")
        if entry["action"] == "alloc":
            require(entry["addr"] not in live, "an allocation over a live block")
            live[entry["addr"]] = entry["size"]
            allocated.add(entry["addr"])
        elif entry["action"] == "free_requested":
            asked[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            require(asked.pop(entry["addr"], None) == entry["size"], "a free that was not asked for")
            if live.pop(entry["addr"], None) is None:
                require(entry["addr"] not in allocated, "a free of what is not alive")
                before.append(entry["size"])
                allocated.add(entry["addr"])
        else:
            require(entry["action"] in ("segment_alloc", "segment_free", "snapshot"),
                    f"action {entry['action']}")
    pending = {b["address"] for s in top["segments"] for b in s["blocks"]
               if b["state"] == "active_pending_free"}
    require(set(asked) <= pending, "a free was asked for and never happened")
    for address in asked:
        live.pop(address, None)
    for address, size in at_end.items():
        if address in live:
            require(live.pop(address) == size, "a block at the end has another size than its allocation")
        else:
            before.append(size)
    require(not live, "what is alive at the end is in no segment")
    used = top_used = sum(before)
    for entry in entries:
        if entry["action"] == "alloc":
            used += entry["size"]
            top_used = max(top_used, used)
        elif entry["action"] == "free_completed":
            used -= entry["size"]
    require(top_used == peak, f"peak {top_used}, not {peak}")


def check_chrome(path, peak):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    open_ids, slices, counters, named = {}, {}, {}, set()
    for event in events:
        require(event["ph"] in "MXbeiC", f"phase {event['ph']}")
        require(isinstance(event["name"], str) and event["ts"] >= 0, "a name or a time")
        require("pid" in event and "tid" in event, "an event without process and thread")
        if event["ph"] == "M":
            named.add((event["name"], event["tid"]))
        elif event["ph"] == "X":
            slices.setdefault(event["tid"], []).append((event["ts"], event["dur"]))
            require(("thread_name", event["tid"]) in named, "a slice on a thread without a name")
        elif event["ph"] == "b":
            key = (event["cat"], event["id"])
            require(key not in open_ids, f"{key} begins twice")
            open_ids[key] = event["ts"]
        elif event["ph"] == "e":
            require(open_ids.get((event["cat"], event["id"]), 1e300) <= event["ts"], "an end without a begin")
            open_ids[(event["cat"], event["id"])] = 1e300
        elif event["ph"] == "C":
            require(event["ts"] not in counters, "two values of the counter at one time")
            counters[event["ts"]] = event["args"]["used"]
    require(all(ts == 1e300 for ts in open_ids.values()), "a buffer that never ends")
    for lane in slices.values():
        end = 0
        for ts, duration in lane:
            require(ts >= end, "two slices of a thread overlap, as doubles")
            end = ts + duration
    totals = [e["args"]["Total Allocated"] for e in events if e["name"] == "[memory]"]
    require(max(totals) == peak, f"peak {max(totals)}, not {peak}")
    require(max(counters.values()) <= peak, "the counter is above the peak")


def check_run(path, kernel_count):
    """Slices of a thread follow each other; all kernels are there; copies bring bytes."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names, lanes, moved = {}, {}, {}
    for event in events:
        require(event["ph"] in "MX" and event["ts"] >= 0 and isinstance(event["name"], str), "an event")
        if event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            require(event["tid"] in names, "a slice on a thread without a name")
            require(event["ts"] >= lanes.get(event["tid"], 0), "two slices of a thread overlap, as doubles")
            lanes[event["tid"]] = event["ts"] + event["dur"]
            name = names[event["tid"]]
            moved[name] = moved.get(name, 0) + event["args"].get("bytes", 0)
    kernels = [e["args"]["index"] for e in events if e.get("cat") == "kernel"]
    require(kernels and len(kernels) % kernel_count == 0, f"{len(kernels)} kernels")
    require(kernels == list(range(kernel_count)) * (len(kernels) // kernel_count), "kernels out of order")
    require(moved.get("copies in", 0) > 0, f"bytes moved: {moved}")


def check_rmm(path, peak):
    live, used, top = {}, 0, 0
    with open(path, encoding="ascii", newline="") as file:
        rows = csv.DictReader(file)
        require(
            rows.fieldnames == ["Thread", "Time", "Action", "Pointer", "Size", "Stream"],
            f"columns {rows.fieldnames}",
        )
        for row in rows:
            size, pointer = int(row["Size"]), int(row["Pointer"], 16)
            require(int(row["Thread"]) >= 0 and row["Stream"] == "0" and pointer > 0, f"row {row}")
            hours, minutes, seconds = row["Time"].split(":")
            require(int(hours) < 24 and int(minutes) < 60 and float(seconds) < 60, f"time {row['Time']}")
            if row["Action"] == "allocate":
                require(pointer not in live, "an allocation over a live block")
                live[pointer] = size
                used += size
                top = max(top, used)
            else:
                require(row["Action"] == "free", f"action {row['Action']}")
                require(live.pop(pointer, None) == size, "a free of another size than its allocation")
                used -= size
    require(top == peak, f"peak {top}, not {peak}")


def main():
    kind, path, what = sys.argv[1:]
    if kind == "segments":
        with open(path, "rb") as file, open(what, "wb") as out:
            pickle.dump(pickle.load(file)["segments"], out, 2)
        return
    {"snapshot": check_snapshot, "chrome": check_chrome, "run": check_run,
     "rmm": check_rmm}[kind](path, int(what))


main()
