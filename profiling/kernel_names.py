"""What the name of a GPU activity says: library, operation, element type, tile, tensor cores.

A name is read by the first entry of `FAMILIES` that matches. What the name does not say is None,
and a name that nobody knows stays "unknown": a wrong label is worse than none. CUTLASS documents
its grammar (media/docs/profiler.md); NVIDIA documents neither cuDNN's nor nvjet's, so the meanings
of their tokens are marked "inferred".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

SHORT_LENGTH = 48
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a name and what it means to a reader."""

    text: str
    meaning: str


@dataclass(frozen=True, slots=True)
class KernelName:
    """A decoded name; `full` is the name as recorded, `short` at most 48 characters of it.

    `dtype` is the element type of the inputs, for a cast that of its result. `architecture` is what
    the code was written for, which may be older than the GPU that it runs on.
    """

    full: str
    short: str
    family: str
    library: str
    operation: str
    uses_tensor_cores: bool | None
    dtype: str | None
    tile: str | None
    architecture: str | None
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a family's reader found; the defaults say "the name does not tell"."""

    short: str
    operation: str = UNKNOWN
    uses_tensor_cores: bool | None = None
    dtype: str | None = None
    tile: str | None = None
    architecture: str | None = None
    tokens: tuple[Token, ...] = ()
    library: str | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of name: how to recognise it and how to read it."""

    key: str
    library: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], Reading]


# Spellings of element types in names, C++ template arguments and CUTLASS tokens alike.
_DTYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "bfloat16_t": "bf16",
    "BFloat16": "bf16",
    "Bfloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "f16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "half_t": "fp16",
    "Half": "fp16",
    "Fp16": "fp16",
    "__half": "fp16",
    "f32": "fp32",
    "float": "fp32",
    "tf32": "tf32",
    "f64": "fp64",
    "double": "fp64",
    "f8": "fp8",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "E4m3": "fp8",
    "E5m2": "fp8",
    "float_e4m3_t": "fp8",
    "float_e5m2_t": "fp8",
    "Float8_e4m3fn": "fp8",
    "Float8_e5m2": "fp8",
    "i8": "int8",
    "s8": "int8",
    "int8": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "long": "int64",
    "complex<float>": "complex64",
    "complex<double>": "complex128",
}

# BLAS letters before "gemm" (s = single precision and so on).
_BLAS_LETTERS = {
    "s": "fp32",
    "h": "fp16",
    "d": "fp64",
    "c": "complex64",
    "gc": "complex64",
    "z": "complex128",
}

# nvjet is undocumented; these letters are inferred from calls with known types.
_NVJET_LETTERS = {"t": "bf16", "h": "fp16", "s": "fp32", "q": "fp8"}

_OPERATIONS = {
    "gemm": "gemm",
    "fprop": "convolution",
    "dgrad": "convolution_backward",
    "wgrad": "convolution_backward",
}

# A grammar is read left to right: a piece of the name takes the first rule not yet passed.
Grammar = tuple[tuple[str, str], ...]

_CUDNN_SDPA: Grammar = (
    (r"cudnn", "NVIDIA cuDNN"),
    (r"generated", "inferred: built at run time for this problem"),
    (r"fort_native", "inferred: cuDNN's built-in kernel generator"),
    (r"oss", "inferred: from cuDNN's open-source kernels"),
    (r"sdpa", "scaled dot product attention"),
    (r"sm(\d+)(\d)\w?", r"written for compute capability \1.\2"),
    (r"flash", "tiled softmax: the scores never reach memory (FlashAttention)"),
    (r"fprop", "forward pass"),
    (r"bprop", "backward pass"),
    (r"wmma", "inferred: warp-level tensor-core instructions"),
    (r"wgmma", "inferred: warp-group tensor-core instructions (Hopper)"),
    (r"f16", "inferred: a 16-bit element type, float16 or bfloat16 alike"),
    (r"knob_(\d+)", r"inferred: configuration \1 of cuDNN's choices for this problem"),
    (
        r"(\d+)x(\d+)x(\d+)",
        r"inferred: tile of \1 queries by \2 keys, \3 of the head dimension at a time",
    ),
    (r"(\d+)x(\d+)x(\d+)", r"inferred: arrangement of the warps, \1 along the queries"),
    (r"cga(\d+)x(\d+)x(\d+)", r"inferred: thread block cluster of \1 x \2 x \3 (1 = no cluster)"),
    (r"kernel(\d+)_(\d+)", r"inferred: running number of the kernel in its plan"),
)

_FMHA: Grammar = (
    (r"fmha", "fused multi-head attention"),
    (r"cutlassF", "forward pass, built from CUTLASS"),
    (r"cutlassB", "backward pass, built from CUTLASS"),
    (r"(bf16|f16|f32)", r"element type \1"),
    (r"aligned", "pointers and strides are aligned: wide loads"),
    (r"notaligned", "for unaligned tensors: narrow loads"),
    (r"(\d+)x(\d+)", r"tile of \1 queries by \2 keys per block"),
    (r"k(\d+)", r"for head dimensions up to \1"),
    (r"rf", "output accumulated in the register file"),
    (r"gmem", "output accumulated in global memory: head dimension exceeds the tile"),
    (r"dropout", "with dropout"),
    (r"seqaligned", "sequence lengths are multiples of the tile"),
    (r"sm(\d+)(\d)", r"compiled for compute capability \1.\2 and newer"),
)

_NVJET: Grammar = (
    (r"nvjet", "cuBLASLt kernel for Hopper and newer (undocumented)"),
    (r"sm(\d+)(\d)", r"written for compute capability \1.\2"),
    (
        r"[thsq]+",
        "inferred: types of input, accumulator, output (t bf16, h fp16, s fp32, q fp8)",
    ),
    (r"(\d+)x(\d+)", r"inferred: output tile of \1 x \2 per block"),
    (r"(\d+)x(\d+)", r"inferred: \1 elements of K per stage, \2 stages in flight"),
    (r"(\d+)x(\d+)", r"inferred: thread block cluster of \1 x \2"),
    (r"2cta", "inferred: two blocks share one matrix instruction"),
    (r"[hv]", "inferred: tiles are walked horizontally (h) or vertically (v)"),
    (r"bz", "inferred: batch in the z dimension"),
    (r"coop([AB])", r"inferred: warp groups cooperate on operand \1"),
    (r"splitK", "inferred: K split over blocks, summed afterwards"),
    (r"bias", "inferred: bias added at the end"),
    (r"[NT]{3}", "inferred: layout of A, B and C (N as stored, T transposed)"),
)

_XMMA: Grammar = (
    (r"sm(\d+)(\d)", r"written for compute capability \1.\2"),
    (r"xmma", "NVIDIA's internal matrix-multiply templates"),
    (r"fprop", "convolution, forward"),
    (r"[dw]grad", "convolution, backward"),
    (r"implicit", "convolution as a matrix product without unfolding the input"),
    (r"gemm", "matrix product"),
    (r"indexed", "addresses from an index table"),
    (r"((?:tf|bf|e|f)\w+?)((?:tf|bf|f)\d+|e\dm\d)", r"types of A and B: \1, \2"),
    (r"(\w+?)(f\d+)", r"types of C and D: \1, \2"),
    (r"f\d+", "type of the accumulator"),
    (r"[nt]{2}", "layout of A and B (n as stored, t transposed)"),
    (r"[nt]", "layout of the output"),
    (r"n[a-z]+", "layout of the tensors (n batch, h and w image, c channels)"),
    (r"n[a-z]+", "layout of the tensors (n batch, h and w image, c channels)"),
    (r"tilesize(\d+)x(\d+)x(\d+)", r"tile of \1 x \2 outputs, K in steps of \3"),
    (r"stage(\d+)", r"\1 stages of loads in flight"),
    (r"warpsize(\w+)", r"warps of a block: \1"),
    (r"warpgroupsize(\w+)", r"warp groups of a block: \1"),
    (r"ffma", "plain fused multiply-add: CUDA cores"),
    (r"g\d+", "groups of the convolution"),
    (r"tensor(\w+)", r"tensor-core instruction of shape \1"),
    (r"aligna(\d+)", r"inputs aligned to \1 elements"),
    (r"alignc(\d+)", r"output aligned to \1 elements"),
    (r"execute\w+kernel", "entry point"),
    (r"cublas", "shipped with cuBLAS"),
    (r"cudnn", "shipped with cuDNN"),
)

_CUTLASS: Grammar = (
    (r"cutlass(?:3x)?", "CUTLASS template"),
    (r"(?:sm)?(\d+)(\d)\w?", r"written for compute capability \1.\2"),
    (r"wmma", "through the WMMA interface"),
    (r"tensorop", "tensor cores"),
    (r"simt", "CUDA cores"),
    (r"bf16|f16|tf32|f8|e\dm\d", "type of the inputs"),
    (r"(\w?)(\d+x\d+x\d+)gemm", r"accumulates in \1 (s = fp32), instruction shape \2"),
    (r"([a-z]+?)(\d{3,})\w*(gemm|fprop|[dw]grad)", r"accumulates in \1 (s = fp32), instruction \2"),
    (r"[a-z]+gemm", "matrix product in BLAS letters (s = fp32)"),
    (r"relu", "fused ReLU, which the caller may leave off"),
    (r"optimized", "iterators with precomputed offsets"),
    *((r"bf16|f16|tf32|f32|f8|e\dm\d", "type of an operand or of the output"),) * 5,
    (r"(\d+)x(\d+)x(\d+)", r"output tile of \1 x \2 per block, K in steps of \3"),
    (r"(\d+)x(\d+)x(\d+)", r"thread block cluster of \1 x \2 x \3"),
    (r"(\d+)x(\d+)", r"output tile of \1 x \2 per block"),
    (r"(\d+)x(\d+)", r"K in steps of \1, \2 stages in flight"),
    (r"0", "number of stages chosen by CUTLASS"),
    (r"[nt]{2,3}", "layout of the operands (n as stored, t transposed)"),
    (r"align(\d+)", r"operands aligned to \1 elements"),
    (r"(\d)sm", r"\1 SM per matrix instruction"),
)

_ARCH_GEMM: Grammar = (
    (r"[a-z]{3,}", "GPU generation the kernel was tuned for, not the one it ran on"),
    (r"bf16|fp16|tf32|int8", "type of the inputs"),
    (r"([a-z]+)(\d+)gemm", r"matrix product, accumulates in \1 (s = fp32), tensor-core shape \2"),
    (r"[a-z]+gemm", "matrix product on CUDA cores in BLAS letters (s = fp32)"),
    (r"bf16|fp16|tf32|fp32|int8", "type of the output"),
    (r"(\d+)x(\d+)", r"output tile of \1 x \2 per block"),
    (r"sliced1x(\d+)", r"K split \1 ways inside a block"),
    (r"ldg(\d+)", r"loads of \1 elements at once"),
    (r"relu", "fused ReLU, which the caller may leave off"),
    (r"stages_(\d+)x(\d+)", r"K in steps of \1, \2 stages in flight"),
    (r"[nt]{2}", "layout of A and B (n as stored, t transposed)"),
)

_FLASH_TRAITS = ("head dimension", "queries per tile", "keys per tile", "warps per block")


def _explain(name: str, grammar: Grammar, pieces: str = r"[^_]+") -> tuple[Token, ...]:
    """Every piece of `name` in order, so that joining the texts gives the name back."""
    tokens, rules = [], list(grammar)
    for piece in re.findall(pieces, name):
        meaning = "not documented"
        for position, (rule, text) in enumerate(rules):
            if match := re.fullmatch(rule, piece):
                meaning = match.expand(text)
                rules = rules[position + 1 :]
                break
        tokens.append(Token(piece, meaning))
    return tuple(tokens)


def _joined(*parts: str | None) -> str:
    return " ".join(part for part in parts if part)


def _dtype(spelling: str | None) -> str | None:
    if spelling is None:
        return None
    bare = re.sub(r"\b(?:\w+::)+", "", spelling).strip()
    return _DTYPES.get(bare)


def _template_arguments(text: str) -> list[str]:
    """Top-level arguments of the template list that `text` begins with; [] if there is none."""
    if not text.startswith("<"):
        return []
    arguments, depth, begin = [], 0, 1
    for position, letter in enumerate(text):
        depth += (letter in "<({[") - (letter in ">)}]")
        if depth == 0 or (depth == 1 and letter == ","):
            arguments.append(text[begin:position].strip())
            begin = position + 1
        if depth == 0:
            break
    return arguments


def _read_cudnn_sdpa(match: re.Match[str]) -> Reading:
    backward = match["direction"] == "bprop"
    dtype = "16-bit" if match["dtype"] == "f16" else _dtype(match["dtype"])
    knob = f"knob {match['knob']}" if match["knob"] else None
    direction = "bprop" if backward else None
    return Reading(
        short=_joined("cuDNN SDPA", direction, match["arch"], match["mma"], knob),
        operation="attention_backward" if backward else "attention",
        uses_tensor_cores=True,
        dtype=dtype,
        tile=match["tile"],
        architecture=match["arch"],
        tokens=_explain(match.string, _CUDNN_SDPA, r"fort_native|knob_\d+|kernel\d+_\d+|[^_]+"),
    )


def _read_cudnn_other(match: re.Match[str]) -> Reading:
    # compute_dot_do_o multiplies elementwise and sums a row: nothing for a tensor core.
    row_sums = "compute_dot_do_o" in match.string
    return Reading(
        short=_bare(match.string),
        operation="attention_backward" if row_sums else UNKNOWN,
        uses_tensor_cores=False if row_sums else None,
    )


def _read_flash2(match: re.Match[str]) -> Reading:
    kernel = match["kernel"]
    rest = match.string[match.end() :]
    traits = re.search(r"(\d+), *(\d+), *(\d+), *(\d+)", rest)
    dtype = _dtype(_first(r"\b(?:bfloat16_t|half_t)\b", rest))
    sizes = traits.groups() if traits else ()
    tile = f"{sizes[1]}x{sizes[2]}" if sizes else None
    tokens: tuple[Token, ...] = (
        Token(f"{kernel}_kernel", "FlashAttention-2; runs as sm80 code on newer GPUs"),
    )
    tokens += tuple(map(Token, sizes, _FLASH_TRAITS))
    # The helpers reduce and convert: no matrix product.
    helper = re.search(r"combine|dot_do_o|convert", kernel)
    return Reading(
        short=_joined(kernel, f"hd{sizes[0]}" if sizes else None, tile),
        operation=_attention(match["direction"] == "bwd"),
        uses_tensor_cores=not helper,
        dtype=dtype,
        tile=tile,
        tokens=tokens,
    )


def _attention(backward: bool) -> str:
    return "attention_backward" if backward else "attention"


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[0] if match else None


def _read_fmha(match: re.Match[str]) -> Reading:
    arch = int(match["arch"])
    # float32 on sm80 may be TF32 in several passes or plain FMA: the name does not tell.
    tensor_cores = None if match["dtype"] == "f32" else True
    return Reading(
        short=_joined(f"fmha_cutlass{match['direction']}", match["dtype"], match["tile"]),
        operation=_attention(match["direction"] == "B"),
        uses_tensor_cores=tensor_cores if arch >= 70 else False,  # none before Volta
        dtype=_dtype(match["dtype"]),
        tile=match["tile"],
        architecture=f"sm{arch}",
        tokens=_explain(match[0], _FMHA),
    )


def _read_flash3(match: re.Match[str]) -> Reading:
    rest = match.string[match.end() :]
    shapes = re.findall(
        r"tuple<(?:cute::)?C<(\d+)>, *(?:cute::)?C<(\d+)>, *(?:cute::)?C<(\d+)>", rest
    )
    tile = "x".join(shapes[1]) if len(shapes) > 1 else None
    arch = f"sm{match['arch']}" if match["arch"] else None
    dtype = _dtype(_first(r"\b(?:bfloat16_t|half_t|float_e4m3_t)\b", rest))
    tokens = [Token(match["kernel"], "FlashAttention-3")]
    if len(shapes) > 1:
        tokens += [Token("x".join(shapes[0]), "thread block cluster")]
        tokens += [Token("x".join(shapes[1]), "tile: queries x keys x head dimension")]
    return Reading(
        short=_joined(match["kernel"], dtype, tile),
        operation=_attention("Bwd" in match["kernel"]),
        uses_tensor_cores=True if arch else None,
        dtype=dtype,
        tile=tile,
        architecture=arch,
        tokens=tuple(tokens),
    )


def _read_flash4(match: re.Match[str]) -> Reading:
    name = match.string
    tile = re.search(r"_tile(\d+x\d+)", name)
    dtype = re.search(r"sm\d+_(bf16|fp16|f16|e4m3|e5m2)_", name)
    arch = f"sm{match['arch']}"
    direction = match["direction"].lower()
    return Reading(
        short=_joined(f"flash_{direction} {arch} CuTe", dtype and dtype[1], tile and tile[1]),
        operation=_attention(direction == "bwd"),
        uses_tensor_cores=True,
        dtype=_dtype(dtype[1]) if dtype else None,
        tile=tile[1] if tile else None,
        architecture=arch,
        tokens=(Token(match[0], "FlashAttention-4, written in the CuTe DSL"),),
    )


_TRITON_KINDS = {
    "poi": "pointwise",
    "red": "reduction, looping over the row",
    "per": "reduction with the whole row in registers (persistent)",
    "tem": "template with matrix products; on tensor cores unless they are IEEE float32",
}


def _read_triton(match: re.Match[str]) -> Reading:
    kind, fused = match["kind"], (match["fused"] or "").strip("_")
    if kind not in _TRITON_KINDS:
        return Reading(short=match.string)
    tokens = [Token("triton", "generated by TorchInductor"), Token(kind, _TRITON_KINDS[kind])]
    if fused:
        tokens.append(Token(fused, "the fused aten ops, joined by underscores"))
    tokens.append(Token(match["number"], "running number within the compiled graph"))
    return Reading(
        short=_joined(f"triton_{kind}", fused),
        operation=_triton_operation(kind, fused),
        uses_tensor_cores=kind == "tem",
        tokens=tuple(tokens),
    )


def _triton_operation(kind: str, fused: str) -> str:
    if "flex_attention" in fused:
        return _attention("backward" in fused)
    if "softmax" in fused:
        return "softmax"
    if kind == "tem":
        return "gemm" if re.search(r"(?:^|_)(?:addmm|bmm|mm)(?:_|$)", fused) else UNKNOWN
    return "fused_pointwise" if kind == "poi" else "fused_reduction"


def _read_nvjet(match: re.Match[str]) -> Reading:
    letters = match["types"] or ""
    known = letters if set(letters) <= set(_NVJET_LETTERS) else ""
    dtype = _NVJET_LETTERS[known[0]] if known else None
    return Reading(
        short=_joined(f"nvjet_{letters}" if letters else "nvjet", match["tile"]),
        operation="gemm",
        # float32 inputs may be multiplied as TF32 or not at all on tensor cores.
        uses_tensor_cores=True if dtype and dtype != "fp32" else None,
        dtype=dtype,
        tile=match["tile"],
        architecture=match["arch"],
        tokens=_explain(match.string, _NVJET),
    )


def _read_xmma(match: re.Match[str]) -> Reading:
    name = match.string
    inputs = re.search(
        r"_(tf32|bf16|f16|f32|f64|i8|e4m3|e5m2)(?:tf32|bf16|f16|f32|f64|i8|e\dm\d)_", name
    )
    dtype = _dtype(inputs[1]) if inputs else None
    tile = re.search(r"_tilesize(\d+x\d+x\d+)", name)
    return Reading(
        short=_joined(f"xmma_{match['op']}", dtype, tile and tile[1]),
        operation=_OPERATIONS[match["op"]],
        uses_tensor_cores=_xmma_tensor_cores(name),
        dtype=dtype,
        tile=tile[1] if tile else None,
        architecture=match["arch"],
        tokens=_explain(name, _XMMA, r"execute(?:_[a-z]+)*?_kernel|[^_]+"),
        library="cuDNN" if "cudnn" in name else None,
    )


def _xmma_tensor_cores(name: str) -> bool | None:
    if re.search(r"_[fdh]fma_", name):
        return False
    # Warp groups exist for Hopper's wgmma instruction only.
    return True if re.search(r"_tensor\d+x|_warpgroupsize", name) else None


def _read_cutlass3(match: re.Match[str]) -> Reading:
    dtype = _dtype(match["dtype"])
    return Reading(
        short=_joined("cutlass3x", match["arch"], dtype, "gemm", match["tile"]),
        operation="gemm",
        uses_tensor_cores=match["engine"] != "simt",
        dtype=dtype,
        tile=match["tile"],
        architecture=match["arch"],
        tokens=_explain(match[0], _CUTLASS),
    )


def _read_cutlass2(match: re.Match[str]) -> Reading:
    op, engine = match["op"], match["engine"]
    dtype = _cutlass2_dtype(match)
    tile = re.search(r"_(\d+x\d+)(?!\w*x\d+x)", match["rest"])
    template = f"cutlass_{match['arch']}" if match["arch"] else "cutlass"
    return Reading(
        short=_joined(template, engine if engine == "simt" else dtype, op, tile and tile[1]),
        operation=_OPERATIONS[op],
        uses_tensor_cores=engine != "simt",
        dtype=dtype,
        tile=tile[1] if tile else None,
        architecture=f"sm{match['arch']}" if match["arch"] else None,
        tokens=_explain(match[0], _CUTLASS),
        library="cuDNN" if "cudnn" in match.string else None,
    )


def _cutlass2_dtype(match: re.Match[str]) -> str | None:
    named = (
        match["inputs"]
        or match["converted"]
        or _first(r"(?<=_)(?:tf32|bf16|f16)(?=_)", match["rest"])
    )
    if named:
        return _dtype(named)
    if match["engine"] == "simt":
        return _BLAS_LETTERS.get(match["letters"])
    # With no type named, float32 inputs: on tensor cores of sm80 that is TF32.
    bare_tf32 = (match["letters"], match["shape"]) == ("s", "1688")
    return "tf32" if bare_tf32 and match["arch"] in ("80", None) else None


def _read_cutlass_other(match: re.Match[str]) -> Reading:
    return Reading(short=_bare(match.string))


def _read_arch_gemm(match: re.Match[str]) -> Reading:
    shape, letters = match["shape"], match["letters"]
    tile = re.search(r"_(\d+x\d+)", match["rest"])
    dtype = _arch_gemm_dtype(match)
    opcode = f"{letters}{shape or ''}gemm"
    return Reading(
        short=_joined(match["arch"], match["inputs"], opcode, tile and tile[1]),
        operation="gemm",
        uses_tensor_cores=shape is not None,
        dtype=dtype,
        tile=tile[1] if tile else None,
        architecture=match["arch"],
        tokens=_explain(match[0], _ARCH_GEMM, r"stages_\d+x\d+|[^_]+"),
    )


def _arch_gemm_dtype(match: re.Match[str]) -> str | None:
    if match["shape"] is None:
        return _BLAS_LETTERS.get(match["letters"])
    named = match["inputs"] or _first(r"(?<=_)(?:tf32|bf16|fp16|int8)(?=_)", match["rest"])
    return _dtype(named)


def _read_cublas_helper(match: re.Match[str]) -> Reading:
    arguments = _template_arguments(match.string[match.end() :])
    dtype = next(filter(None, map(_dtype, arguments)), None)
    kernel = match["kernel"]
    operation = next(word for word in _CUBLAS_HELPERS if kernel.startswith(word))
    return Reading(
        short=_joined(kernel, dtype),
        operation=_CUBLAS_HELPERS[operation],
        uses_tensor_cores=False,
        dtype=dtype,
        tokens=(Token(kernel, "cuBLAS kernel on CUDA cores"),),
    )


_CUBLAS_HELPERS = {
    "splitKreduce": "splitk_reduce",  # second half of a split-K product: count it with its GEMM
    "gemv": "gemv",
    "dot": "dot",
    "reduce_1Block": "dot",
    "gemmk1": "gemm",
}

_ELEMENTWISE = {
    "vectorized_elementwise_kernel": "contiguous data, several elements per load",
    "unrolled_elementwise_kernel": "element by element, with conversion or odd alignment",
    "elementwise_kernel": "strided or broadcast data, an index computed per element",
    "elementwise_kernel_with_index": "values computed from the position",
    "index_elementwise_kernel": "elements picked by an index tensor",
}

# Functor names of ATen that do not already spell their operation.
_FUNCTORS = {
    "direct_copy": "copy",
    "bfloat16_copy": "cast",
    "float16_copy": "cast",
    "and": "all",
    "or": "any",
}
_CAST_RESULTS = {"bfloat16_copy": "bf16", "float16_copy": "fp16"}


def _read_elementwise(match: re.Match[str]) -> Reading:
    kernel, rest = match["kernel"], match.string[match.end() :]
    functor = _functor(rest)
    operation = _elementwise_operation(kernel, functor, rest)
    dtype = _CAST_RESULTS.get(functor or "") or _functor_dtype(rest)
    label = "cast to" if operation == "cast" and dtype else operation
    return Reading(
        short=_joined(label, dtype),
        operation=operation,
        uses_tensor_cores=False,
        dtype=dtype,
        tokens=_pytorch_tokens(kernel, _ELEMENTWISE[kernel], functor, dtype),
    )


def _elementwise_operation(kernel: str, functor: str | None, rest: str) -> str:
    if kernel.startswith("index_"):
        return "index"
    if kernel.endswith("_with_index"):
        return "arange" if "arange" in rest else "elementwise"
    if functor == "direct_copy" and "LoadWithCast" in rest:
        return "cast"
    return _FUNCTORS.get(functor, functor) if functor else "elementwise"


def _pytorch_tokens(
    kernel: str, meaning: str, functor: str | None, dtype: str | None
) -> tuple[Token, ...]:
    tokens = [Token(kernel, f"PyTorch: {meaning}")]
    if functor:
        tokens.append(Token(functor, "the operation, named by its functor"))
    if dtype:
        tokens.append(Token(dtype, "element type"))
    return tuple(tokens)


# Functors that only bind an argument of the one that computes.
_WRAPPERS = {"AUnary", "BUnary", "Binary", "BinaryUnary", "Unary"}


def _functor(rest: str) -> str | None:
    """The operation that ATen's template arguments name, in the order they are written."""
    for match in re.finditer(
        r"CUDAFunctor(?:OnSelf|OnOther)?_(?P<cuda>[a-z_]+)"
        r"|(?:\b|(?<=\d))(?P<plain>[A-Z][A-Za-z]{0,60}?)Functor(?![a-z])"
        r"|(?:\b|(?<=\d))(?P<kernel>[a-z]\w{0,60}?)_kernel(?:_impl|_cuda)*(?![a-z_])",
        rest,
    ):
        name = match["cuda"] or match["plain"] or match["kernel"]
        if name not in _WRAPPERS and not name.startswith("gpu"):
            return name.lower() if match["plain"] else name
    return None


