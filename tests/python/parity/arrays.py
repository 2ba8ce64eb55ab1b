"""torch, where it is installed. Without it `torch` is the part of its interface that the programs here use, on NumPy arrays,
so that what tutti.distributed does with arrays is compared with torch's stored results as well."""

import importlib.util
import types

import numpy

found = importlib.util.find_spec("torch")
HAS_TORCH = found is not None and found.origin is not None  # the repository has a folder of that name


class Dtype:
    """An element type under torch's name."""

    def __init__(self, name, kind):
        self.name, self.kind = name, numpy.dtype(kind)
        self.is_floating_point = self.kind.kind not in "iubc"

    def __str__(self):
        return f"torch.{self.name}"


class Size(tuple):
    """A shape."""

    def numel(self):
        return int(numpy.prod(self, dtype=int))


class Device(str):
    """A device under torch's name."""

    def __repr__(self):
        return f"device(type='{self}')"

    def __str__(self):
        return self[:]


def arranged(shape):
    """A shape that was given as one argument or as several."""
    return shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


def numpy_of(dtype, other="float32"):
    """What NumPy calls an element type; another one for None."""
    return other if dtype is None else dtype.kind if isinstance(dtype, Dtype) else dtype


class Array(numpy.ndarray):
    """An array with the methods of a tensor. What is not here raises AttributeError, as a name that torch does not have."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        """Arrays give arrays, those without dimensions too; whole numbers become float32, not float64."""
        plain = [each.view(numpy.ndarray) if isinstance(each, Array) else each for each in inputs]
        if out is not None:
            options["out"] = tuple(each.view(numpy.ndarray) for each in out)
        result = getattr(ufunc, method)(*plain, **options)
        if out is not None:
            return out[0]
        if result.dtype == "float64" and not any(getattr(each, "dtype", None) == "float64" for each in plain):
            result = result.astype("float32")
        return of(result)

    def __getitem__(self, place):
        place = place if isinstance(place, tuple) else (place,)
        return of(self.view(numpy.ndarray)[place if any(each is Ellipsis for each in place) else (*place, ...)])

    def __iter__(self):
        return (self[number] for number in range(len(self)))

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def view(self, *kind):
        if isinstance(kind[0], Dtype):
            return of(super().view(numpy.ndarray).view(kind[0].kind))
        return super().view(*kind) if isinstance(kind[0], type) else self.reshape(*kind)

    def reshape(self, *shape):
        return of(super().reshape(arranged(shape)))

    def size(self, dim=None):
        return Size(self.shape) if dim is None else self.shape[dim]

    def contiguous(self, memory_format=None):
        if memory_format:
            return self.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        return self if self.is_contiguous() else of(self.copy("C"))

    add, div, ge = numpy.ndarray.__add__, numpy.ndarray.__truediv__, numpy.ndarray.__ge__

    def sub_(self, other, alpha):
        self -= alpha * other
        return self

    def add_(self, other):
        self += other
        return self

    def mul_(self, other):
        self *= other
        return self

    def copy_(self, other):
        self[...] = other
        return self

    fill_ = copy_

    def index_copy_(self, dim, places, other):
        assert dim == 0
        self[numpy.asarray(places)] = other
        return self

    def max(self, dim=None):
        plain = self.view(numpy.ndarray)
        return of(plain.max()) if dim is None else types.SimpleNamespace(values=of(plain.max(axis=dim)))

    def sum(self, dim=None):
        wide = self.dtype if self.dtype.kind not in "biu" else "int64"
        return of(self.view(numpy.ndarray).sum(axis=dim, dtype=wide))

    def unfold(self, dim, size, step):
        assert dim == 0 and step == 1
        return of(numpy.lib.stride_tricks.sliding_window_view(self.view(numpy.ndarray), size))

    def split(self, counts):
        ends = numpy.cumsum(counts)
        return tuple(self[int(end) - count:int(end)] for end, count in zip(ends, counts))


# Methods that are one expression.
for name, method in {
    "to": lambda self, dtype: of(self.astype(numpy_of(dtype))),
    "float": lambda self: self.to("float32"),
    "double": lambda self: self.to("float64"),
    "dim": lambda self: self.ndim,
    "numel": lambda self: Size(self.shape).numel(),
    "element_size": lambda self: self.itemsize,
    "clone": lambda self: of(self.copy("K")),
    "detach": lambda self: self,
    "resolve_conj": lambda self: self,
    "resolve_neg": lambda self: self,
    "is_contiguous": lambda self: self.flags.c_contiguous,
    "permute": lambda self, *dims: of(self.transpose(dims)),
    "t": lambda self: of(self.T),
    "square": lambda self: self * self,
    "mean": lambda self: self.sum() / self.numel(),
    "roll": lambda self, count: of(numpy.roll(self.view(numpy.ndarray), count)),
    "flip": lambda self, dim: of(numpy.flip(self.view(numpy.ndarray), dim).copy()),
    "repeat": lambda self, *counts: of(numpy.tile(self.view(numpy.ndarray), counts)),
    "expand": lambda self, *shape: of(numpy.broadcast_to(self.view(numpy.ndarray), shape)),
    "new_zeros": lambda self, *shape: of(numpy.zeros(arranged(shape), self.dtype)),
    "new_empty": lambda self, *shape: self.new_zeros(*shape),
    "chunk": lambda self, count: self.split([len(self) // count] * count),
}.items():
    setattr(Array, name, method)


def of(array):
    """The same elements, in the same place."""
    return numpy.asarray(array).view(Array)


def tensor(value, dtype=None):
    plain = numpy.array(value)
    smaller = {"float64": "float32", "complex128": "complex64"}.get(plain.dtype.name, plain.dtype)
    return of(numpy.array(value, numpy_of(dtype, smaller)))


def full(shape, value, dtype=None):
    return of(numpy.full(shape, value, numpy_of(dtype, tensor(value).dtype)))


def arange(*range):
    return tensor(numpy.arange(*range))


def empty_strided(shape, strides):
    room = numpy.zeros(1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides) if extent), "float32")
    return of(numpy.lib.stride_tricks.as_strided(room, shape, [4 * stride for stride in strides]))


def limits(kind):
    """finfo or iinfo of torch's from NumPy's."""
    def read(dtype):
        info = kind(numpy_of(dtype))
        whole = float if dtype.is_floating_point else int
        return types.SimpleNamespace(**{name: whole(getattr(info, name)) for name in
                                        ("max", "min", "tiny", "smallest_normal", "eps") if hasattr(info, name)})
    return read


def complex_of(real, imaginary):
    return of(real.view(numpy.ndarray) + 1j * imaginary.view(numpy.ndarray)).to(
        "complex128" if real.dtype == "float64" else "complex64")


def pad(array, widths):
    """Zeros behind the last dimension first, as torch.nn.functional.pad takes them."""
    pairs = list(zip(widths[::2], widths[1::2]))[::-1]
    return of(numpy.pad(array.view(numpy.ndarray), [(0, 0)] * (array.ndim - len(pairs)) + pairs))


def plain(function, *names):
    """A function of NumPy whose result is an array."""
    return lambda *given, **options: of(function(*given, **{dict(dim="axis").get(name, name): value
                                                             for name, value in options.items()}))


class Standin(types.ModuleType):
    """Parts of torch's interface on NumPy arrays."""

    Tensor, Size, dtype, device, channels_last = Array, Size, Dtype, Device, "channels_last"
    tensor, full, arange, empty_strided = map(staticmethod, (tensor, full, arange, empty_strided))
    complex = staticmethod(complex_of)
    autograd = types.SimpleNamespace(Function=object)
    nn = types.SimpleNamespace(functional=types.SimpleNamespace(pad=pad))

    def __init__(self):
        super().__init__("torch")
        import ml_dtypes
        names = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
                 "float64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                 "float8_e5m2fnuz", "float8_e8m0fnu")
        for name in names:
            setattr(self, name, Dtype(name, getattr(ml_dtypes, name, name)))
        self.long = self.int64
        self.finfo, self.iinfo = limits(ml_dtypes.finfo), limits(numpy.iinfo)
        for name in ("where", "isnan", "signbit", "minimum", "maximum", "stack", "full_like", "zeros_like", "bincount"):
            setattr(self, name, plain(getattr(numpy, name)))
        self.cat, self.empty_like, self.equal = plain(numpy.concatenate), self.zeros_like, numpy.array_equal
        self.as_tensor = of
        self.zeros = self.empty = lambda *shape, dtype=None: full(arranged(shape), 0, numpy_of(dtype))
        self.ones = lambda *shape, dtype=None: full(arranged(shape), 1, numpy_of(dtype))
        self.eye = lambda count: of(numpy.eye(count, dtype="float32"))
        self.argsort = lambda array, stable: of(numpy.argsort(array.view(numpy.ndarray), stable=stable))
        self.frombuffer = lambda octets, dtype: of(numpy.frombuffer(octets, dtype.kind))

    @staticmethod
    def div(array, other, rounding_mode):
        assert rounding_mode == "trunc"
        return of(numpy.trunc(array.view(numpy.ndarray) / other).astype(array.dtype))


if HAS_TORCH:
    import torch
else:
    torch = Standin()
