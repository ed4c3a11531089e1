"""What Python's own parser says about a candidate, without running a line of it.

    python3 -I ast_facts.py --fd N          one JSON line {"code": SRC} in, one JSON line of facts out
    python3 -I ast_facts.py FILE            the facts of one file, for people

Facts: `ok` or `error` {kind, line, column, message}; `model_new` {line, bases, forward, module_level, why}; `classes`;
`imports`; `dialect` (cuda or musa) and `dialect_why` {what, line}; `builds` (load_inline and load, with enclosing try and function); `torch_calls` inside forward methods (advisory);
`literals` (strings that hold C++ or CUDA, with their line in the file); `constants_python`, `constants_cuda` (integers ≥ 8).
"""

import argparse
import ast
import json
import re
import resource
import socket
import sys
import warnings

MAX_ITEMS = 2000
MAX_LINE = 64 << 20
MEMORY_BYTES = 3 << 30
SMALLEST_CONSTANT = 8
BUILD_CALLS = ("load_inline", "load")
BUILD_MODULE = "torch.utils.cpp_extension"
MUSA_BUILD_MODULE = "torch_musa.utils.musa_extension"
MUSA_KEYWORDS = ("musa_sources", "extra_musa_cflags", "with_musa")
CUDA_KEYWORDS = ("cuda_sources", "extra_cuda_cflags", "with_cuda")

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_INTEGER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]{1,16}|\d{1,18})(?:[uUlL]{0,3})(?![\w.])")
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_MUSA_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]((?:musa|mublas|mudnn|mufft|murand|musparse|musolver|mupti|mccl|mtrtc)\w*\.h'
                           r'|(?:torch_musa|c10/musa|ATen/musa)/[\w./]+|[\w./]+\.muh)[>"]', re.MULTILINE)
_MUSA_DEVICE = re.compile(r"musa(:\d+)?")
_CPP = re.compile(r"__global__|#\s*include|torch::|at::Tensor|PYBIND11_MODULE|__device__|<<<")