def _functor_dtype(rest: str) -> str | None:
    """Element type of the first functor argument that is not a mask, None if it is not spelled."""
    if functor := re.search(r"\b(?:CUDAFunctor\w*|[A-Z]\w*Functor)<([^,<>]+(?:<\w+>)?)", rest):
        return _dtype(functor[1])
    # A lone int is the index of the launcher's own lambda.
    lambdas = re.findall(r"lambda\(([^()]+)\)", rest)
    spelled = next((text for text in lambdas if text != "int"), "")
    dtypes = [_dtype(argument) for argument in spelled.split(",")]
    values = [dtype for dtype in dtypes if dtype != "bool"]
    return next(iter(values or dtypes), None)


def _read_reduce(match: re.Match[str]) -> Reading:
    rest = match.string[match.end() :]
    reduction = re.search(r"\bReduceOp(<)", rest)
    arguments = _template_arguments(rest[reduction.start(1) :]) if reduction else []
    named = re.search(r"\b(Mean|Max|Min|ArgMax|ArgMin|Norm|Welford)\w*Ops\b|\b(sum)_functor", rest)
    functor = (named[1] or named[2]).lower() if named else _functor(rest)
    operation = _FUNCTORS.get(functor, functor) if functor else "reduce"
    dtype = _dtype(arguments[0]) if arguments else None
    return Reading(
        short=_joined("reduce", operation if functor else None, dtype),
        operation=operation,
        uses_tensor_cores=False,
        dtype=dtype,
        tokens=_pytorch_tokens("reduce_kernel", "sums up along a dimension", functor, dtype),
    )


