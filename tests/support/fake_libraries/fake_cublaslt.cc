// A stand-in for cuBLASLt, built as a shared library and opened in the place of the real one. Matrices lie in memory of
// an emulated GPU, which is the host's; sums are f64. At least as strict as the real library:
//   - attributes of descriptions, layouts and preferences have the numbers and sizes that the real one takes (a test
//     asks both); anything else is CUBLAS_STATUS_INVALID_VALUE;
//   - types, epilogues, scales and formats of eight bits that go together are those of the tables of NVIDIA's
//     documentation (cuBLAS 13, "cublasLtMatmul()" and "Narrow Precision Data Types Usage"); another combination is
//     CUBLAS_STATUS_NOT_SUPPORTED;
//   - stricter than it: operands of eight bits need pointers to their scales (the real one takes 1 for a missing one),
//     and m, n and k that are multiples of 16 (it asks that of bytes along rows alone); an algorithm is good for the
//     description, layouts and alignment alone that it was asked for with.
// Where the caller lets algorithms add parts of sums as they come, this one does, and two products differ.
#include "tests/support/fake_libraries/fake_cublaslt.h"

#include <cublasLt.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/core/tensor/dtype.h"

namespace {

using Index = std::int64_t;

// Attributes that were set, by number.
struct Attributes {
  std::map<int, std::uint64_t> values;
  template <class T>
  T get(int attribute, T otherwise) const {
    const auto found = values.find(attribute);
    if (found == values.end()) return otherwise;
    T value;
    std::memcpy(&value, &found->second, sizeof value);
    return value;
  }
};
struct Description : Attributes {
  int compute = 0, scale = 0;
};
struct Layout : Attributes {
  int type = 0;
  Index rows = 0, columns = 0, ld = 0;
};
struct Preference : Attributes {};

struct Process {
  std::mutex mutex;
  int capability = 90;
  std::size_t version = CUBLAS_VERSION;
  FakeCublasLtCounts counts{};
  std::set<const void*> alive;
  std::string refusal;
};
Process& process() {
  static Process one;
  return one;
}

cublasStatus_t refuse(cublasStatus_t status, std::string why) {
  process().refusal = std::move(why);
  return status;
}
cublasStatus_t invalid(std::string why) {
  return refuse(CUBLAS_STATUS_INVALID_VALUE, std::move(why));
}
cublasStatus_t unsupported(std::string why) {
  return refuse(CUBLAS_STATUS_NOT_SUPPORTED, std::move(why));
}

template <class T, class Handle>
cublasStatus_t make(Handle* handle, T made) {
  if (handle == nullptr) return invalid("no place for a handle");
  const std::lock_guard lock(process().mutex);
  T* const one = new T(std::move(made));
  process().alive.insert(one);
  *handle = reinterpret_cast<Handle>(one);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T, class Handle>
cublasStatus_t destroy(Handle handle) {
  const std::lock_guard lock(process().mutex);
  if (process().alive.erase(handle) == 0) return invalid("destroyed twice, or never made");
  delete reinterpret_cast<T*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
bool is_alive(const void* handle) {
  return process().alive.count(handle) > 0;
}

cublasStatus_t set_attribute(Attributes& to, const std::map<int, std::size_t>& sizes, int attribute, const void* value,
                             std::size_t bytes) {
  const auto known = sizes.find(attribute);
  if (known == sizes.end()) return invalid("no attribute " + std::to_string(attribute));
  if (known->second != bytes || value == nullptr)
    return invalid("attribute " + std::to_string(attribute) + " has " + std::to_string(known->second) + " bytes");
  std::uint64_t stored = 0;
  std::memcpy(&stored, value, bytes);
  to.values[attribute] = stored;
  return CUBLAS_STATUS_SUCCESS;
}

// As the library of CUDA 13.0 takes them.
const std::map<int, std::size_t>& description_sizes() {
  static const std::map<int, std::size_t> sizes{
      {0, 4},  {1, 4},  {2, 4},  {3, 4},  {4, 4},  {5, 4},  {6, 4},  {7, 4},  {8, 8},  {10, 8}, {11, 8}, {12, 8},
      {13, 8}, {14, 8}, {15, 4}, {16, 4}, {17, 8}, {18, 8}, {19, 8}, {20, 8}, {21, 8}, {22, 4}, {23, 8}, {24, 8},
      {25, 1}, {26, 4}, {31, 4}, {32, 4}, {33, 4}, {34, 4}, {35, 4}, {36, 8}, {37, 4}, {38, 8}};
  return sizes;
}
const std::map<int, std::size_t>& layout_sizes() {
  static const std::map<int, std::size_t> sizes{{0, 4}, {1, 4}, {2, 8}, {3, 8}, {4, 8}, {5, 4}, {6, 8}, {7, 8}, {8, 4}};
  return sizes;
}
const std::map<int, std::size_t>& preference_sizes() {
  static const std::map<int, std::size_t> sizes{{0, 4}, {1, 8}, {3, 4}, {5, 4}, {6, 4},
                                                {7, 4}, {8, 4}, {9, 4}, {12, 8}};
  return sizes;
}

bool is_fp8(int type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}
Index bytes_of(int type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1;
}
// Written from OCP's definitions (8-bit floating point 1.0, Microscaling formats 1.0) and not from the product's: what
// these take for a number the product has to mean.
double value_of_fp8(std::uint8_t code, int exponent_bits) {
  const int mantissa_bits = 7 - exponent_bits, mantissas = 1 << mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = code % 128 / mantissas, mantissa = code % mantissas, last = (1 << exponent_bits) - 1;
  const double sign = code < 128 ? 1.0 : -1.0;
  if (exponent_bits == 5 && exponent == last) return mantissa == 0 ? sign * INFINITY : std::nan("");
  if (exponent_bits == 4 && exponent == last && mantissa == mantissas - 1) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissas + mantissa, exponent - bias - mantissa_bits);
}
double value_of_ue8m0(std::uint8_t code) {
  return code == 255 ? std::nan("") : std::ldexp(1.0, code - 127);
}
double element(const void* data, int type, Index i) {
  switch (type) {
    case CUDA_R_32F: return static_cast<double>(static_cast<const float*>(data)[i]);
    case CUDA_R_16BF: return static_cast<double>(static_cast<float>(static_cast<const longhaul::bf16*>(data)[i]));
    default: break;
  }
  return value_of_fp8(static_cast<const std::uint8_t*>(data)[i], type == CUDA_R_8F_E4M3 ? 4 : 5);
}
void store(double value, void* data, int type, Index i) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = static_cast<float>(value);
  else
    static_cast<longhaul::bf16*>(data)[i] = longhaul::bf16(static_cast<float>(value));
}

// A product as its description and layouts have it.
struct Product {
  bool transpose_a = false, transpose_b = false, fast = false;
  Layout a, b, c;
  Index m = 0, n = 0, k = 0;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* before = nullptr;
  Index ld_before = 0;
  int scale_mode_a = 0, scale_mode_b = 0;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;

