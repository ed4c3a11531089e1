"""ModelNew around a bare .cu or .mu file that binds a function: `forward`, or the only one there is.

The function is called with the inputs; if it takes more arguments, the module's parameters and buffers in the reference's
order follow, and then the reference's initial arguments.
"""

import torch

from . import extensions


def functions_of(module):
    return {name: function for name, function in vars(module).items()
            if callable(function) and not name.startswith("_") and not isinstance(function, type)}


def make_model_class(source):
    """Builds `source` and returns a ModelNew class. Raises what a failed build raises."""
    module = extensions.build_inline("bare_cuda", [], ("source", [source]), None, None, ("flags", None), None, None, True, True, False)
    functions = functions_of(module)
    function = functions.get("forward")
    if function is None:
        if len(functions) != 1:
            raise AttributeError("the extension must bind a function 'forward', or exactly one function; it binds "
                                 + (", ".join(sorted(functions)) or "none"))
        function = next(iter(functions.values()))

    class ModelNew(torch.nn.Module):
        musarun_adopts_state = True

        def __init__(self, *args, **kwargs):
            super().__init__()
            self.init_values = list(args) + list(kwargs.values())
            self.state_order = []

        def adopt(self, name, tensor, kind):
            flat = "state_" + str(len(self.state_order))
            if kind == "parameter" and tensor.is_floating_point():
                self.register_parameter(flat, torch.nn.Parameter(tensor))
            else:
                self.register_buffer(flat, tensor)
            self.state_order.append(flat)

        def forward(self, *inputs):
            state = [getattr(self, name) for name in self.state_order]
            ways = [list(inputs)]
            for more in (state, state + self.init_values, self.init_values):
                if more and len(inputs) + len(more) not in map(len, ways):
                    ways.append(list(inputs) + more)
            for index, arguments in enumerate(ways):
                try:
                    return function(*arguments)
                except TypeError as error:
                    if index + 1 == len(ways):
                        raise TypeError(f"{error}\n(tried the inputs alone, then with the module's parameters, then with its "
                                        "initial arguments)") from None
            return None

    return ModelNew