_WARP_SOFTMAX = (
    "type of the input",
    "type of the output",
    "type of the sums",
    "log2 of the row length, rounded up",
    "log-softmax",
    "with a mask",
)


def _read_softmax(match: re.Match[str]) -> Reading:
    kernel = match["kernel"]
    arguments = _template_arguments(match.string[match.end() :])
    dtype = next(filter(None, map(_dtype, arguments)), None)
    per_warp = "warp" in kernel
    meaning = "softmax, one warp per row" if per_warp else "softmax, one block per row"
    tokens: tuple[Token, ...] = (Token(kernel, f"PyTorch: {meaning}"),)
    if per_warp:
        tokens += tuple(map(Token, arguments, _WARP_SOFTMAX))
    return Reading(
        short=f"{kernel}<{dtype}>" if dtype else kernel,
        operation=_softmax_operation(match.string, per_warp, arguments),
        uses_tensor_cores=False,
        dtype=dtype,
        tokens=tokens,
    )


def _softmax_operation(name: str, per_warp: bool, arguments: list[str]) -> str:
    is_log = arguments[4:5] in (["true"], ["1"]) if per_warp else "LogSoftMax" in name
    backward = "_backward" if re.search(r"softmax_warp_backward|SoftMaxBackward", name) else ""
    return f"{'log_' if is_log else ''}softmax{backward}"


