// oneDNN's matrix product as both of its interfaces describe it: release 2 (Debian 12) and release 3 (Debian 13). The
// only place where the two differ here.
#pragma once

#include <dnnl.hpp>

namespace longhaul::cpu {

// Throws dnnl::error where the library has nothing for the case. bias: empty, or [1, n] in c's type.
inline dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                                    const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                                                    const dnnl::memory::desc& c,
                                                    const dnnl::primitive_attr& attributes = {}) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias.get_size() > 0) return {engine, a, b, bias, c, attributes};
  return {engine, a, b, c, attributes};
#else
  if (bias.get_size() > 0) return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

// c = alpha * product + beta * c.
inline void scale_and_add(dnnl::primitive_attr& attributes, float alpha, float beta) {
  dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
  if (alpha != 1.0F) after.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0.0F);
#else
  if (alpha != 1.0F) attributes.set_output_scales(0, {alpha});
#endif
  if (beta != 0.0F) after.append_sum(beta);
  if (after.len() > 0) attributes.set_post_ops(after);
}

// May the library use an instruction that multiplies bf16? It knows only of x86-64.
inline bool library_multiplies_bf16() {
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (has & wanted) == wanted;
}

}  // namespace longhaul::cpu
