#include "engine/ops/cpu/gemm/gemm_onednn.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "engine/core/tensor/parallel_for.h"
#include "engine/ops/cpu/gemm/gemm_case.h"
#include "engine/ops/cpu/gemm/onednn_matmul.h"
#include "engine/ops/cpu/simd/kernels.h"

namespace longhaul {

// One compiled primitive per case; nullopt where oneDNN refused or would only emulate. Experts have another number of
// rows in every batch: what was used longest ago is forgotten.
struct GemmCache {
  struct Entry {
    dnnl::matmul primitive;
    dnnl::memory a, b, c;  // descriptors with a handle that is set per call
    dnnl::memory scratchpad;
    dnnl::memory bias = {};
  };
  struct Slot {
    std::optional<Entry> entry;
    std::uint64_t last_use = 0;
  };
  static constexpr std::size_t entries_max = 256;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<cpu::GemmCase, Slot> entries;
  std::uint64_t uses = 0;
  std::optional<cpu::ProductMeans> means;  // asked for once

  GemmCache() { dnnl::set_primitive_cache_capacity(0); }  // oneDNN's own would keep what is forgotten here
  void forget_oldest() {
    entries.erase(std::min_element(entries.begin(), entries.end(),
                                   [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
  }
};

namespace cpu {
namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// Logical [rows, columns] of a matrix stored row by row, or transposed.
memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t stride, DType dtype) {
  const memory::dims strides = transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  return {{rows, columns}, type_of(dtype), strides};
}

memory::desc bias_of(const GemmCase& c) {
  return {{1, c.n}, type_of(c.c), memory::format_tag::ab};
}

// Throws where oneDNN has nothing for the case.
dnnl::matmul::primitive_desc description_of(const GemmCache& cache, const GemmCase& c) {
  const memory::desc a = matrix(c.m, c.k, c.transpose_a, c.row_stride_a, c.ab);
  const memory::desc b = matrix(c.k, c.n, c.transpose_b, c.row_stride_b, c.ab);
  const memory::desc out = matrix(c.m, c.n, false, c.row_stride_c, c.c);
  dnnl::primitive_attr attributes;
  scale_and_add(attributes, c.alpha, c.beta);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return describe_matmul(cache.engine, a, b, c.bias ? bias_of(c) : memory::desc(), out, attributes);
}

bool is_reference(const std::string& implementation) {
  return implementation.find("ref") != std::string::npos;
}

std::optional<GemmCache::Entry> compile(GemmCache& cache, const GemmCase& c) {
  try {
    const dnnl::matmul::primitive_desc description = description_of(cache, c);
    if (is_reference(description.impl_info_str())) return std::nullopt;
    return GemmCache::Entry{dnnl::matmul(description),
                            memory(description.src_desc(), cache.engine, nullptr),
                            memory(description.weights_desc(), cache.engine, nullptr),
                            memory(description.dst_desc(), cache.engine, nullptr),
                            memory(description.scratchpad_desc(), cache.engine, nullptr),
                            c.bias ? memory(bias_of(c), cache.engine, nullptr) : memory()};
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

GemmCache& cache_of(const ComputeContext& context) {
  std::shared_ptr<GemmCache>& cache = context.gemm_cache();
  if (!cache) cache = std::make_shared<GemmCache>();
  use_threads_of(context);  // a primitive is compiled for a number of threads
  return *cache;
}

std::optional<GemmCache::Entry>& entry_of(const ComputeContext& context, const GemmCase& c) {
  GemmCache& cache = cache_of(context);
  auto place = cache.entries.find(c);
  if (place == cache.entries.end()) {
    if (cache.entries.size() >= GemmCache::entries_max) cache.forget_oldest();
    place = cache.entries.emplace(c, GemmCache::Slot{compile(cache, c)}).first;
  }
  place->second.last_use = ++cache.uses;
  return place->second.entry;
}

// The implementation that a layer's usual product gets, by the library's name for it; empty: none. It stands for the
// other cases of the type.
std::string implementation_of(const ComputeContext& context, DType ab) {
  GemmShape layer{.m = 256, .n = 256, .k = 256};
  layer.transpose_b = true;
  try {
    return description_of(cache_of(context), gemm_case(layer, ab, ab)).impl_info_str();
  } catch (const dnnl::error&) {
    return {};
  }
}

#if defined(__aarch64__)
// linux/arch/arm64/include/uapi/asm/hwcap.h: HWCAP2_BF16, which BFMMLA and BFDOT come with.
bool processor_multiplies_bf16(const ComputeContext&) {
  return (getauxval(AT_HWCAP2) & (1UL << 14)) != 0;
}
#else
bool processor_multiplies_bf16(const ComputeContext& context) {
  return kernels(context).level >= CpuLevel::avx512_bf16 && library_multiplies_bf16();
}
#endif

}  // namespace

// "brg:avx512_core" generates code for the case's sizes (batch-reduce GEMM); "gemm:jit" has been generated once for
// all.
bool onednn_compiles(const ComputeContext& context, DType ab) {
  return implementation_of(context, ab).find("brg") != std::string::npos;
}

ProductMeans product_means(const ComputeContext& context) {
  ProductMeans means;
  means.library_allowed = context.cpu_level() == CpuLevel::best;
  if (!means.library_allowed) return means;
  std::optional<ProductMeans>& known = cache_of(context).means;
  if (!known) {
    const auto has = [&](DType ab) {
      const std::string name = implementation_of(context, ab);
      return !name.empty() && !is_reference(name);
    };
    means.multiplies_bf16 = processor_multiplies_bf16(context);
    means.library_f32 = has(DType::f32), means.library_bf16 = has(DType::bf16);
    known = means;
  }
  return *known;
}

std::string onednn_level() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return "all";  // what this oneDNN has no name for; on Arm there are none
  }
}

bool onednn_gemm(const ComputeContext& context, const GemmShape& shape, ConstView a, ConstView b, View c,
                 ConstView bias) {
  std::optional<GemmCache::Entry>& entry = entry_of(context, gemm_case(shape, a.dtype(), c.dtype(), !bias.empty()));
  if (!entry) return false;
  try {
    entry->a.set_data_handle(const_cast<void*>(a.data()));
    entry->b.set_data_handle(const_cast<void*>(b.data()));
    entry->c.set_data_handle(c.data());
    constexpr int product_scratch = 3;  // a slot that no other operation uses
    const auto bytes = static_cast<std::int64_t>(entry->scratchpad.get_desc().get_size());
    entry->scratchpad.set_data_handle(bytes > 0 ? context.scratch(product_scratch, bytes) : nullptr);
    dnnl::stream& stream = context.gemm_cache()->stream;
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, entry->a},
                                                 {DNNL_ARG_WEIGHTS, entry->b},
                                                 {DNNL_ARG_DST, entry->c},
                                                 {DNNL_ARG_SCRATCHPAD, entry->scratchpad}};
    if (!bias.empty()) {
      entry->bias.set_data_handle(const_cast<void*>(bias.data()));
      arguments.emplace(DNNL_ARG_BIAS, entry->bias);
    }
    entry->primitive.execute(stream, arguments);
    stream.wait();
  } catch (const dnnl::error& error) {
    LH_ASSERT(false, std::string("oneDNN matmul failed: ") + error.what());
  }
  return true;
}

}  // namespace cpu
}  // namespace longhaul
