"""Real kernel names, decoded: what a name says is read, what it does not say stays None."""

import csv
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.kernel_names import FAMILIES, SHORT_LENGTH, KernelName, decode

DATA = Path(__file__).parent / "data"
FMHA = "fmha_cutlassF_bf16_aligned_64x64_rf_sm80"
CUDNN = (
    "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x1x1_"
    "cga1x1x1_kernel0_0"
)
XMMA_SM90 = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{}_warpgroupsize{}_execute_segment_k_off"
    "_kernel__5x_cublas"
)
SDPA = "cudnn_generated_{}_sdpa_{}_flash_{}_kernel0_0"
ATEN = "void at::native::"
FA3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
    "flash::CollectiveMainloopFwdSm90<2, cute::tuple<C<1>,C<1>,C<1>>, "
    "cute::tuple<C<64>,C<128>,C<128>>…"
)
FA4 = (
    "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__"
    "tensor0000o11101213_…"
)
TRTLLM_FMHA = "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext"
TRTLLM_BMM = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_…_sm100f"

# name, family, operation, tensor cores, dtype, tile, architecture
REAL = [
    (XMMA_SM90.format("128x128x64", "1x1x1"), "xmma", "gemm", True, "bf16", "128x128x64", "sm90"),
    (XMMA_SM90.format("128x64x64", "1x1x1"), "xmma", "gemm", True, "bf16", "128x64x64", "sm90"),
    (XMMA_SM90.format("256x128x64", "2x1x1"), "xmma", "gemm", True, "bf16", "256x128x64", "sm90"),
    (XMMA_SM90.format("64x64x64", "1x1x1"), "xmma", "gemm", True, "bf16", "64x64x64", "sm90"),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>",
        *("cutlass_2", "gemm", True, "bf16", "64x64", "sm80"),
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>",
        *("cutlass_2", "gemm", True, "bf16", "256x128", "sm80"),
    ),
    (
        "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>",
        *("cutlass_2", "gemm", True, "bf16", "128x128", "sm75"),
    ),
    (
        "void cutlass::Kernel2<cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_nn"
        "_align1>",
        *("cutlass_2", "gemm", True, "bf16", "32x32", "sm75"),
    ),
    (
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_64x1_nn"
        "_align8>",
        *("cutlass_2", "gemm", True, "bf16", "16x16", "sm80"),
    ),
    (
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>",
        *("cutlass_2", "gemm", False, "fp32", "128x32", "sm80"),
    ),
    (
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4>",
        *("cutlass_2", "gemm", True, "tf32", "128x128", "sm80"),
    ),
    (
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>",
        *("cutlass_2", "gemm", True, "tf32", "64x64", "sm80"),
    ),
    (
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64"
        "_32x4_nhwc_align8>",
        *("cutlass_2", "convolution", True, "bf16", "256x64", None),
    ),
    (
        "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_128x128_16x4"
        "_nhwc_unity_stride_align4>",
        *("cutlass_2", "convolution_backward", True, "tf32", "128x128", None),
    ),
    (
        "cutlass3x_sm100_tensorop_s64x256x32gemm_f8_f8_f32_f16_f16_64x256x128_1x1x1_0_tnn_align4"
        "_1sm_…",
        *("cutlass_3", "gemm", True, "fp8", "64x256x128", "sm100"),
    ),
    (
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16"
        "_stage4_warpsize2x2x1_g1_tensor16x8x8_alignc4_execute_kernel_cudnn",
        *("xmma", "convolution", True, "tf32", "128x128x16", "sm80"),
    ),
    (
        "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_…_execute_kernel_cudnn_train",
        *("xmma", "convolution_backward", None, "tf32", None, "sm80"),
    ),
    ("ampere_sgemm_128x64_nn", "cublas_gemm", "gemm", False, "fp32", "128x64", "ampere"),
    ("ampere_sgemm_32x32_sliced1x4_tn", "cublas_gemm", "gemm", False, "fp32", "32x32", "ampere"),
    ("ampere_gcgemm_64x64_nt", "cublas_gemm", "gemm", False, "complex64", "64x64", "ampere"),
    ("volta_sgemm_32x128_nn", "cublas_gemm", "gemm", False, "fp32", "32x128", "volta"),
    (
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn",
        *("cublas_gemm", "gemm", True, "bf16", "128x256", "ampere"),
    ),
    (
        "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_nn",
        *("cublas_gemm", "gemm", True, "bf16", "128x128", "ampere"),
    ),
    (
        "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_relu_f2f_stages_64x6_tn",
        *("cublas_gemm", "gemm", True, "fp16", "64x64", "ampere"),
    ),
    (
        "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT",
        *("nvjet", "gemm", True, "bf16", "64x64", None),
    ),
    ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "nvjet", "gemm", True, "bf16", "192x8", None),
    ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet", "gemm", True, "fp16", "256x128", None),
    ("nvjet_sm90_hss_128x8_64x12_4x1_v_bz_TNN", "nvjet", "gemm", True, "fp16", "128x8", "sm90"),
    ("nvjet_qqtst_128x256_128x4_2x1_v_bz_TNT", "nvjet", "gemm", True, "fp8", "128x256", None),
    (
        "void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, …>",
        *("cublas_helper", "splitk_reduce", False, "bf16", None, None),
    ),
    (
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, …, 128, 16, 4, 4, …>",
        *("cublas_helper", "gemv", False, "bf16", None, None),
    ),
    (
        ATEN + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, …>",
        *("pytorch_elementwise", "add", False, "bf16", None, None),
    ),
    (
        ATEN + "vectorized_elementwise_kernel<8, at::native::FillFunctor<c10::BFloat16>, …>",
        *("pytorch_elementwise", "fill", False, "bf16", None, None),
    ),
    (
        ATEN + "elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
        "at::native::direct_copy_kernel_cuda…>>",
        *("pytorch_elementwise", "copy", False, None, None, None),
    ),
    (
        ATEN + "unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda…>",
        *("pytorch_elementwise", "copy", False, None, None, None),
    ),
    (
        ATEN + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float,"
        " float, float>, unsigned int, float, 4>>",
        *("pytorch_reduce", "mean", False, "fp32", None, None),
    ),
    (
        ATEN + "index_elementwise_kernel<128, 4, …OpaqueType<2>…>",
        *("pytorch_elementwise", "index", False, None, None, None),
    ),
    (
        ATEN + "(anonymous namespace)::cunn_SoftMaxForward<8, c10::Half, float, c10::Half, …"
        "SoftMaxForwardEpilogue>",
        *("pytorch_softmax", "softmax", False, "fp16", None, None),
    ),
    (
        "at::native::triu_tril_kernel<c10::Half, int, true, 4, false>",
        *("pytorch_triu_tril", "triu", False, "fp16", None, None),
    ),
    (
        "at::native::triu_tril_kernel<float, int, false, 2, false>",
        *("pytorch_triu_tril", "tril", False, "fp32", None, None),
    ),
    (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, "
        "4, false, false, cutlass::bfloat16_t, …>>",
        *("flash_attention_2", "attention", True, "bf16", "128x128", None),
    ),
    (
        "flash::flash_fwd_splitkv_kernel<…256,64,64,4…>",
        *("flash_attention_2", "attention", True, None, "64x64", None),
    ),
    (
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<"
        "pytorch_flash::Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, "
        "cutlass::half_t>>",
        *("flash_attention_2", "attention_backward", True, "fp16", "128x128", None),
    ),
    (
        "fmha_cutlassF_f16_aligned_64x128_rf_sm80(PyTorchMemE…)",
        *("mem_efficient", "attention", True, "fp16", "64x128", "sm80"),
    ),
    (FMHA, "mem_efficient", "attention", True, "bf16", "64x64", "sm80"),
    (
        "fmha_cutlassB_f32_aligned_64x64_k32_sm80(AttentionBa…)",
        *("mem_efficient", "attention_backward", None, "fp32", "64x64", "sm80"),
    ),
    (CUDNN, "cudnn_sdpa", "attention", True, "16-bit", "128x64x64", "sm80"),
    (
        SDPA.format("fort_native", "sm90", "fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1"),
        *("cudnn_sdpa", "attention", True, "16-bit", "64x128x128", "sm90"),
    ),
    (
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x…",
        *("cudnn_sdpa", "attention_backward", True, "16-bit", "64x64x128", "sm90"),
    ),
    (
        SDPA.format("fort_native", "sm100", "fprop_f16_knob_7_128x128x128_4x1x1_cga1x1x1"),
        *("cudnn_sdpa", "attention", True, "16-bit", "128x128x128", "sm100"),
    ),
    (
        SDPA.format("oss", "sm100", "fprop_f16_knob_7_128x128x64_4x1x1_cga1x1x1"),
        *("cudnn_sdpa", "attention", True, "16-bit", "128x128x64", "sm100"),
    ),
    (FA3, "flash_attention_3", "attention", True, None, "64x128x128", "sm90"),
    (FA4, "flash_attention_4", "attention", True, None, None, "sm100"),
    (
        "flash_fwd_sm100_bf16_head_dim128_tile128x128_threads384_causal_kernel_cutlass_0",
        *("flash_attention_4", "attention", True, "bf16", "128x128", "sm100"),
    ),
    (
        "triton_tem_fused_flex_attention_0",
        *("inductor_triton", "attention", True, None, None, None),
    ),
    (
        "triton_poi_fused_add_cos_sin_0",
        *("inductor_triton", "fused_pointwise", False, None, None, None),
    ),
    (
        "triton_poi_fused_add_bitwise_and_bitwise_not_bitwise_or_ge_lt_mul_sub_0",
        *("inductor_triton", "fused_pointwise", False, None, None, None),
    ),
    ("triton__0d1d2d3d", "inductor_triton", "unknown", None, None, None, None),
    (TRTLLM_FMHA, "trtllm_gen", "attention", True, "fp8", None, "sm100"),
    (TRTLLM_BMM, "trtllm_gen", "gemm", True, None, None, "sm100"),
    ("ncclDevKernel_AllGather_RING_LL", "nccl", "AllGather", None, None, None, None),
    ("ncclKernel_AllReduce_RING_LL_Sum_float", "nccl", "AllReduce", None, None, None, None),
    ("Memcpy DtoD (Device -> Device)", "memcpy", "memcpy", False, None, None, None),
    ("Memcpy HtoD (Pageable -> Device)", "memcpy", "memcpy", False, None, None, None),
    ("Memset (Device)", "memset", "memset", False, None, None, None),
    ("CopyHostToDevice", "memcpy", "memcpy", False, None, None, None),
    (
        "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>",
        *("cudnn", "attention_backward", False, None, None, None),
    ),
]