def _read_triu_tril(match: re.Match[str]) -> Reading:
    arguments = _template_arguments(match.string[match.end() :])
    dtype = _dtype(arguments[0]) if arguments else None
    upper = arguments[2] in ("true", "1") if len(arguments) > 2 else None
    operation = {True: "triu", False: "tril", None: "triu_tril"}[upper]
    meaning = "PyTorch: keeps one triangle of a matrix (here usually the causal mask)"
    return Reading(
        short=_joined(operation, dtype),
        operation=operation,
        uses_tensor_cores=False,
        dtype=dtype,
        tokens=(Token("triu_tril_kernel", meaning),),
    )


_PYTORCH_KERNELS = {
    "CatArrayBatchedCopy": "cat",
    "multi_tensor_apply_kernel": "multi_tensor",
    "vectorized_layer_norm_kernel": "layer_norm",
}


def _read_pytorch_named(match: re.Match[str]) -> Reading:
    arguments = _template_arguments(match.string[match.end() :])
    dtype = next(filter(None, map(_dtype, arguments)), None)
    operation = next(op for word, op in _PYTORCH_KERNELS.items() if match[0].startswith(word))
    return Reading(_joined(operation, dtype), operation, uses_tensor_cores=False, dtype=dtype)


def _read_pytorch_other(match: re.Match[str]) -> Reading:
    short = _bare(match.string)
    return Reading(short, operation=re.sub(r"_(?:cuda_)?kernel\w*$", "", short))


