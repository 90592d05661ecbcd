# SPDX-License-Identifier: Apache-2.0
"""A step as it is recorded, and its file in dao's own form (docs/formats.md)."""

READ, CHANGE, OUTPUT, OVERWRITE = "<", "*", ">", "="


class Tensor:
    """Bytes from their birth to their release: a storage, as long as it keeps its size."""

    __slots__ = ("size_bytes", "device", "tag", "name", "is_born", "id", "aliases")

    def __init__(self, size_bytes, device, is_born):
        self.size_bytes = size_bytes
        self.device = device
        self.is_born = is_born  # by an operator; else it was alive before
        self.tag = self.name = self.id = None
        self.aliases = {}  # (offset, bytes) -> id; of parts


class Operator:
    """What ran, with the signs of its operands. `operands` has each tensor once: tensor -> (sign, part),
    where a part is (offset, bytes) or None for all of it."""

    __slots__ = ("name", "begin_us", "cost_us", "stream", "module", "is_pure", "begins_backward",
    "operands",
                 "saves", "workspace_bytes", "releases")

    def __init__(self, name):
        self.name = name
        self.begin_us = self.cost_us = 0.0
        self.stream = 0
        self.module = None
        self.is_pure = self.begins_backward = False
        self.operands, self.saves, self.releases = {}, {}, []
        self.workspace_bytes = 0

    def access(self, tensor, sign, part):
        """Adds an access. Accesses of one tensor join: different parts of it are all of it, a read and a
        write are a change."""
        known = self.operands.get(tensor)
        if known is not None:
            known_sign, known_part = known
            part = part if part == known_part else None
            if OUTPUT in (known_sign, sign):
                sign = OUTPUT
            elif known_sign != sign:
                sign = CHANGE
        self.operands[tensor] = (sign, part)

    def births(self):
        return [tensor for tensor, (sign, _) in self.operands.items() if sign == OUTPUT]


class Step:
    def __init__(self, model, batch):
        self.model, self.batch = model, batch
        self.idle = []  # tensors that are alive before, in their order; used or not
        self.operators = []

    def keep_device(self, device):
        """Removes what lies on other devices, and operators that have nothing left then."""
        self.idle = [tensor for tensor in self.idle if tensor.device == device]
        for op in self.operators:
            op.operands = {tensor: access for tensor, access in op.operands.items()
                           if tensor.device == device}
            op.saves = {tensor: None for tensor in op.saves if tensor.device == device}
            op.releases = [tensor for tensor in op.releases if tensor.device == device]
        self.operators = [op for op in self.operators
                          if op.operands or op.releases or op.workspace_bytes or op.begins_backward]

    def peak_bytes(self):
        """The most bytes alive at once: within an operator its outputs and its workspace come to what was
        alive."""
        live = sum(tensor.size_bytes for tensor in self.idle)
        peak = live
        for op in self.operators:
            live += sum(tensor.size_bytes for tensor in op.births())
            peak = max(peak, live + op.workspace_bytes)
            live -= sum(tensor.size_bytes for tensor in op.releases)
        return peak

    def scale_to(self, step_us):
        """Stretches all times, so that the operators together take so long."""
        total_us = sum(op.cost_us for op in self.operators)
        factor = step_us / total_us if total_us > 0 else 0.0
        for op in self.operators:
            op.cost_us *= factor
            op.begin_us *= factor

    def write(self, file):
        Writer(file, self).write()


def word(text):
    """A text as one word: blanks, control characters and % as %XX."""
    plain = "".join(c if 0x20 < ord(c) < 0x7f and c != "%" else "".join(f"%{b:02X}" for b in c.encode())
                    for c in text)
    return plain[:1024] or "?"


class Writer:
    """A tensor's line stands before the first operator that names it, and so do the lines of its parts: a
    change of a step changes few lines of its file."""

    def __init__(self, file, step):
        self.file, self.step = file, step
        self.tensor_count = 0

    def put_tensor(self, tensor):
        if tensor.id is not None:
            return
        tensor.id = f"t{self.tensor_count}"
        self.tensor_count += 1
        tag = f" tag={word(tensor.tag)}" if tensor.tag else ""
        name = f" name={word(tensor.name)}" if tensor.name else ""
        self.file.write(f"tensor {tensor.id} {tensor.size_bytes}{tag}{name}\n")

    def operand_id(self, tensor, part):
        """Returns the id of a tensor or of a part of it, which has a line then."""
        self.put_tensor(tensor)
        if part is None or part == (0, tensor.size_bytes):
            return tensor.id
        if part not in tensor.aliases:
            offset, size_bytes = part
            tensor.aliases[part] = f"{tensor.id}.{len(tensor.aliases)}"
            self.file.write(f"tensor {tensor.aliases[part]} {size_bytes} of={tensor.id} at={offset}\n")
        return tensor.aliases[part]

    def put_operator(self, op):
        words = [sign + self.operand_id(tensor, None if sign == OUTPUT else part)
                 for tensor, (sign, part) in op.operands.items()]
        words += ["^" + self.operand_id(tensor, None) for tensor in op.saves]
        if op.workspace_bytes > 0:
            words.append(f"+workspace:{op.workspace_bytes}")
        words += ["-" + self.operand_id(tensor, None) for tensor in op.releases]
        attributes = [f"at={op.begin_us:.3f}"]
        if op.stream:
            attributes.append(f"stream={op.stream}")
        if op.module:
            attributes.append(f"module={word(op.module)}")
        if op.is_pure:
            attributes.append("pure")
        if op.begins_backward:
            self.file.write("backward\n")
        self.file.write(" ".join([f"op {word(op.name)} {op.cost_us:.3f}", *attributes, *words]) + "\n")

    def write(self):
        self.file.write("dao-step 1\n")
        self.file.write(f"model {self.step.model}\nbatch {self.step.batch}\n")
        for tensor in self.step.idle:
            self.put_tensor(tensor)
        for op in self.step.operators:
            self.put_operator(op)
        self.file.write("end\n")
