"""A function with `async_op` as the overloads that tell a checker of types what each call gives.

`async_op=False`, the default: None. True: what is written before `| None` (a Work). A bool: either. stubs.py writes them.
"""

import ast
import copy
import textwrap

WIDTH = 120


def names_of(function):
    """The parameters that may be given by place, and those that may not."""
    return ([each.arg for each in function.args.args], [each.arg for each in function.args.kwonlyargs])


def parameters(arguments):
    """Each parameter as it is written, and the star."""
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    shown = []
    for each, default in zip(arguments.args, defaults):
        shown.append(_parameter(each, default))
    if arguments.kwonlyargs:
        shown.append("*")
        shown += [_parameter(each, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return shown


def _parameter(each, default):
    if each.annotation is None:
        return each.arg
    return f"{each.arg}: {ast.unparse(each.annotation)}" + (f" = {ast.unparse(default)}" if default else "")


def signature(name, shown, gives, indent, doc=None):
    """A stub with these parameters, in lines of WIDTH."""
    inner = indent + "    "
    body = textwrap.wrap(f'"""{" ".join(doc.split())}"""', WIDTH, initial_indent=inner,
                         subsequent_indent=inner, break_on_hyphens=False) if doc else []
    head = wrapped(f"{indent}def {name}(", shown, f") -> {gives}:", WIDTH)
    return "\n".join([head, *body] if body else [head + " ..."]) + "\n"


def wrapped(head, parameters, tail, width):
    """A head with its parameters, in lines that break between these only."""
    text = ", ".join(word.replace(" ", "\0") for word in parameters) + tail.replace(" ", "\0")
    return "\n".join(textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head),
                                   break_long_words=False, break_on_hyphens=False)).replace("\0", " ")


def given(value):
    """The annotation of `async_op` that is this value."""
    return ast.parse(f"Literal[{value}]", mode="eval").body


def waits(function):
    """The arguments where the call waits: `async_op` is False, or left out."""
    arguments = copy.deepcopy(function.args)
    _async_op(arguments).annotation = given(False)
    return arguments


def by_name(function):
    """`async_op=True`; what follows it is given by name, too."""
    arguments = copy.deepcopy(function.args)
    if "async_op" in names_of(function)[0]:
        at = names_of(function)[0].index("async_op")
        left = len(arguments.args) - at  # all of them have defaults
        arguments.kwonlyargs = arguments.args[at:] + arguments.kwonlyargs
        arguments.kw_defaults = arguments.defaults[-left:] + arguments.kw_defaults
        arguments.args, arguments.defaults = arguments.args[:at], arguments.defaults[:-left]
    position = [each.arg for each in arguments.kwonlyargs].index("async_op")
    arguments.kwonlyargs[position].annotation = given(True)
    arguments.kw_defaults[position] = None
    return arguments


def by_place(function):
    """True at the place of `async_op`: all before it are given. None where it has no place."""
    if "async_op" not in names_of(function)[0]:
        return None
    arguments = copy.deepcopy(function.args)
    at = names_of(function)[0].index("async_op")
    arguments.defaults = arguments.defaults[-(len(arguments.args) - at - 1):] if at + 1 < len(arguments.args) else []
    _async_op(arguments).annotation = given(True)
    return arguments


def _async_op(arguments):
    return next(each for each in arguments.args + arguments.kwonlyargs if each.arg == "async_op")


def overloads(function, indent="", doc=None):
    """The stubs of a function that returns `X | None`. Without `async_op` it is one, and gives X."""
    whole = ast.unparse(function.returns)
    value = whole.removesuffix(" | None")
    if not any("async_op" in names for names in names_of(function)):
        return signature(function.name, parameters(function.args), value, indent, doc)
    forms = [(waits(function), "None"), (by_name(function), value), (by_place(function), value),
             (function.args, whole)]
    stubs = []
    for arguments, gives in forms:
        if arguments is not None:
            stubs.append(f"{indent}@overload\n" + signature(function.name, parameters(arguments), gives, indent,
                                                            None if stubs else doc))
    return "".join(stubs)
