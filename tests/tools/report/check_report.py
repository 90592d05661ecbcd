# SPDX-License-Identifier: Apache-2.0
"""Checks what dao report writes.

    check_report.py data PAGE FIGURES  the numbers in the page make the figures, by sums of its own
    check_report.py flame FILE PEAK    a profile as Speedscope takes it, of so many bytes

What a browser shows of a page is checked by show_pages.py, with check_shown().
"""
import base64
import bisect
import html.parser
import json
import re
import sys
import zlib

GROUP_COUNT = 12  # rows of a table in the page: view.js


def fail(text):
    sys.exit(f"check_report.py: {text}")


def expect(is_right, text):
    if not is_right:
        fail(text)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# ---- the page as a file ----

class Numbers:
    """Numbers in bytes of seven bits, the lowest first; columns whose bytes lie apart, the lowest first."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def next(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def skip(self, count):
        for _ in range(count):
            self.next()

    def column(self, count):
        width, begin = self.data[self.at], self.at + 1
        self.at = begin + width * count
        planes = [self.data[begin + i * count:begin + (i + 1) * count] for i in range(width)]
        return [int.from_bytes(number, "little") for number in zip(*planes)] if planes else [0] * count


def blobs(page, name):
    found = re.findall(f'<script type="text/plain" class="{name}">([^<]*)</script>', page)
    return [zlib.decompress(base64.b64decode(text, validate=True)) for text in found]


def read_names(head, columns):
    """A name of the head, or the number of the buffer."""
    names, given, number = [], iter(head["names"]), 0
    for _ in range(head["count"]):
        step = columns.next()
        number += -(step >> 1) if step & 1 else step >> 1
        names.append(next(given) if columns.next() == 1 else str(number))
    return names


def read_offsets(head, columns, sizes):
    """Told, or where another buffer ends: those are found as soon as the other one is."""
    count, unit = head["count"], head["unit"]
    on = columns.column(count)
    told = iter(columns.column(on.count(0)))
    offsets, carried = [None] * count, {}
    for i, code in enumerate(on):
        if code > 0:
            carried.setdefault(i - (code + 1) // 2 if code % 2 == 1 else i + code // 2, []).append(i)
    found = [i for i, code in enumerate(on) if code == 0]
    for i in found:
        offsets[i] = next(told) * unit
    for i in found:
        for above in carried.get(i, []):
            offsets[above] = (offsets[i] + sizes[i] + unit - 1) // unit * unit
            found.append(above)
    expect(len(found) == count, "buffers lie on each other")
    return offsets


def largest(sums, names):
    order = sorted(range(len(names)), key=lambda i: (-sums[i], i))
    return [(names[i], sums[i]) for i in order if sums[i] > 0]


def check_lives(head, columns, figures):
    """The peak, its holders and groups, from lives alone."""
    count = head["count"]
    begins = columns.column(count)
    for i in range(1, count):
        begins[i] += begins[i - 1]
    ends = [begin + length for begin, length in zip(begins, columns.column(count))]
    sizes = columns.column(count)
    offsets = read_offsets(head, columns, sizes)
    names = read_names(head, columns)
    groupings = [(grouping, columns.column(count)) for grouping in head["groupings"]]
    changes = sorted([(time, 1, size) for time, size in zip(begins, sizes)]
                     + [(time, 0, -size) for time, size in zip(ends, sizes)])
    live = peak = when = 0
    for time, _, size in changes:
        live += size
        if live > peak:
            peak, when = live, time
    expect(live == 0, "bytes are alive behind the last life")
    expect((peak, when) == (figures["peak_bytes"], figures["peak_time"]), f"peak {peak} at {when}")
    alive = [i for i in range(count) if begins[i] <= when < ends[i]]
    expect(len(alive) == figures["peak_buffers"], f"{len(alive)} buffers at the peak")
    alive.sort(key=lambda i: (-sizes[i], i))
    told = [(holder["name"], holder["size_bytes"]) for holder in figures["holders"]]
    expect([(names[i], sizes[i]) for i in alive[:len(told)]] == told, "other holders")
    check_groups(groupings, alive, sizes, figures)
    check_offsets(begins, ends, sizes, offsets, figures)


def check_groups(groupings, alive, sizes, figures):
    for grouping, of in groupings:
        sums = [0] * len(grouping["names"])
        for i in alive:
            sums[of[i]] += sizes[i]
        told = [(group["name"], group["size_bytes"]) for group in figures["groups"]
                if group["by"] == grouping["by"]]
        expect(told and largest(sums, grouping["names"])[:len(told)] == told,
               f"other groups by {grouping['by']}")
        expect(sum(sums) == figures["peak_bytes"], f"groups by {grouping['by']} do not make the peak")


def check_offsets(begins, ends, sizes, offsets, figures):
    """No two lives share a byte: those alive at a time lie apart, by their offsets in order."""
    expect(max(o + s for o, s in zip(offsets, sizes)) == figures["planned_bytes"], "another planned peak")
    changes = sorted([(end, 0, i) for i, end in enumerate(ends)]
                     + [(begin, 1, i) for i, begin in enumerate(begins)])
    alive = []
    for _, begins_now, i in changes:
        if sizes[i] == 0 or begins[i] == ends[i]:
            continue
        low, high = offsets[i], offsets[i] + sizes[i]
        at = bisect.bisect_left(alive, (low, high))
        if not begins_now:
            alive.pop(at)
            continue
        expect(at == 0 or alive[at - 1][1] <= low, f"buffer {i} shares a byte with one below")
        expect(at == len(alive) or high <= alive[at][0], f"buffer {i} shares a byte with one above")
        alive.insert(at, (low, high))


def check_rest(head, columns, figures):
    """Operators and the simulated step behind the lives: all of it is there, and nothing more."""
    columns.skip(3 * head["operator_count"])
    stalls = []
    for _ in range(head["kernel_count"]):
        stalls.append(columns.next())
        columns.skip(4)
    for _ in range(3 if head["kernel_count"] > 0 else 0):
        columns.skip(3 * columns.next())
    expect(columns.at == len(columns.data), "bytes are left over")
    if stalls:
        expect(abs(sum(stalls) / 1e9 - figures["stall_s"]) < 1e-8, "another time without kernels")


def check_data(path, figures_path):
    page, figures = text_of(path), json.loads(text_of(figures_path))
    outside = re.search(r"""(?:src|href)\s*=|url\(|https?://|\bimport\b""", page)
    expect(outside is None, f"the page asks for something: {outside and outside.group()}")
    expect("default-src 'none'" in page, "the page forbids nothing")
    heads, columns = blobs(page, "head"), blobs(page, "columns")
    expect(len(heads) == len(columns) == len(figures) > 0, "not as many files as figures")
    for head, numbers, told in zip(heads, columns, figures):
        head = json.loads(head.decode("utf-8", "replace"))
        expect(head["figures"] == told, "the page has other figures")
        numbers = Numbers(numbers)
        check_lives(head, numbers, told)
        check_rest(head, numbers, told)


# ---- the page as it is shown ----

class Shown(html.parser.HTMLParser):
    """The tables of each article, by their class, as lists of their rows' attributes."""

    def __init__(self):
        super().__init__()
        self.articles, self.state, self.table = [], None, None

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "body":
            self.state = attrs.get("data-state")
        elif tag == "article":
            self.articles.append({})
        elif tag == "table" and self.articles:
            self.table = self.articles[-1].setdefault(attrs.get("class"), [])
            self.articles[-1].setdefault("by", attrs.get("data-by"))
        elif tag == "tr" and self.table is not None and len(attrs) > 1:
            self.table.append(attrs)
        elif tag == "b" and attrs.get("class") == "peak":
            self.articles[-1]["peak"] = int(attrs["data-bytes"])

    def handle_endtag(self, tag):
        self.table = None if tag == "table" else self.table


def rows(article, table):
    return [(row["data-name"], int(row["data-bytes"])) for row in article[table]]


def check_article(article, figures):
    expect(article["peak"] == figures["peak_bytes"], f"peak {article['peak']} is shown")
    told = [(holder["name"], holder["size_bytes"]) for holder in figures["holders"]]
    expect(rows(article, "holders") == told, f"other holders are shown: {rows(article, 'holders')}")
    by = [group for group in figures["groups"] if group["by"] == article["by"]]
    told = [(group["name"], group["size_bytes"]) for group in by][:GROUP_COUNT]
    expect(rows(article, "groups") == told, f"other groups are shown: {rows(article, 'groups')}")
    sweep = [(row["data-bytes"], row["data-step"]) for row in article.get("sweep", [])]
    expect([(int(size), float(step)) for size, step in sweep]
           == [(point["capacity_bytes"], point["step_s"]) for point in figures.get("sweep", [])],
           "another sweep is shown")
    stalls = [(int(row["data-kernel"]), float(row["data-stall"])) for row in article.get("stalls", [])]
    expect(stalls == [(stall["kernel_index"], stall["stall_s"]) for stall in figures.get("stalls", [])],
           "other stalls are shown")


def check_shown(text, figures):
    shown = Shown()
    shown.feed(text)
    expect(shown.state == "shown", f"the page is {shown.state}")
    expect(len(shown.articles) == len(figures) > 0, "not as many files as figures")
    for article, told in zip(shown.articles, figures):
        check_article(article, told)


# ---- Speedscope ----

def check_flame(path, peak):
    """The rules of its file-format-schema.json, and of its importer: a weight a sample, sums that fit."""
    profile = json.loads(text_of(path))
    expect(profile["$schema"] == "https://www.speedscope.app/file-format-schema.json", "another schema")
    frames = profile["shared"]["frames"]
    expect(frames and all(isinstance(frame["name"], str) and frame["name"] for frame in frames), "a frame")
    expect(len({frame["name"] for frame in frames}) == len(frames), "a frame twice")
    expect(profile["activeProfileIndex"] == 0 and len(profile["profiles"]) == 1, "not one profile")
    one = profile["profiles"][0]
    expect((one["type"], one["unit"], one["startValue"]) == ("sampled", "bytes", 0), "another profile")
    expect(isinstance(one["name"], str), "a profile without a name")
    expect(len(one["samples"]) == len(one["weights"]) > 0, "not a weight a sample")
    expect(all(isinstance(i, int) and 0 <= i < len(frames) for stack in one["samples"] for i in stack),
           "a stack names no frame")
    expect(all(stack for stack in one["samples"]), "an empty stack")
    expect(sum(one["weights"]) == one["endValue"] == int(peak), f"{sum(one['weights'])} bytes, not {peak}")


if __name__ == "__main__":
    {"data": check_data, "flame": check_flame}[sys.argv[1]](*sys.argv[2:])