SHORT = [
    (FMHA, "fmha_cutlassF bf16 64x64"),
    (CUDNN, "cuDNN SDPA sm80 wmma knob 6"),
    ("nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "nvjet_tst 128x256"),
    ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
    ("Memset (Device)", "Memset"),
    ("ampere_sgemm_128x64_nn", "ampere sgemm 128x64"),
    ("void (anonymous namespace)::my_kernel<int, float>(int*, float)", "my_kernel"),
    ("void mine::outer<other::type<float>>::run(int)", "outer"),
    ("_ZN4mine9my_kernelIfEEvPT_", "my_kernel"),
    ("_attn_fwd", "_attn_fwd"),
    ("", "(unnamed)"),
    ("   ", "(unnamed)"),
]


@pytest.mark.parametrize("case", REAL, ids=lambda case: case[0][:48])
def test_real_names(case: tuple[str, str, str, bool | None, str | None, str | None, str]) -> None:
    name = decode(case[0])
    assert (
        name.full,
        name.family,
        name.operation,
        name.uses_tensor_cores,
        name.dtype,
        name.tile,
        name.architecture,
    ) == case


@pytest.mark.parametrize(("full", "short"), SHORT)
def test_short_names(full: str, short: str) -> None:
    assert decode(full).short == short


def activities() -> Iterator[str]:
    for path in sorted((DATA / "h200-traces").glob("*.json.gz")):
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                yield event["name"]


def ncu_names() -> list[str]:
    with (DATA / "ncu_h200_8x16x1024x64_bf16.csv").open(newline="") as file:
        return [row["kernel"] for row in csv.DictReader(file)]


@pytest.mark.parametrize("name", sorted({*activities(), *ncu_names()}), ids=lambda name: name[:60])
def test_every_recorded_name_is_known(name: str) -> None:
    decoded = decode(name)
    assert decoded.full == name
    assert "unknown" not in (decoded.family, decoded.library, decoded.operation)
    assert decoded.uses_tensor_cores is not None
    assert 0 < len(decoded.short) <= SHORT_LENGTH


def test_labels_of_the_recorded_kernels() -> None:
    assert {decode(name).short for name in activities()} == {
        "Memcpy DtoD",
        "Memset",
        "add fp32",
        "cast to bf16",
        "cast to fp32",
        "cuDNN SDPA sm90 wgmma knob 7",
        "fill bool",
        "fill fp32",
        "flash_fwd hd64 128x128",
        "fmha_cutlassF bf16 64x64",
        "isneginf fp32",
        "masked_fill bf16",
        "mul bf16",
        "mul fp32",
        "nvjet_tst 256x128",
        "nvjet_tst 64x16",
        "nvjet_tst 64x512",
        "nvjet_tst 64x8",
        "reduce all bool",
        "softmax_warp_forward<bf16>",
        "softmax_warp_forward<fp32>",
        "tril bool",
        "triton_per softmax_exp_masked_fill_mul_prepare_…",
        "triton_red softmax_exp_masked_fill_mul_prepare_…",
        "triton_tem flex_attention",
        "where fp32",
        "xmma_gemm fp32 128x128x8",
        "xmma_gemm fp32 32x32x8",
        "xmma_gemm fp32 64x64x8",
    }


def test_fp32_products_on_an_h200_run_on_cuda_cores() -> None:
    xmma = [decode(name) for name in activities() if "_xmma_gemm_f32f32" in name]
    assert xmma
    assert {(name.uses_tensor_cores, name.dtype) for name in xmma} == {(False, "fp32")}


def test_nsight_compute_spells_the_same_operations() -> None:
    """Its names lack `native::` and write lambdas in other brackets."""
    operations = {decode(name).operation for name in ncu_names()}
    assert operations == {
        "attention",
        "cast",
        "mul",
        "fill",
        "tril",
        "where",
        "gemm",
        "add",
        "softmax",
        "isneginf",
        "all",
    }


@pytest.mark.parametrize("full", [FMHA, CUDNN])
def test_every_token_is_explained(full: str) -> None:
    tokens = decode(full).tokens
    assert "_".join(token.text for token in tokens) == full
    assert all(token.meaning and token.meaning != "not documented" for token in tokens)


def test_undocumented_grammars_are_marked() -> None:
    meanings = {token.text: token.meaning for token in decode(CUDNN).tokens}
    for piece in ("fort_native", "f16", "knob_6", "128x64x64", "4x1x1", "cga1x1x1", "kernel0_0"):
        assert meanings[piece].startswith("inferred: ")
    nvjet = decode("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT").tokens
    assert all(token.meaning.startswith("inferred: ") for token in nvjet[1:])


def test_tokens_of_a_template() -> None:
    name = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, float, float, 7, false>"
    texts = [token.text for token in decode(name).tokens]
    assert texts == ["softmax_warp_forward", "c10::BFloat16", "float", "float", "7", "false"]


def test_log_softmax_is_told_apart() -> None:
    template = "softmax_warp_forward<float, float, float, 7, {}, false>"
    assert decode(template.format("false")).operation == "softmax"
    assert decode(template.format("true")).operation == "log_softmax"


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        (ATEN + "vectorized_elementwise_kernel<4, at::native::exp_kernel_cuda(…)>", "exp"),
        (ATEN + "vectorized_elementwise_kernel<4, something_new>", "elementwise"),
        (ATEN + "reduce_kernel<512, 1, at::native::ReduceOp<float, something_new>>", "reduce"),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE",
            "fill",
        ),
        ("flash::flash_fwd_splitkv_combine_kernel<…>", "attention"),
        ("triton_tem_fused_mm_3", "gemm"),
        ("triton_tem_fused_flex_attention_backward_1", "attention_backward"),
        ("nvjet_future_name", "gemm"),
    ],
)
def test_operations(name: str, operation: str) -> None:
    assert decode(name).operation == operation


