# SPDX-License-Identifier: Apache-2.0
"""What offload() takes of a processor where nothing has to move: a pack and its unpack, and a plan.

    export LIBDAO_TORCH_CPU=build/release/integrations/libdao_torch_cpu.so PYTHONPATH=python
    /usr/bin/python3 bench/torch_hooks.py

Each operator of the step keeps a storage of its own for the backward pass, of the least size that may leave.
Printed is the least processor time of an operator, forward and backward: alone; with hooks that do nothing;
in steps that are learnt; in steps that follow a plan. And the time that the plan took."""
import contextlib
import time

import torch

import dao.torch

OPERATOR_COUNT = 400
REPEAT_COUNT = 60


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
              f"steps); a plan of {2 * OPERATOR_COUNT} hooks {o.last_plan.plan_ns / 1e6:.1f} ms")


if __name__ == "__main__":
    main()
