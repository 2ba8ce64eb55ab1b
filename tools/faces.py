"""The faces of the collectives in C and in Python, from the headers of C++.

The public headers are the table of signatures. A collective is a method of ProcessGroup (process_group.hpp) that has
the name of a row of kKindTraits (backend/kinds.hpp), alone or with `_coalesced` behind it. The method says which arrays
there are, the row which ranks have them, the struct of its options (options.hpp) names the other parameters and their
defaults, and the first paragraph of its comment is the documentation. Made of it are <tutti/c.h> and
bindings/c/collectives.cpp, bindings/python/src/collectives.cpp, and by stubs.py the stubs of the latter. made.py writes
them.

By hand stay the functions and methods of tutti.distributed and the plug-in's operations: torch has chosen their names,
parameters and places of ranks, one by one, and each checks what torch checks. A text made by rules would be mostly
exceptions.
"""

import dataclasses
import re
import textwrap

import kinds
import overloads

BEGIN = "Made from the headers by tools/made.py --write."
END = "The end of what is made."
METHODS = "include/tutti/process_group.hpp"
OPTIONS = "include/tutti/options.hpp"
METHOD = re.compile(r"((?:^ *///.*\n)+) *Work (\w+)\(([^;{]*?)(?:, )?const (\w+)& options = \{\}\);", re.MULTILINE)
STRUCT = re.compile(r"struct (\w+) \{(.*?)\n\};", re.DOTALL)
VIEW = re.compile(r"(const (?:Const)?TensorView&|std::span<const TensorView>) (\w+)")
FIELD = re.compile(r"^  ([\w:<> ]+) (\w+) = ", re.MULTILINE)
COUNTS = "BlockCounts"

# Of parameters in Python: behind the documentation of the first collective that has them.
NOTES = {"factor": "`factor`: with PREMUL_SUM, a number, or an array of one element or of as many as the input has.",
         "counts": "`counts`: the elements of each rank's block where they differ, the same numbers on every rank.",
         "counts of a root": "`counts`: the elements of each rank's block where they may differ; another rank than the "
                             "root may give its own alone. If one rank gives them all must.",
         "output_splits": "The splits count elements; both or none, and if one rank gives them all must."}
# The C buffers of a layout: the output, then the input, in place only one. `all` has a block for each rank.
BUFFERS = {"none": [], "same": ["buffer"], "gather": ["all", "own"], "scatter": ["own", "all"],
           "exchange": ["output", "input"]}


@dataclasses.dataclass
class Collective:
    """A method of ProcessGroup."""

    method: str
    kind: kinds.Kind
    views: dict  # name: it is a list
    options: str
    fields: dict  # name: type, in the order of the struct
    doc: str
    has_exclusive: bool  # a kind of its own, which the option `exclusive` asks for
    notes: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        """As Python calls it, where a function has one signature."""
        lists = any(self.views.values()) and not self.method.endswith("_coalesced")
        return self.method + "_list" * lists

    @property
    def arrays(self):
        """The names of the views in Python: that of the list or of the one."""
        return [name.replace("buffer", "array") for name in self.views]

    @property
    def placed(self):
        """The parameters after the arrays that Python takes by place: their names and those of the fields."""
        return [name for name in ("root", "op") if name in self.fields]

    @property
    def named(self):
        """Those that it takes by name only, and the fields. Lists have counts of their own: they are left out where all
        ranks know the list."""
        given = {re.sub(r"^\w+_counts$", "counts", name): name for name, of in self.fields.items()
                 if name not in ("root", "op", "factor", "factors", "timeout")
                 and not (of == COUNTS and any(self.views.values()) and not self.kind.rooted)}
        return given | ({"factor": "factor"} if "factor" in self.fields else {})


def collectives(root):
    """The collectives, in the order of the header."""
    rows = {row.name: row for row in kinds.rows(root) if row.layout != "pair"}
    structs = {name: {field: of for of, field in FIELD.findall(body)}
               for name, body in STRUCT.findall((root / OPTIONS).read_text(encoding="utf-8"))}
    found = []
    for comment, method, views, options in METHOD.findall((root / METHODS).read_text(encoding="utf-8")):
        kind = rows.get(method.removesuffix("_coalesced"))
        if kind is None or "UserOp" in views or "detail::Input" in views:
            continue
        paragraph = re.sub(r"^ *///(.*)\n", r"\1\n", comment, flags=re.MULTILINE).strip().split("\n\n")[0]
        found.append(Collective(method, kind, {name: of.startswith("std") for of, name in VIEW.findall(views)}, options,
                                structs[options], " ".join(paragraph.split()), f"exclusive_{kind.name}" in rows))
    for name, note in NOTES.items():
        next(call for call in found
             if name.removesuffix(" of a root") in call.named
             and (call.kind.rooted or "root" not in name)).notes.append(note)
    return found