@pytest.mark.parametrize(
    "name",
    [
        "flash_fwd_kernel",  # anybody's Triton kernel may be called that
        "sdpa",
        "my_sgemm",
        "attention_kernel_bf16",
        "Cijk_Ailk_Bljk_BBS_BH_MT128x128x32",
    ],
)
def test_strangers_stay_unknown(name: str) -> None:
    assert decode(name) == KernelName(
        name, name, "unknown", "unknown", "unknown", None, None, None, None, ()
    )


@pytest.mark.parametrize(
    "template", ["80_tensorop_s16816gemm", "80_tensorop_h1688gemm", "75_tensorop_s1688gemm"]
)
def test_only_a_bare_single_precision_1688_of_sm80_is_tf32(template: str) -> None:
    name = decode(f"void cutlass::Kernel<cutlass_{template}_128x128_32x3_tn_align4>")
    assert (name.uses_tensor_cores, name.dtype) == (True, None)


def test_letters_that_nobody_inferred_give_no_type() -> None:
    name = decode("nvjet_xyz_64x64_64x16_2x1_v_bz_TNT")
    assert (name.family, name.dtype, name.uses_tensor_cores) == ("nvjet", None, None)


@pytest.mark.parametrize("unit", ["x", "void foo<", "at::", "lambda(", "at::elementwise_kernel1a"])
def test_very_long_names_are_kept_whole_and_read_fast(unit: str) -> None:
    full = (unit * 5000)[:5000]
    begin = time.perf_counter()
    name = decode(full)
    assert time.perf_counter() - begin < 1  # against catastrophic backtracking
    assert name.full == full
    assert len(name.short) <= SHORT_LENGTH


pieces = st.sampled_from(
    ["at::native::", "elementwise_kernel", "_kernel", "Functor", "<", ">", "(", ")", ",", "_", "1x"]
    + ["cudnn_generated_", "sdpa_sm90_flash_fprop", "nvjet", "_tst_64x8", "cutlass_", "simt_sgemm"]
    + ["_Z", "N999", "softmax_warp_forward", "triton_", "poi", "lambda(", "Memcpy", " ", "reduce_"]
    + ["flash::", "flash_fwd", "FlashAttnFwdSm90", "ampere_", "sm80_xmma_gemm", "gemm", "…", "\0"]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=20).map("".join)))
def test_no_text_raises(text: str) -> None:
    name = decode(text)
    assert name.full == text
    assert 0 < len(name.short) <= SHORT_LENGTH
    assert name.family == "unknown" or name.family in {family.key for family in FAMILIES}


def test_decode_is_cached() -> None:
    assert decode(FMHA) is decode(FMHA)