  bool fp8() const { return is_fp8(a.type) || is_fp8(b.type); }
  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_before() const { return (epilogue & 128U) != 0; }
};

bool aligned(const void* address, std::uintptr_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

cublasStatus_t read_layouts(const Description& d, const Layout& a, const Layout& b, const Layout& c,
                            const Layout& result, Product& p) {
  for (const Layout* one : {&a, &b, &c, &result}) {
    if (one->get<int>(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL) != CUBLASLT_ORDER_COL ||
        one->get<int>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1) != 1)
      return unsupported("orders but columns', and batches, are not here");
    if (one->rows <= 0 || one->columns <= 0 || one->ld < one->rows) return invalid("a layout of no matrix");
  }
  if (c.type != result.type || c.rows != result.rows || c.columns != result.columns)
    return invalid("C and D differ in type or size");
  const int ta = d.get<int>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N);
  const int tb = d.get<int>(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (ta < 0 || ta > CUBLAS_OP_T || tb < 0 || tb > CUBLAS_OP_T) return invalid("a transposition of no kind");
  p.transpose_a = ta == CUBLAS_OP_T, p.transpose_b = tb == CUBLAS_OP_T;
  p.a = a, p.b = b, p.c = result;
  p.m = result.rows, p.n = result.columns, p.k = p.transpose_a ? a.rows : a.columns;
  if ((p.transpose_a ? a.columns : a.rows) != p.m || (p.transpose_b ? b.columns : b.rows) != p.k ||
      (p.transpose_b ? b.rows : b.columns) != p.n)
    return invalid("sizes of the matrices do not go together");
  return CUBLAS_STATUS_SUCCESS;
}

// cuBLAS 13, cublasLtMatmul(), tables of the types.
cublasStatus_t check_types(const Description& d, const Product& p) {
  if (d.compute != CUBLAS_COMPUTE_32F || d.scale != CUDA_R_32F) return unsupported("sums in f32 alone are here");
  if (d.get<int>(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST) != CUBLASLT_POINTER_MODE_HOST)
    return unsupported("alpha and beta of the host alone are here");
  if (is_fp8(p.c.type)) return unsupported("results of eight bits are not here, and none may be added to");
  const bool wide = p.c.type == CUDA_R_32F, narrow = p.c.type == CUDA_R_16BF;
  if (!wide && !narrow) return unsupported("the type of C");
  if (p.fp8()) {
    if (!is_fp8(p.a.type) || !is_fp8(p.b.type)) return unsupported("one operand of eight bits and one of more");
    if (p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2) return unsupported("E5M2 times E5M2");
    return CUBLAS_STATUS_SUCCESS;
  }
  const bool known = p.a.type == p.b.type && ((p.a.type == CUDA_R_32F && wide) || p.a.type == CUDA_R_16BF);
  return known ? CUBLAS_STATUS_SUCCESS : unsupported("types that do not go together");
}

cublasStatus_t read_epilogue(const Description& d, Product& p) {
  p.epilogue = d.get<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const std::set<std::uint32_t> here{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                     CUBLASLT_EPILOGUE_DGELU};
  if (here.count(p.epilogue) == 0) return unsupported("epilogue " + std::to_string(p.epilogue));
  if (p.has_bias()) {
    p.bias = d.get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
    if (p.bias == nullptr) return invalid("a bias without a pointer");
    // Of D's type, but for products of eight bits with results in f32.
    const int wanted = p.fp8() ? static_cast<int>(CUDA_R_16BF) : p.c.type;
    const int given = d.get<int>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1);
    if ((given == -1 ? p.c.type : given) != wanted) return unsupported("the type of the bias");
    if (!aligned(p.bias, 16)) return unsupported("a bias that does not begin at a multiple of 16 bytes");
  }
  if (p.has_before()) {
    if (p.fp8()) return unsupported("GELU with operands of eight bits");
    p.before = d.get<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
    p.ld_before = d.get<Index>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
    if (p.before == nullptr) return invalid("an epilogue without its second matrix");
    if (p.ld_before % 8 != 0 || p.ld_before < p.m) return invalid("the leading dimension of the second matrix");
    const int type = d.get<int>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, -1);
    if (type != -1 && type != p.c.type) return unsupported("the type of the second matrix");
    if (!aligned(p.before, 16)) return unsupported("a second matrix that does not begin at a multiple of 16 bytes");
  }
  return CUBLAS_STATUS_SUCCESS;
}