def dotted(node):
    """'a.b.c' of nested attributes, or None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def printable(text):
    """Without lone surrogates, which strict JSON readers refuse."""
    return text.encode("utf-8", "replace").decode("utf-8")


def musa_include(source):
    """(header, line) of the first MUSA header that a C++ text includes outside of comments, or None."""
    blanked = _COMMENT.sub(lambda match: match.group() if match.group()[0] == '"' else re.sub(r"[^\n]", " ", match.group()), source)
    match = _MUSA_INCLUDE.search(blanked)
    return match and (match.group(1), blanked.count("\n", 0, match.start()) + 1)


class Reader:
    def __init__(self, tree):
        self.aliases = {}   # local name -> full dotted name
        self.facts = {"ok": True, "error": None, "classes": [], "imports": [], "builds": [], "torch_calls": [],
                      "literals": [], "constants_python": [], "constants_cuda": [], "model_new": None}
        # dialect -> strength of a fact -> what and where; 4: a module that only one has, 3: what builds, 2: what is built, 1: other names
        self.evidence = {"cuda": {}, "musa": {}}
        self.python_ints, self.cuda_ints = set(), set()
        self.module_names = {}   # name -> node that binds it at module level
        self._imports(tree)
        self._module_level(tree)
        self._walk(tree)
        self._model_new(tree)
        self._dialect()
        self.facts["constants_python"] = sorted(self.python_ints)[:MAX_ITEMS]
        self.facts["constants_cuda"] = sorted(self.cuda_ints)[:MAX_ITEMS]

    def _add(self, key, item):
        if len(self.facts[key]) < MAX_ITEMS:
            self.facts[key].append(item)

    def _speaks(self, dialect, strength, what, line):
        self.evidence[dialect].setdefault(strength, {"what": what, "line": line})

    def _dialect(self):
        """MUSA where its facts are at least as strong as CUDA's: what cannot run elsewhere decides, then what builds the kernels."""
        strongest = {dialect: max(found, default=0) for dialect, found in self.evidence.items()}
        musa = strongest["musa"] > 0 and strongest["musa"] >= strongest["cuda"]
        dialect = "musa" if musa else "cuda"
        self.facts["dialect"] = dialect
        self.facts["dialect_why"] = self.evidence[dialect].get(strongest[dialect])

    def full(self, name):
        if name is None:
            return None
        root, _, rest = name.partition(".")
        root = self.aliases.get(root, root)
        return f"{root}.{rest}" if rest else root

    def _imports(self, tree):
        for node in tree.body:   # not inside try or if: without torch_musa the file ends here
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            if any(name.partition(".")[0] == "torch_musa" for name in names):
                self._speaks("musa", 4, "import torch_musa", node.lineno)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._add("imports", {"module": alias.name, "line": node.lineno})
                    if alias.name.partition(".")[0] == "torch_musa":
                        self._speaks("musa", 1, f"import {alias.name}", node.lineno)
                    if alias.asname:
                        self.aliases[alias.asname] = alias.name
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                if module.partition(".")[0] == "torch_musa":
                    self._speaks("musa", 1, f"from {module} import …", node.lineno)
                self._add("imports", {"module": module, "line": node.lineno})
                for alias in node.names:
                    self.aliases[alias.asname or alias.name] = f"{module}.{alias.name}"

    def _module_level(self, tree):
        """Names bound by statements of the module, also inside if, try, with and loops, but not inside functions."""
        pending = list(tree.body)[::-1]
        while pending:
            node = pending.pop()
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                self.module_names[node.name] = node
                continue
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self.module_names[target.id] = node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.module_names[(alias.asname or alias.name).partition(".")[0]] = node
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.excepthandler))][::-1]

    def _walk(self, tree):
        """One pass with the enclosing function, forward method and try of each node; no recursion."""
        pending = [(tree, "", False, False)]
        while pending:
            node, function, in_forward, in_try = pending.pop()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function, in_forward = node.name, in_forward or node.name == "forward"
            elif isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.Call):
                self._call(node, function, in_forward, in_try)
                self._musa_call(node)
            elif isinstance(node, ast.Attribute):
                if node.attr == "is_musa" or (self.full(dotted(node)) or "").startswith("torch.musa"):
                    self._speaks("musa", 1, node.attr if node.attr == "is_musa" else "torch.musa", node.lineno)
            elif isinstance(node, ast.Constant):
                self._constant(node, node.value)
            elif isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "0"
                               for part in node.values)
                self._constant(node, text)
                pending += [(part, function, in_forward, in_try) for part in node.values if not isinstance(part, ast.Constant)]
                continue
            if isinstance(node, ast.Try) and node.handlers:
                guarded = {id(child) for child in node.body}
                pending += [(child, function, in_forward, in_try or id(child) in guarded)
                            for child in ast.iter_child_nodes(node)]
                continue
            pending += [(child, function, in_forward, in_try) for child in ast.iter_child_nodes(node)]
        for key in ("classes", "builds", "torch_calls", "literals"):
            self.facts[key].sort(key=lambda item: item["line"])

    def _class(self, node):
        methods = [item.name for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self._add("classes", {"name": node.name, "line": node.lineno,
                              "bases": [self.full(dotted(base)) or "?" for base in node.bases], "methods": methods[:200]})

    def _musa_call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "musa":
            self._speaks("musa", 1, ".musa()", node.lineno)
        values = [k.value for k in node.keywords if k.arg == "device"]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "device"):
            values += node.args[:1]
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str) and _MUSA_DEVICE.fullmatch(value.value):
                self._speaks("musa", 1, f'device "{value.value}"', node.lineno)

    def _build_dialect(self, node, full):
        """What a call of load_inline, load or MUSAExtension says of the dialect."""
        if full.startswith(MUSA_BUILD_MODULE):
            return self._speaks("musa", 3, full, node.lineno)
        for keyword in node.keywords:
            if keyword.arg in MUSA_KEYWORDS:
                return self._speaks("musa", 3, keyword.arg, keyword.value.lineno)
            if keyword.arg in CUDA_KEYWORDS:
                return self._speaks("cuda", 3, keyword.arg, keyword.value.lineno)
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.endswith((".mu", ".muh")):
                return self._speaks("musa", 3, f"the file {part.value[:80]}", part.lineno)

    def _call(self, node, function, in_forward, in_try):
        name = dotted(node.func)
        full = self.full(name)
        if full is None:
            return
        last = full.rpartition(".")[2]
        if full.startswith((BUILD_MODULE, MUSA_BUILD_MODULE)) or last == "load_inline":
            self._build_dialect(node, full)
        if last in BUILD_CALLS and (full.startswith((BUILD_MODULE, MUSA_BUILD_MODULE)) or last == "load_inline"):
            title = next((k.value for k in node.keywords if k.arg == "name"), node.args[0] if node.args else None)
            self._add("builds", {"call": last, "line": node.lineno, "function": function, "in_try": in_try,
                                 "name": printable(title.value) if isinstance(title, ast.Constant) and isinstance(title.value, str)
                                 else ""})
        elif in_forward and full.startswith("torch."):
            self._add("torch_calls", {"name": full, "line": node.lineno})

    def _constant(self, node, value):
        if type(value) is int:
            if value >= SMALLEST_CONSTANT and value < 1 << 63:
                self.python_ints.add(value)
        elif isinstance(value, str) and _CPP.search(value):
            rows = node.end_lineno - node.lineno
            if included := musa_include(value):
                self._speaks("musa", 2, f"#include <{included[0]}>", node.lineno + included[1] - 1)
            self._add("literals", {"line": node.lineno, "exact": value.count("\n") == rows, "text": printable(value)})
            for match in _INTEGER.finditer(_COMMENT_OR_STRING.sub(" ", value)):
                number = int(match.group(1), 0) if match.group(1)[:2] in ("0x", "0X") else int(match.group(1))
                if number >= SMALLEST_CONSTANT:
                    self.cuda_ints.add(number)

    def _model_new(self, tree):
        node = self.module_names.get("ModelNew")
        if node is None:
            nested = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "ModelNew"), None)
            names = [n.name for n in tree.body if isinstance(n, ast.ClassDef)]
            why = (f"class ModelNew is defined inside another definition (line {nested.lineno}), not at module level" if nested
                   else "no class ModelNew" + (f"; the classes are {', '.join(names[:8])}" if names else "; there are no classes"))
            self.facts["model_new"] = {"line": nested.lineno if nested else 0, "bases": [], "forward": None, "usable": False,
                                       "why": why}
            return
        out = {"line": node.lineno, "bases": [], "forward": None, "usable": True, "why": ""}
        if isinstance(node, ast.ClassDef):
            out["bases"] = [self.full(dotted(base)) or "?" for base in node.bases]
            forward = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "forward"), None)
            if forward:
                arguments = forward.args
                out["forward"] = [a.arg for a in arguments.posonlyargs + arguments.args][1:] + (
                    ["*" + arguments.vararg.arg] if arguments.vararg else [])
            bound = any(isinstance(n, ast.Name) and n.id == "forward" or isinstance(n, ast.Attribute) and n.attr == "forward"
                        and isinstance(n.ctx, ast.Store) for n in ast.walk(node))
            plain = all(base in ("torch.nn.Module", "torch.nn.modules.module.Module") for base in out["bases"])
            if not out["bases"] and not node.keywords:
                out.update(usable=False, why="class ModelNew has no base class; it must derive from torch.nn.Module")
            elif plain and not forward and not bound:
                out.update(usable=False, why="class ModelNew defines no method forward")
        self.facts["model_new"] = out