# ---- C


# The documentation of the further forms of a collective in C, by the end of the name.
FORMS = {
    "_into": "tutti_{} from an input, which stays as it is, into an output{}.",
    "_v": "tutti_{} of blocks that differ in size. {} Counts are read during the call only.",
    "_coalesced": "tutti_{} of several buffers in one operation{}.",
}
COUNTS_OF = {
    "root": "`count`: the elements of this rank's; `counts`: of each rank's, on the root; others may give NULL.",
    "all": "`count`: the elements of this rank's; `counts`: of each rank's, the same numbers on every rank.",
    "exchange": "`output_counts`: the elements from each rank; `input_counts`: those for each rank.",
}


def c_forms(call):
    """Which forms the collective has."""
    given = any(of == COUNTS for of in call.fields.values()) and not call.method.endswith("_coalesced")
    return ["", *["_into"] * (call.kind.layout == "same" and "op" in call.fields and call.name == call.kind.name),
            *["_v"] * given]


def c_buffers(call, form):
    """Its buffers: the output, then the input, in place only one."""
    return ["output", "input"] if form == "_into" else BUFFERS[call.kind.layout]


def c_lists(call):
    """Its lists of buffers, where it takes several."""
    return [name.replace("buffer", "buffers") for name in BUFFERS[call.kind.layout]]


def c_parameters(call, form):
    """What the function takes behind the group."""
    buffers = c_buffers(call, form)
    others = [f"int {name}" for name in ("op", "root") if name in call.fields]
    others += [f"int {name}" for name, of in call.fields.items() if of == "bool"]
    if call.method.endswith("_coalesced"):
        return [*(f"void *const *{name}" for name in c_lists(call)), "const size_t *counts", "int tensors", "int dtype",
                *others]
    given = [f"{'const ' * (place > 0)}void *{name}" for place, name in enumerate(buffers)]
    if form == "_v" and call.kind.layout == "exchange":
        return [part for name, buffer in zip(buffers, given) for part in (buffer, f"const size_t *{name}_counts")] + [
            "int dtype", *others]
    given += ["size_t count", *["const size_t *counts"] * (form == "_v"), "int dtype"] if buffers else []
    return [*given, *others]


def c_view(call, name, form):
    """The view of a buffer."""
    blocks = ", ranks_of(group)" if name == "all" or call.kind.layout == "exchange" else ""
    if call.method.endswith("_coalesced"):
        return f"views(group, {name}, counts, tensors, dtype{blocks})"
    if form == "_v" and call.kind.layout == "exchange":
        return f"{name}_blocks.all"
    if form == "_v" and name == "all":
        return "blocks.all"
    if call.kind.rooted and name in ("all", "output"):
        return f"of_root(group, {name}, count, dtype, root{blocks or ', 1'})"
    return f"view(group, {name}, count, dtype{blocks})"


def c_declaration(call, form):
    """The function in <tutti/c.h>."""
    parameters = ["tutti_group *group", *c_parameters(call, form), "tutti_work **work"]
    counts = COUNTS_OF["exchange" if call.kind.layout == "exchange" else "root" if call.kind.rooted else "all"]
    where = " on the root; elsewhere the output may be NULL" * call.kind.rooted
    if call.method.endswith("_coalesced"):
        blocks = ": all[t] has counts[t] elements for each rank" * ("all" in c_lists(call))
        doc = {"": FORMS["_coalesced"].format(call.kind.name, blocks)}
    else:
        doc = {"": call.doc, "_into": FORMS["_into"].format(call.method, where),
               "_v": FORMS["_v"].format(call.method, counts)}
    told = textwrap.fill(f"/* {doc[form]}\0*/", 120, subsequent_indent=" * ").replace("\0", " ")
    return f"{told}\n" + overloads.wrapped(f"TUTTI_C_API int tutti_{call.method}{form}(", parameters, ");", 120)


