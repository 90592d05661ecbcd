# SPDX-License-Identifier: Apache-2.0
"""What an operator does to its arguments, by its schema and by what schemas leave out."""
import torch

# These write arguments although their schemas do not say so: positions. Running mean and variance, in
# training.
UNDECLARED_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
TRAINING_ARGUMENT = 5  # of these three

# These write all of their first argument and do not read it.
OVERWRITES = frozenset("aten::" + name for name in (
    "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_",
    "random_", "uniform_", "zero_", "_foreach_zero_", "_foreach_copy_"))


class Schema:
    """Of one operator: `writes` are positions and names of arguments that it writes, `overwrites` those
    among them that it does not read."""

    def __init__(self, function):
        schema = function._schema
        self.base_name = schema.name
        self.name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        self.writes, self.overwrites = set(), set()
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.writes |= {position, argument.name}
                if argument.is_out:
                    self.overwrites |= {position, argument.name}
        self.tensor_arguments = [position for position, argument in enumerate(schema.arguments)
                                 if str(argument.type) in ("Tensor", "Optional[Tensor]")]
        if schema.name in OVERWRITES:
            self.overwrites |= {0, schema.arguments[0].name}
        # What changes only sizes and strides, such as detach_(), writes no byte.
        self.writes_bytes = torch.Tag.inplace_view not in function.tags
        self.undeclared = UNDECLARED_WRITES.get(schema.name, ())
        self.is_aten = schema.name.startswith("aten::")
        # Not a question to a tensor, such as which device it is on.
        self.is_operator = not schema.name.startswith("prim::")
        self.is_random = torch.Tag.nondeterministic_seeded in function.tags

    def writes_of(self, args):
        """Returns `writes` for a call with these arguments."""
        if self.undeclared and len(args) > TRAINING_ARGUMENT and args[TRAINING_ARGUMENT]:
            return self.writes.union(self.undeclared)
        return self.writes

    def count_numbers(self, args):
        """Returns how many tensors are given as numbers."""
        return sum(1 for position in self.tensor_arguments
                   if position < len(args) and isinstance(args[position], (int, float, complex)))

    def is_pure(self, writes):
        return self.is_aten and not writes and not self.is_random


schemas = {}


def schema_of(function):
    if function not in schemas:
        schemas[function] = Schema(function)
    return schemas[function]


def tensors_in(value):
    """Lists the tensors of an argument or a result: a tensor, or those in lists, tuples and
    dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []
