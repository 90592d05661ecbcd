#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What reading a large PyTorch memory snapshot takes: writes one as torch.cuda.memory._dump_snapshot() would,
with a trace of as many events as fit, and prints what `dao info` and `dao plan` take for it: seconds of CPU,
the most memory, and that divided by the live entries. Those are the events that allocate or free, and the
blocks that are active at the end, each of an address and a size: 16 bytes.

Usage: bench/snapshot.py [BYTES [DAO [COMMAND...]]]      (default: 1e9 build/release/dao info plan)
"""
import os
import pickle
import random
import struct
import sys
import tempfile

BLOCK_COUNT = 4096  # addresses that the trace uses again and again
STACK_COUNT = 500
FRAMES_A_STACK = 40
ENTRY_BYTES = 16
TRACE_WORDS = ('action', 'alloc', 'free_requested', 'free_completed', 'addr', 'size', 'stream', 'time_us',
               'compile_context', 'N/A', 'user_metadata', '', 'frames')


def segments():
    """The blocks that are there at the end: a tenth of the addresses is not used by the trace."""
    return [{'device': 0, 'address': (1 << 40) + (i << 24), 'total_size': 1 << 24, 'stream': 0,
             'blocks': [{'address': (1 << 40) + (i << 24), 'size': 1 << 20, 'requested_size': (1 << 20) - 24,
                         'state': 'active_allocated' if i % 10 == 0 else 'inactive', 'frames': []}]}
            for i in range(BLOCK_COUNT)]


def stacks():
    frames = [{'name': 'function_%d' % i, 'filename': '/home/me/model_%d.py' % (i % 90), 'line': i}
              for i in range(2000)]
    return [random.sample(frames, FRAMES_A_STACK) for _ in range(STACK_COUNT)]


class Parts:
    """Pickles objects one after the other with one memo."""

    def __init__(self, file):
        self.file = file
        self.pickler = pickle.Pickler(file, 4)

    def put(self, item):
        """Writes an object without the frame of a pickle of its own: PROTO and STOP are stepped over."""
        start = self.file.tell()
        self.pickler.dump(item)
        self.file.seek(start)
        body = self.file.read()[2:-1]
        if body[:1] == b'\x95':
            body = unframed(body)
        self.file.seek(start)
        self.file.truncate()
        self.file.write(body)

    def numbers(self, items):
        """How each of these was numbered, as the opcode that says it again."""
        memo = self.pickler.memo.copy()
        return [say(memo[id(item)][0]) for item in items]


def unframed(body):
    """Takes the frames out, which say how many bytes follow, and nothing else."""
    parts, at = [], 0
    while at < len(body):
        length = struct.unpack_from('<Q', body, at + 1)[0]
        parts.append(body[at + 9:at + 9 + length])
        at += 9 + length
    return b''.join(parts)


def say(number):
    return b'h%c' % number if number < 256 else b'j' + struct.pack('<I', number)


def write(path, wanted_bytes):
    """Returns how many live entries there are."""
    random.seed(1)
    words, lists, blocks = list(TRACE_WORDS), stacks(), segments()
    with open(path, 'w+b') as file:
        parts = Parts(file)
        file.write(b'\x80\x04}(')
        for item in ('words', words, 'stacks', lists, 'segments', blocks, 'device_traces'):
            parts.put(item)
        memo = dict(zip(words, parts.numbers(words)))
        calls = parts.numbers(lists)
        file.write(b'](](')
        live_count, live = sum(block['blocks'][0]['state'] != 'inactive' for block in blocks), {}
        time_us, entry_count, written = 1 << 50, 0, file.tell()
        while written < wanted_bytes:
            address = (1 << 41) + random.randrange(BLOCK_COUNT) * (1 << 21)
            size = live.pop(address, None)
            actions = ['free_requested', 'free_completed'] if size else ['alloc']
            if not size:
                size = live[address] = random.randrange(1, 1 << 21)
            for action in actions:
                time_us += 1
                entry_count += 1
                if entry_count % 1000 == 0:  # as Python puts items
                    file.write(b'e(')
                written += file.write(b''.join((
                    b'}\x94(', memo['action'], memo[action], memo['addr'], b'\x8a\x06',
                    address.to_bytes(6, 'little'), memo['size'], b'J', struct.pack('<i', size),
                    memo['stream'], b'K\0', memo['time_us'], b'\x8a\x07', time_us.to_bytes(7, 'little'),
                    memo['compile_context'], memo['N/A'], memo['user_metadata'], memo[''], memo['frames'],
                    random.choice(calls), b'u')))
            live_count += 1
        file.write(b'eeu.')
    return live_count


def measure(command):
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.execv(command[0], command)
        finally:  # what the parent would clean up is the parent's
            os._exit(127)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit('%s failed' % ' '.join(command))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    wanted = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**9
    dao = sys.argv[2] if len(sys.argv) > 2 else 'build/release/dao'
    commands = sys.argv[3:] or ['info', 'plan']
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'snapshot.pickle')
        count = write(path, wanted)
        print('%.3g bytes, %d live entries of %d bytes' % (os.path.getsize(path), count, ENTRY_BYTES))
        for command in commands:
            seconds, peak = measure([dao, *command.split(), path])
            print('dao %-8s %6.2f s of CPU, %5.0f MB: %5.1f bytes an entry, %.2f times the live entries' %
                  (command, seconds, peak / 1e6, peak / count, peak / count / ENTRY_BYTES))


main()