def c_definition(call, form):
    """The function in collectives.cpp."""
    own = "op" in call.fields and form != "_v" and call.name == call.kind.name  # an op of the program will do
    before = []
    values = {"op": "by.op", "factor": "by.factor", "root": "root", "timeout": "group->settings.timeout"}
    values |= {name: f"{name} != 0" for name, of in call.fields.items() if of == "bool"}
    if form == "_v" and call.kind.layout == "exchange":
        before += [f"const Blocks {name}_blocks(group, {name}, 0, {name}_counts, dtype);"
                   for name in c_buffers(call, form)]
        values |= {f"{name}_splits": f"{name}_blocks.counts" for name in c_buffers(call, form)}
    elif form == "_v":
        root = ", of(group).rank() == root" if call.kind.rooted else ""
        before += [f"const Blocks blocks(group, all, count, counts, dtype{root});"]
        values |= {name: "blocks.counts" for name, of in call.fields.items() if of == COUNTS}
    names = c_lists(call) if call.method.endswith("_coalesced") else c_buffers(call, form)
    views = [c_view(call, name, form) for name in names]
    options = ", ".join(f".{name} = {values[name]}" for name in call.fields if name in values)
    if own:
        theirs = ", ".join(f".{name} = {values[name]}" for name in call.fields
                           if name in values and name not in ("op", "factor"))
        before += ["const AnyOp any = op_of(op);",
                   f"if (const auto* const own_op = std::get_if<tutti::UserOp>(&any)) "
                   f"return of(group).{call.method}({', '.join([*views, '*own_op'])}, {{{theirs}}});",
                   "const auto& by = std::get<LibraryOp>(any);"]
    elif "op" in call.fields:
        before += ["const LibraryOp by = library_op_of(op);"]
    parameters = ", ".join(["tutti_group* group", *c_parameters(call, form), "tutti_work** work"])
    return (f"int tutti_{call.method}{form}({parameters}) {{\n"
            f"  return run(group, work, [&] {{ {' '.join(before)} return of(group).{call.method}({', '.join(views)}"
            f"{', ' * bool(views)}{{{options}}}); }});\n}}\n")


def c_functions(calls, write):
    """Each function of the calls."""
    return "\n".join(write(call, form) for call in calls for form in c_forms(call))


# ---- Python


PARAMETERS = {"int": "int {}", "bool": "bool {}", "ReduceOp": "ReduceOp {}", COUNTS: "const Counts& {}"}
DEFAULTS = {"int": "0", "bool": "false", "ReduceOp": "ReduceOp::sum"}


def python_doc(call):
    """The documentation in Python's words."""
    text = re.sub(r"(?<![\w-])(buffer|tensor)", "array", call.doc).replace("size()", "size")
    if call.kind.layout == "same" and "root" in (call.kind.reads, call.kind.writes) and call.name == call.kind.name:
        text += (" The root's" if call.kind.reads == "root" else " The others'") + " may be read-only."
    return " ".join([text, *call.notes])


def binding(call):
    """The method in the bindings."""
    names = {name: name for name in call.placed} | call.named
    of = {name: call.fields[field] for name, field in names.items()}
    taken = [f"nb::handle {name}" for name in call.arrays]
    taken += [PARAMETERS.get(of[name], "nb::handle {}").format(name) for name in names]
    values = {field: f"span_of({name})" if of[name] == COUNTS else name for name, field in names.items()
              if name != "factor"}
    options = ", ".join(f".{field} = {values[field]}" for field in call.fields if field in values)
    sides = [f"{'List' if is_list else 'One'}{{{name}}}" for name, is_list in zip(call.arrays, call.views.values())]
    way = ("alone", "in_place", "apart")[len(sides)]
    rest = ", ".join([*sides, f"TUTTI_START({call.method})", *(["factor"] * ("factor" in names))])
    made = [f'return Call<Kind::{kind}, {call.options}>("{call.name}", self, {{{options}}}, {{timeout, async_op}})'
            f".{way}({rest});" for kind in (f"exclusive_{call.kind.name}", call.kind.name)]
    body = f"if (exclusive) {made[0]} {made[1]}" if call.has_exclusive else made[1]
    shown = [f'"{name}"_a' for name in call.arrays]
    shown += [f'"{name}"_a = {DEFAULTS.get(of[name], "nb::none()")}' for name in call.placed]
    shown += ["nb::kw_only()", *(f'"{name}"_a = {DEFAULTS.get(of[name], "nb::none()")}' for name in call.named)]
    doc = " ".join(f'"{line}"' for line in "\\n\n".join(textwrap.wrap(python_doc(call), 80)).split("\n"))
    shown += ['"timeout"_a = nb::none(), "async_op"_a = false', doc]
    given = ", ".join(["const GroupHandle& self", *taken, "nb::handle timeout", "bool async_op"])
    return f'.def("{call.name}", []({given}) {{ {body} }}, {", ".join(shown)})'


def made(root):
    """Of made.py: what stands in the three files."""
    if not (root / METHODS).exists() or not (root / OPTIONS).exists():
        return
    calls = collectives(root)
    in_c = [call for call in calls if call.name in (call.kind.name, f"{call.kind.name}_coalesced")]  # not one by lists
    why = f"its collectives are not those of {METHODS}"
    for file, text, begin, end in (("include/tutti/c.h", c_functions(in_c, c_declaration), "/* ", " */"),
                                   ("bindings/c/collectives.cpp", c_functions(in_c, c_definition), "// ", ""),
                                   ("bindings/python/src/collectives.cpp",
                                    f"bound{''.join(map(binding, calls))};", "// ", "")):
        yield file, f"{begin}{BEGIN}{end}", f"\n{text}\n", f"{begin}{END}{end}", why