// "Scaling Mode Support Overview", and the table of what goes together in 3.1.4.5.
cublasStatus_t check_scale_modes(const Product& p) {
  const int capability = process().capability;
  const auto is = [&](int mode) { return p.scale_mode_a == mode || p.scale_mode_b == mode; };
  if (p.scale_mode_a == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F && p.scale_mode_b == p.scale_mode_a)
    return CUBLAS_STATUS_SUCCESS;
  if (p.scale_mode_a == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 && p.scale_mode_b == p.scale_mode_a) {
    if (process().version < 120800 || capability < 100) return unsupported("scales of 32 before Blackwell");
  } else if ((is(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F) || is(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F)) &&
             !is(CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) && !is(CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0)) {
    if (process().version < 120900 || capability != 90)
      return unsupported("scales of 128 are Hopper's and CUDA 12.9's");
    if (!is(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)) return unsupported("squares times squares");
    if (p.fast) return unsupported("fast sums with scales of blocks");
    if (p.m % 4 != 0 || p.n % 4 != 0) return unsupported("m and n must be multiples of 4");
  } else {
    return unsupported("scales that do not go together");
  }
  if (!aligned(p.scale_a, 16) || !aligned(p.scale_b, 16)) return invalid("scales begin at multiples of 16 bytes");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t read_scales(const Description& d, Product& p) {
  const auto pointer = [&](int attribute) { return d.get<const void*>(attribute, nullptr); };
  p.scale_a = pointer(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), p.scale_b = pointer(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
  p.scale_mode_a = d.get<int>(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 0);
  p.scale_mode_b = d.get<int>(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 0);
  p.fast = d.get<std::int8_t>(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 0) != 0;
  for (const int other : {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
                          CUBLASLT_MATMUL_DESC_AMAX_D_POINTER})
    if (pointer(other) != nullptr) return invalid("a scale of C or D, which are of more than eight bits");
  if (!p.fp8()) {
    if (p.scale_a != nullptr || p.scale_b != nullptr) return invalid("scales of operands of more than eight bits");
    return CUBLAS_STATUS_SUCCESS;
  }
  const int capability = process().capability;
  if (capability < 89) return unsupported("a GPU that does not multiply numbers of eight bits");
  const bool any_order = capability >= 100 && capability < 120;
  if (!any_order && (!p.transpose_a || p.transpose_b)) return unsupported("A transposed and B not is the only way");
  if (p.m % 16 != 0 || p.n % 16 != 0 || p.k % 16 != 0) return unsupported("m, n and k must be multiples of 16");
  if (p.a.ld % 16 != 0 || p.b.ld % 16 != 0 || p.c.ld * bytes_of(p.c.type) % 16 != 0)
    return unsupported("rows that do not begin at multiples of 16 bytes");
  if (p.scale_a == nullptr || p.scale_b == nullptr) return invalid("operands of eight bits without their scales");
  return check_scale_modes(p);
}

cublasStatus_t read_product(cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, Product& p) {
  for (const void* handle : {static_cast<const void*>(description), static_cast<const void*>(a),
                             static_cast<const void*>(b), static_cast<const void*>(c), static_cast<const void*>(d)})
    if (!is_alive(handle)) return invalid("a description or layout that is not there");
  const auto& of = *reinterpret_cast<const Description*>(description);
  const auto layout = [](cublasLtMatrixLayout_t one) -> const Layout& { return *reinterpret_cast<Layout*>(one); };
  if (const auto status = read_layouts(of, layout(a), layout(b), layout(c), layout(d), p); status != 0) return status;
  if (const auto status = check_types(of, p); status != 0) return status;
  if (const auto status = read_epilogue(of, p); status != 0) return status;
  return read_scales(of, p);
}

// What an algorithm was asked for with, so that it is used for nothing else.
std::uint64_t mark_of(const Product& p) {
  std::uint64_t mark = 1469598103934665603ULL;
  for (const Index part : {Index{p.transpose_a}, Index{p.transpose_b}, Index{p.fast}, Index{p.a.type}, Index{p.b.type},
                           Index{p.c.type}, p.a.ld, p.b.ld, p.c.ld, p.m, p.n, p.k, Index{p.epilogue}, p.ld_before,
                           Index{p.scale_mode_a}, Index{p.scale_mode_b}})
    mark = (mark ^ static_cast<std::uint64_t>(part)) * 1099511628211ULL;
  return mark;
}

constexpr std::uint64_t workspace_wanted = 1024;

// Of row `outer` of an operand whose sums go over `inner`; 3.1.4.4.2 and 3.1.4.5.1.
double scale_of(const void* scales, int mode, Index outer, Index inner, Index outers, Index inners) {
  const auto* const floats = static_cast<const float*>(scales);
  const Index along = inner / 128, four = ((inners + 127) / 128 + 3) / 4 * 4;
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F: return static_cast<double>(floats[along * outers + outer]);
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F: return static_cast<double>(floats[outer / 128 * four + along]);
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0: {
      const Index across = ((inners + 31) / 32 + 3) / 4, block = inner / 32;
      const Index tile = outer / 128 * across + block / 4;
      const Index place = tile * 512 + outer % 32 * 16 + outer % 128 / 32 * 4 + block % 4;
      return value_of_ue8m0(static_cast<const std::uint8_t*>(scales)[place]);
    }
    default: return static_cast<double>(floats[0]);
  }
}

// GELU in its tanh form, and its slope.
double gelu(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double s = 1 / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return s + 2 * x * s * (1 - s) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

// An operand as rows of what is summed over, with its scales.
std::vector<double> rows_of(const void* data, const Layout& layout, bool sums_along_columns, Index rows, Index k,
                            const void* scales, int mode) {
  std::vector<double> out(static_cast<std::size_t>(rows * k));
  for (Index r = 0; r < rows; ++r)
    for (Index i = 0; i < k; ++i) {
      const double value = element(data, layout.type, sums_along_columns ? i + r * layout.ld : r + i * layout.ld);
      out[static_cast<std::size_t>(r * k + i)] =
          scales == nullptr ? value : value * scale_of(scales, mode, r, i, rows, k);
    }
  return out;
}

void compute(const Product& p, double alpha, const void* a, const void* b, double beta, const void* c, Index ld_c,
             void* d, double tremor) {
  const std::vector<double> left = rows_of(a, p.a, p.transpose_a, p.m, p.k, p.scale_a, p.scale_mode_a);
  const std::vector<double> right = rows_of(b, p.b, !p.transpose_b, p.n, p.k, p.scale_b, p.scale_mode_b);
  for (Index j = 0; j < p.n; ++j)
    for (Index i = 0; i < p.m; ++i) {
      const double* const x = &left[static_cast<std::size_t>(i * p.k)];
      const double* const y = &right[static_cast<std::size_t>(j * p.k)];
      double value = 0;
      for (Index l = 0; l < p.k; ++l) value += x[l] * y[l];
      value *= alpha * (1 + tremor);
      if (beta != 0) value += beta * element(c, p.c.type, i + j * ld_c);
      if (p.has_bias()) value += element(p.bias, p.fp8() ? static_cast<int>(CUDA_R_16BF) : p.c.type, i);
      if (p.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        store(value, p.before, p.c.type, i + j * p.ld_before);
        value = gelu(value);
      } else if (p.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        value *= gelu_slope(element(p.before, p.c.type, i + j * p.ld_before));
      }
      store(value, d, p.c.type, i + j * p.c.ld);
    }
}

}  // namespace

// The opaque type that handles point to.
struct cublasLtContext {
  int unused = 0;
};

extern "C" {

void fake_cublaslt_become(int capability, std::size_t version) {
  const std::lock_guard lock(process().mutex);
  process().capability = capability, process().version = version;
  process().counts = {};
}
FakeCublasLtCounts fake_cublaslt_counts() {
  const std::lock_guard lock(process().mutex);
  FakeCublasLtCounts counts = process().counts;
  counts.alive = static_cast<std::int64_t>(process().alive.size());
  return counts;
}
const char* fake_cublaslt_refusal() {
  return process().refusal.c_str();
}

std::size_t cublasLtGetVersion() {
  return process().version;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the requested functionality is not supported";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    default: return "unrecognized status";
  }
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return make(handle, cublasLtContext{});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy<cublasLtContext>(handle);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return make(description, Description{{}, compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  return destroy<Description>(description);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t bytes) {
  if (!is_alive(description)) return invalid("a description that is not there");
  return set_attribute(*reinterpret_cast<Description*>(description), description_sizes(), what, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  return make(layout, Layout{{}, type, static_cast<Index>(rows), static_cast<Index>(columns), ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, std::size_t bytes) {
  if (!is_alive(layout)) return invalid("a layout that is not there");
  return set_attribute(*reinterpret_cast<Layout*>(layout), layout_sizes(), what, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    std::size_t bytes) {
  if (!is_alive(preference)) return invalid("a preference that is not there");
  return set_attribute(*reinterpret_cast<Preference*>(preference), preference_sizes(), what, value, bytes);
}

// An algorithm here: a mark of its product; the alignments that it counts on, four bytes each; how it adds; the
// workspace that it takes.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  const std::lock_guard lock(process().mutex);
  if (!is_alive(handle)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
  if (!is_alive(preference) || results == nullptr || count == nullptr || wanted < 1) return invalid("no results");
  *count = 0;
  Product p;
  if (const auto status = read_product(description, a, b, c, d, p); status != 0) return status;
  const auto& prefers = *reinterpret_cast<const Preference*>(preference);
  std::array<std::uint32_t, 4> alignment{};
  const std::array<Index, 4> least{bytes_of(p.a.type), bytes_of(p.b.type), bytes_of(p.c.type), bytes_of(p.c.type)};
  for (int i = 0; i < 4; ++i) {
    auto& one = alignment[static_cast<std::size_t>(i)];
    one = prefers.get<std::uint32_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, 256);
    if (one == 0 || (one & (one - 1)) != 0 || one < least[static_cast<std::size_t>(i)])
      return invalid("an alignment of " + std::to_string(one));
    if (p.fp8() && one < 16) return unsupported("operands of eight bits begin at multiples of 16 bytes");
  }
  const auto reduction =
      prefers.get<std::uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_MASK);
  const auto workspace = prefers.get<std::uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
  cublasLtMatmulHeuristicResult_t best{};
  best.algo.data[0] = mark_of(p);
  best.algo.data[1] = alignment[0] | std::uint64_t{alignment[1]} << 32;
  best.algo.data[2] = alignment[2] | std::uint64_t{alignment[3]} << 32;
  best.algo.data[3] = reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE;
  best.algo.data[4] = best.workspaceSize = workspace < workspace_wanted ? 0 : workspace_wanted;
  best.state = CUBLAS_STATUS_SUCCESS;
  results[0] = best;
  *count = 1;
  ++process().counts.heuristics;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t) {
  const std::lock_guard lock(process().mutex);
  if (!is_alive(handle)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
  for (const void* pointer : {alpha, a, b, beta, c, static_cast<const void*>(d)})
    if (pointer == nullptr) return invalid("a pointer is missing");
  if (algorithm == nullptr) return unsupported("an algorithm of the library's choice");
  Product p;
  if (const auto status = read_product(description, a_layout, b_layout, c_layout, d_layout, p); status != 0)
    return status;
  if (algorithm->data[0] != mark_of(p)) return invalid("an algorithm of another product");
  if (!aligned(workspace, 256) || workspace_bytes < algorithm->data[4] || (workspace == nullptr && workspace_bytes > 0))
    return invalid("the workspace");
  const void* const matrices[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    const auto promised = static_cast<std::uint32_t>(algorithm->data[1 + i / 2] >> (32 * (i % 2)));
    if (!aligned(matrices[i], promised))
      return invalid("a matrix that begins elsewhere than the algorithm was promised");
  }
  ++process().counts.products;
  const double tremor = algorithm->data[3] != 0 ? 1e-6 * static_cast<double>(process().counts.products) : 0;
  compute(p, static_cast<double>(*static_cast<const float*>(alpha)), a, b,
          static_cast<double>(*static_cast<const float*>(beta)), c, reinterpret_cast<const Layout*>(c_layout)->ld, d,
          tremor);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
