"""The names of torch.distributed's modules and the parameters of their functions and methods, as inspect tells them."""

import importlib
import inspect
import json
import pathlib
import warnings

import stored

# Of each module what programs reach into; of private names those of functions and classes that it defines itself.
MODULES = ("", "distributed_c10d", "device_mesh", "rendezvous")
CLASSES = ("DeviceMesh", "ProcessGroup", "Work", "Store", "TCPStore", "FileStore", "HashStore", "PrefixStore", "P2POp",
           "Backend", "ReduceOp")
KINDS = {"POSITIONAL_ONLY": "/", "POSITIONAL_OR_KEYWORD": "", "VAR_POSITIONAL": "*", "KEYWORD_ONLY": "key ", "VAR_KEYWORD": "**"}
FOLDER = pathlib.Path(__file__).resolve().parent


def file_of(version):
    return FOLDER / f"signatures-{version}.jsonl"


def module_of(package, name):
    return importlib.import_module(f"{package}.{name}" if name else package)


def parameters(function):
    """Kind, name and default of each, as a text; None where inspect cannot tell, as of functions of C++."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [KINDS[each.kind.name] + each.name + ("" if each.default is each.empty else f"={shown(each.default)}")
            for each in signature.parameters.values()]


def shown(default):
    text = str(default)
    return "..." if " at 0x" in text else text.replace("torch.distributed.", "").replace("tutti.distributed.", "")


def form(value):
    if inspect.isclass(value):
        return "class"
    return parameters(value) if callable(value) else "value"


def names_of(package):
    """By module or class, then by name: parameters, "class", "value" or "member"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old names
        return _names_of(package)


def _names_of(package):
    found = {}
    for name in MODULES:
        module = module_of(package, name)
        found[name] = {key: form(value) for key, value in sorted(vars(module).items())
                       if not inspect.ismodule(value) and not key.startswith("__") and is_own(value, key, package)}
    for name in CLASSES:
        kind = getattr(module_of(package, ""), name)
        found[name] = {key: form(inspect.getattr_static(kind, key)) if inspect.isfunction(inspect.getattr_static(kind, key))
                       else "member" for key in sorted(dir(kind)) if not key.startswith(("__", "_pybind", "_abc"))}
    return found


def is_own(value, key, package):
    """Not imported from Python's library; of private names functions and classes of that package."""
    home = getattr(value, "__module__", None)
    if key.startswith("_"):
        return (inspect.isfunction(value) or inspect.isclass(value)) and str(home).startswith(package.partition(".")[0])
    return home is None or str(home).partition(".")[0] in ("torch", "tutti") or inspect.isclass(value) is False


def read(version):
    """By place, then by name; under "lacking" by place the names that ours do not have. Of what can be imported."""
    found = {"lacking": {}}
    for text in file_of(version).read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["place"] not in (*MODULES, *CLASSES):
            continue
        if "lacking" in line:
            found["lacking"][line["place"]] = line["lacking"]
        else:
            found.setdefault(line["place"], {})[line["name"]] = line["form"]
    return found


def write(found, lacking):
    lines = [{"place": place, "name": name, "form": form} for place, names in found.items() for name, form in names.items()]
    lines += [{"place": place, "lacking": names} for place, names in lacking.items()]
    file_of(stored.version()).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