def _read_cub(match: re.Match[str]) -> Reading:
    return Reading(match["kernel"], operation=match["kernel"], uses_tensor_cores=False)


def _read_trtllm(match: re.Match[str]) -> Reading:
    attention = match["kind"] == "fmha"
    qkv = re.search(r"Qkv(E4m3|E5m2|Bfloat16|Fp16)", match.string)
    return Reading(
        short=match.string,
        operation="attention" if attention else "gemm",
        uses_tensor_cores=True,
        dtype=_dtype(qkv[1]) if qkv else None,
        architecture="sm100" if re.search(r"[sS]m100", match.string) else None,
    )


def _read_nccl(match: re.Match[str]) -> Reading:
    return Reading(
        short=f"NCCL {match['op']}",
        operation=match["op"],
        tokens=(Token(match["op"], "collective; the suffix is not the protocol that was used"),),
    )


_DIRECTIONS = {
    "HtoD": "host to device",
    "DtoH": "device to host",
    "DtoD": "within the device",
    "PtoP": "between devices",
    "HtoH": "within the host",
}


def _read_memcpy(match: re.Match[str]) -> Reading:
    direction = match["direction"]
    tokens: tuple[Token, ...] = (
        Token("Memcpy", "copy by the driver, not a kernel of the program"),
    )
    if direction:
        tokens += (Token(direction, _DIRECTIONS.get(direction, "direction of the copy")),)
    return Reading(_joined("Memcpy", direction), "memcpy", uses_tensor_cores=False, tokens=tokens)


