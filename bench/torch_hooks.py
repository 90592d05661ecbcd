# SPDX-License-Identifier: Apache-2.0
"""What offload() takes of a processor where nothing has to move: a pack and its unpack, and a plan.

    export LIBDAO_TORCH_CPU=build/release/integrations/libdao_torch_cpu.so PYTHONPATH=python
    /usr/bin/python3 bench/torch_hooks.py

Each operator of the step keeps a storage of its own for the backward pass, of the least size that may leave.
Printed is the least processor time of an operator, forward and backward: alone; with hooks that do nothing;
in steps that are learnt; in steps that follow a plan. Then what a plan takes of a processor, of made-up steps
that keep storages of 64 sizes and may have 60 % of their bytes."""
import contextlib
import random
import time

import torch

import dao.torch
from dao.torch.learn import Learner
from dao.torch.library import load
from dao.torch.plan import Plan, Problem
from dao.torch.stash import Item

OPERATOR_COUNT = 400
REPEAT_COUNT = 60
PLAN_REPEAT_COUNT = 5
SPEED = 10**10  # bytes/s, each way


def step():
    y = x = torch.ones(64, 64, requires_grad=True)
    for _ in range(OPERATOR_COUNT):
        y = y.sin()
    y.backward(torch.ones_like(y))
    return x.grad


def step_us(context):
    """The processor time of an operator in a step."""
    begin = time.thread_time()
    with context():
        step()
    return (time.thread_time() - begin) * 1e6 / OPERATOR_COUNT


def idle():
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def made_up(hook_count):
    """A learnt step that packs half of its hooks' storages and unpacks them in the opposite order."""
    chance, learner, items = random.Random(1), Learner(), []
    for i in range(hook_count):
        learner.most_other = chance.randint(1, 64) << 16
        learner.end_kernel(chance.randint(20000, 100000), "a hook")
        if i < hook_count // 2:
            items.append(Item(i, None, chance.randint(1, 64) << 15))
            learner.pack(items[-1])
            learner.sole(items[-1])
        else:
            item = items.pop()
            learner.unpack(item)
            learner.close(item)
    learner.end_kernel(1000, "end of the step")
    return learner


def plan_ms(hook_count):
    learner = made_up(hook_count)
    limit_bytes = sum(record.size_bytes for record in learner.records) * 6 // 10
    begin = time.thread_time()
    Plan(load(limit_bytes), learner, Problem(learner, limit_bytes, SPEED, SPEED))
    return (time.thread_time() - begin) * 1e3


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(2, 2)
    with dao.torch.offload(model, torch.optim.SGD(model.parameters(), 0.1), "1GiB") as o:
        learnt = min(step_us(o.step) for _ in range(2))
        rows = [[step_us(context) for context in (contextlib.nullcontext, idle, o.step)]
                for _ in range(REPEAT_COUNT)]  # in turn, as the machine's speed changes
        alone, hooked, followed = map(min, zip(*rows))
        print(f"an operator {alone:.1f} us; hooks that do nothing {hooked - alone:.1f} more, learnt "
              f"{learnt - alone:.1f}, as planned {followed - alone:.1f} ({o.planned_count} of {o.step_count} "
              "steps)")
    for hook_count in (1000, 6000):
        plan = min(plan_ms(hook_count) for _ in range(PLAN_REPEAT_COUNT))
        print(f"a plan of {hook_count} hooks {plan:.1f} ms")


if __name__ == "__main__":
    main()
