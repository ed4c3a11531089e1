"""A Python file with an nn.Module as a task file: the functions that a task needs, written behind it.

    python3 -I module_task.py FILE [--class NAME] [--inputs "2x3xf32,4xi64<10,0.5"] [--init "64,bias=False"]

Prints one JSON object: {"code": TEXT, "class": NAME, "made": true}, or {"error": SENTENCE}. Nothing of the file is run. A file that
has `Model` and `get_inputs` is given back as it is (made: false). Inputs: sizes joined by x and a type at the end (f16, bf16, f32,
f64, i8, u8, i32, i64, bool; integers are drawn below the number behind `<`, else below 10), or a Python number.
"""

import argparse
import ast
import json
import re

FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
INTEGERS = {"i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64"}
SPEC = re.compile(r"((?:\d+x)*)(f16|bf16|f32|f64|i8|u8|i32|i64|bool)(?:<(\d+))?")


class Refused(Exception):
    pass


def input_code(spec):
    """The expression that makes one input."""
    spec = spec.strip()
    match = SPEC.fullmatch(spec)
    if not match:
        try:
            value = ast.literal_eval(spec)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
        if isinstance(value, (int, float)):
            return repr(value)
        raise Refused(
            f"'{spec}' is no input; write sizes and a type such as 16x128xf32 or 8xi64<100, or a number"
        )
    sizes, kind, below = match.groups()
    shape = "(" + "".join(size + ", " for size in sizes.split("x") if size) + ")"
    if below and kind not in INTEGERS:
        raise Refused(f"'{spec}': only integers have a bound")
    if kind in FLOATS:
        return (
            f"torch.randn{shape}"
            if kind == "f32" and sizes
            else f"torch.randn({shape}, dtype=torch.{FLOATS[kind]})"
        )
    if kind == "bool":
        return f"torch.rand({shape}) < 0.5"
    return f"torch.randint(0, {below or 10}, {shape}, dtype=torch.{INTEGERS[kind]})"


def init_code(text):
    """The body of get_init_inputs for "64, bias=False"."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        args = [repr(ast.literal_eval(arg)) for arg in call.args]
        named = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Refused(
            f"'{text}' are no arguments; write them as in a call, with plain values: 64, 128, bias=False"
        ) from None
    if None in named:
        raise Refused("** is not understood in --init")
    if named:
        return f"return [[{', '.join(args)}], {named!r}]"
    return f"return [{', '.join(args)}]"


def is_module(node):
    return any(
        (isinstance(base, ast.Attribute) and base.attr == "Module")
        or (isinstance(base, ast.Name) and base.id == "Module")
        for base in node.bases
    )


def required(function, skipped):
    """Names of the arguments that a function needs, behind the first `skipped`."""
    if function is None:
        return []
    arguments = function.args.posonlyargs + function.args.args
    return [argument.arg for argument in arguments[skipped : len(arguments) - len(function.args.defaults)]]


def method(node, name):
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def choose(tree, wanted):
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    modules = {name: node for name, node in classes.items() if is_module(node)}
    if wanted:
        if wanted not in classes:
            raise Refused(f"the file has no class {wanted}; it has {', '.join(classes) or 'none'}")
        return classes[wanted]
    if "Model" in classes:
        return classes["Model"]
    if not modules:
        raise Refused("the file has no class that derives from nn.Module")
    # What another module of the file uses is a part of it.
    used = {
        node.id
        for module in modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.Name) and node.id != module.name
    }
    whole = [name for name in modules if name not in used]
    if len(whole) != 1:
        raise Refused(f"the file has several modules ({', '.join(modules)}); name one with --class")
    return modules[whole[0]]


def make_task(code, wanted, inputs, init):
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Refused(f"the file is not Python: {error}") from None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    chosen = choose(tree, wanted)
    if "get_inputs" in functions and inputs is None and chosen.name == "Model":
        return {"code": code, "class": "Model", "made": False}
    added = []
    if chosen.name != "Model":
        added.append(f"Model = {chosen.name}")
    if "get_inputs" not in functions or inputs is not None:
        wants = required(method(chosen, "forward"), 1)
        if inputs is None:
            raise Refused(
                f"the file does not say what {chosen.name}.forward({', '.join(wants)}) is called with; add get_inputs() to it, or give "
                f'--inputs "{",".join(["16x128xf32"] * max(1, len(wants)))}" with the real sizes and types'
            )
        made = [input_code(spec) for spec in inputs.split(",") if spec.strip()]
        added.append(f"def get_inputs():\n    return [{', '.join(made)}]")
    if "get_init_inputs" not in functions or init is not None:
        needs = required(method(chosen, "__init__"), 1)
        if init is None and needs:
            raise Refused(
                f'{chosen.name} is constructed with {", ".join(needs)}; add get_init_inputs() to the file, or give --init "…" with their values'
            )
        added.append(f"def get_init_inputs():\n    {init_code(init or '')}")
    names = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    if "torch" not in names:
        added.insert(0, "import torch")
    return {
        "code": code.rstrip("\n") + "\n\n\n" + "\n\n\n".join(added) + "\n",
        "class": chosen.name,
        "made": True,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--class", dest="wanted", default="")
    parser.add_argument("--inputs")
    parser.add_argument("--init")
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as file:
            code = file.read(4 << 20)
        print(json.dumps(make_task(code, options.wanted, options.inputs, options.init)))
    except (OSError, UnicodeDecodeError) as error:
        print(json.dumps({"error": f"{options.file} cannot be read: {error}"}))
    except Refused as error:
        print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