def _read_memset(match: re.Match[str]) -> Reading:
    meaning = "fill by the driver; cuBLAS and cuDNN reset small counters with it"
    return Reading("Memset", "memset", uses_tensor_cores=False, tokens=(Token("Memset", meaning),))


def _read_hip_copy(match: re.Match[str]) -> Reading:
    operation = "memset" if "fill" in match[0] else "memcpy"
    return Reading(match[0], operation, uses_tensor_cores=False)


def _read_unknown(name: str) -> Reading:
    return Reading(short=_bare(name) or "(unnamed)")


def _family(
    key: str, library: str, pattern: str, read: Callable[[re.Match[str]], Reading]
) -> Family:
    return Family(key, library, re.compile(pattern), read)


# The first match wins, so what is specific stands before what is general.
FAMILIES: tuple[Family, ...] = (
    _family(
        "cudnn_sdpa",
        "cuDNN",
        r"^cudnn_generated_\w*?sdpa_(?P<arch>sm\d+[a-z]?)_flash_(?P<direction>fprop|bprop)"
        r"(?:_(?P<mma>wgmma|wmma))?(?:_(?P<dtype>bf16|f16|e4m3|e5m2|f8))?"
        r"(?:_knob_(?P<knob>\d+))?(?:_(?P<tile>\d+x\d+x\d+))?",
        _read_cudnn_sdpa,
    ),
    _family("cudnn", "cuDNN", r"^cudnn_generated_|\bcudnn::", _read_cudnn_other),
    _family(
        "flash_attention_2",
        "FlashAttention-2",
        r"flash(?:::|\d+)(?P<kernel>flash_(?P<direction>fwd|bwd)(?:_[a-z]+)*?)_kernel",
        _read_flash2,
    ),
    _family(
        "mem_efficient",
        "xFormers",
        r"fmha_cutlass(?P<direction>[FB])_(?P<dtype>bf16|f16|f32)_(?:not)?aligned_"
        r"(?P<tile>\d+x\d+)\w*?_sm(?P<arch>\d+)",
        _read_fmha,
    ),
    _family(
        "flash_attention_3",
        "FlashAttention-3",
        r"flash::(?P<kernel>(?:FlashAttn(?:Fwd|Bwd)(?:Sm(?P<arch>\d+)|Combine|Pre\w*|Post\w*)"
        r"|prepare_varlen_num_blocks_kernel))",
        _read_flash3,
    ),
    _family(
        "flash_attention_4",
        "FlashAttention-4",
        r"flash_(?P<direction>fwd|bwd)_sm(?P<arch>\d+)(?=_|FlashAttention)",
        _read_flash4,
    ),
    _family(
        "inductor_triton",
        "Triton",
        r"^triton_(?:(?P<kind>[a-z]{3})_(?:fused_)?(?P<fused>\w*?)_?(?P<number>\d+)$)?",
        _read_triton,
    ),
    _family(
        "nvjet",
        "cuBLASLt",
        r"^nvjet(?:_(?P<arch>sm\d+))?(?:_(?P<types>[a-z]+)_(?P<tile>\d+x\d+))?",
        _read_nvjet,
    ),
    _family("xmma", "cuBLAS", r"^(?P<arch>sm\d+)_xmma_(?P<op>gemm|fprop|dgrad|wgrad)", _read_xmma),
    _family(
        "cutlass_3",
        "CUTLASS",
        r"cutlass3x_(?P<arch>sm\d+[a-z]?)_(?P<engine>\w*?tensorop|simt)_[a-z]?\d+x\d+x\d+gemm"
        r"_(?P<dtype>[a-z]+\d+(?:m\d)?)_\w*?(?P<tile>\d+x\d+x\d+)\w*",
        _read_cutlass3,
    ),
    _family(
        "cutlass_2",
        "CUTLASS",
        r"cutlass(?:_(?P<arch>\d+))?_(?P<engine>wmma_tensorop|tensorop|simt)"
        r"(?:_(?P<inputs>bf16|f16|tf32|f64|s8))?_(?P<letters>[a-z]+?)(?P<shape>\d+)?"
        r"(?P<converted>tf32|bf16|f16)?(?P<op>gemm|fprop|dgrad|wgrad)(?P<rest>\w*)",
        _read_cutlass2,
    ),
    _family("cutlass", "CUTLASS", r"\bcutlass::(?:device_kernel|Kernel2?)\b", _read_cutlass_other),
    _family(
        "cublas_gemm",
        "cuBLAS",
        r"^(?P<arch>maxwell|volta|turing|ampere|ada|hopper|blackwell)"
        r"(?:_(?P<inputs>bf16|fp16|tf32|int8))?_(?P<letters>[a-z]+?)(?P<shape>\d+)?gemm"
        r"(?P<rest>\w*)",
        _read_arch_gemm,
    ),
    _family(
        "cublas_helper",
        "cuBLAS",
        r"\b(?P<kernel>splitKreduce_kernel|gemv\w*_kernel\w*|dot_kernel|reduce_1Block_kernel"
        r"|gemmk1_kernel)\b",
        _read_cublas_helper,
    ),
    _family(
        "pytorch_elementwise",
        "PyTorch",
        r"(?:\bat::|2at6native).*?"
        r"(?P<kernel>(?:vectorized_|unrolled_|index_)?elementwise_kernel(?:_with_index)?)",
        _read_elementwise,
    ),
    _family("pytorch_reduce", "PyTorch", r"(?:\bat::|2at6native).*?reduce_kernel", _read_reduce),
    _family(
        "pytorch_softmax",
        "PyTorch",
        r"(?P<kernel>softmax_warp_(?:forward|backward)"
        r"|cunn_(?:Spatial)?SoftMax(?:Forward|Backward)(?:Smem|Reg|Gmem)?)",
        _read_softmax,
    ),
    _family("pytorch_triu_tril", "PyTorch", r"triu_tril_kernel", _read_triu_tril),
    _family(
        "pytorch_other",
        "PyTorch",
        r"CatArrayBatchedCopy\w*|multi_tensor_apply_kernel|vectorized_layer_norm_kernel",
        _read_pytorch_named,
    ),
    _family("cub", "CUB", r"\bcub::(?:\w+::)*(?P<kernel>Device\w+)", _read_cub),
    _family("pytorch_other", "PyTorch", r"\bat::native::|2at6native", _read_pytorch_other),
    _family(
        "trtllm_gen",
        "TensorRT-LLM",
        r"^(?P<kind>fmha)Sm\d+|^(?:bmm|gemm)_[A-Z]\w*?_t\d+x\d+x\d+u\d",
        _read_trtllm,
    ),
    _family("nccl", "NCCL", r"^nccl(?:Dev)?Kernel_(?P<op>[A-Za-z]+)", _read_nccl),
    _family("memcpy", "CUDA driver", r"^Memcpy\b(?: (?P<direction>\w+))?", _read_memcpy),
    _family("memset", "CUDA driver", r"^Memset\b", _read_memset),
    _family(
        "memcpy",
        "HIP runtime",
        r"^(?:Copy(?:Host|Device)To(?:Host|Device)|__amd_rocclr_copyBuffer\w*)",
        _read_hip_copy,
    ),
    _family("memset", "HIP runtime", r"^__amd_rocclr_fillBuffer\w*", _read_hip_copy),
)