def facts_of(code):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
            compile(code, "candidate.py", "exec", dont_inherit=True)
        return Reader(tree).facts
    except SyntaxError as error:
        found = {"kind": "syntax", "line": error.lineno or 0, "column": error.offset or 0, "message": printable(str(error.msg))}
    except (RecursionError, MemoryError):
        found = {"kind": "syntax", "line": 0, "column": 0, "message": "nested too deeply for Python's parser"}
    except ValueError as error:
        found = {"kind": "syntax", "line": 0, "column": 0, "message": printable(str(error))}
    return {"ok": False, "error": found}


def serve(fd):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    sock = socket.socket(fileno=fd)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    buffer = bytearray()
    while True:
        start = len(buffer)
        chunk = sock.recv(1 << 20)
        if not chunk:
            return
        buffer += chunk
        while (end := buffer.find(b"\n", start)) >= 0:
            request = json.loads(bytes(buffer[:end]))
            del buffer[:end + 1]
            start = 0
            sock.sendall(json.dumps(facts_of(request["code"])).encode() + b"\n")
        if len(buffer) > MAX_LINE:
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int)
    parser.add_argument("file", nargs="?")
    arguments = parser.parse_args()
    if arguments.fd is not None:
        serve(arguments.fd)
    else:
        with open(arguments.file, encoding="utf-8") as file:
            json.dump(facts_of(file.read()), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