@lru_cache(maxsize=4096)
def decode(name: str) -> KernelName:
    """Read a kernel, copy or memset name; never raises, whatever the text."""
    for family in FAMILIES:
        if match := family.pattern.search(name):
            return _kernel_name(name, family.key, family.library, family.read(match))
    return _kernel_name(name, UNKNOWN, UNKNOWN, _read_unknown(name))


def _kernel_name(name: str, family: str, library: str, reading: Reading) -> KernelName:
    short = reading.short
    return KernelName(
        full=name,
        short=short if len(short) <= SHORT_LENGTH else f"{short[: SHORT_LENGTH - 1]}…",
        family=family,
        library=reading.library or library,
        operation=reading.operation,
        uses_tensor_cores=reading.uses_tensor_cores,
        dtype=reading.dtype,
        tile=reading.tile,
        architecture=reading.architecture,
        tokens=reading.tokens,
    )


def _bare(name: str) -> str:
    """The function's own name, without return type, namespaces, template and parameter lists."""
    if name.startswith("_Z"):
        return _mangled_function(name)
    text = re.sub(r"\(anonymous namespace\)::|<unnamed>::", "", name.strip())
    head = re.split(r"[<(]", text.removeprefix("void "), maxsplit=1)[0]
    return head.rsplit("::", 1)[-1].strip() or text


def _mangled_function(name: str) -> str:
    """Last identifier of an Itanium-mangled name before its template list: <length><letters>."""
    word, at = name, re.match(r"_Z[NKL]*", name)
    position = at.end() if at else 0
    while length := re.compile(r"[1-9]\d{0,3}").match(name, position):
        position = length.end() + int(length[0])
        word = name[length.end() : position] or word
    return word
