#include "tests/support/fake_libraries/fake_cudnn_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/core/tensor/dtype.h"

namespace longhaul::fake_cudnn {
namespace {

using Index = std::int64_t;

const char* type_name(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT: return "f32";
    case CUDNN_DATA_BFLOAT16: return "bf16";
    case CUDNN_DATA_INT32: return "i32";
    case CUDNN_DATA_BOOLEAN: return "bool";
    default: return "another type";
  }
}

std::string mode_name(int mode) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD: return "add";
    case CUDNN_POINTWISE_SUB: return "sub";
    case CUDNN_POINTWISE_MUL: return "mul";
    case CUDNN_POINTWISE_DIV: return "div";
    case CUDNN_POINTWISE_EXP: return "exp";
    case CUDNN_POINTWISE_LOG: return "log";
    case CUDNN_POINTWISE_IDENTITY: return "identity";
    case CUDNN_POINTWISE_GEN_INDEX: return "index";
    case CUDNN_POINTWISE_CMP_GE: return "ge";
    case CUDNN_POINTWISE_CMP_GT: return "gt";
    case CUDNN_POINTWISE_BINARY_SELECT: return "select";
    default: return "pointwise" + std::to_string(mode);
  }
}

constexpr int tensor_attributes[] = {
    CUDNN_ATTR_OPERATION_MATMUL_ADESC,    CUDNN_ATTR_OPERATION_MATMUL_BDESC,    CUDNN_ATTR_OPERATION_MATMUL_CDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
    CUDNN_ATTR_OPERATION_RESHAPE_XDESC,   CUDNN_ATTR_OPERATION_RESHAPE_YDESC};

const std::vector<std::shared_ptr<Descriptor>>& operations(const Descriptor& graph) {
  return graph.of(CUDNN_ATTR_OPERATIONGRAPH_OPS);
}

std::string kind_of(const Descriptor& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return "matmul";
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return "reshape";
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return operation.one(CUDNN_ATTR_OPERATION_REDUCTION_DESC).value<int>(CUDNN_ATTR_REDUCTION_OPERATOR) ==
                     CUDNN_REDUCE_TENSOR_MAX
                 ? "max"
                 : "sum";
    default:
      return mode_name(
          operation.one(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).value<int>(CUDNN_ATTR_POINTWISE_MODE));
  }
}

std::vector<Index> dims_of(const Descriptor& tensor) {
  return tensor.values<Index>(CUDNN_ATTR_TENSOR_DIMENSIONS);
}
cudnnDataType_t type_of(const Descriptor& tensor) {
  return tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}

std::string list(const std::vector<Index>& values) {
  std::string text;
  for (const Index v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  return "[" + text + "]";
}

std::string text_of_tensor(const Descriptor& t) {
  std::string text = type_name(type_of(t));
  text += " " + list(dims_of(t)) + " strides " + list(t.values<Index>(CUDNN_ATTR_TENSOR_STRIDES));
  text += " align " + std::to_string(t.value<Index>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  if (t.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) text += " virtual";
  if (t.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) text += " by value";
  if (t.value<int>(CUDNN_ATTR_TENSOR_REORDERING_MODE) != 0) text += " reordered";
  return text;
}

// What an operation's own descriptor says beside its kind.
std::string text_of_setting(const Descriptor& operation) {
  if (operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
    return type_name(
        operation.one(CUDNN_ATTR_OPERATION_MATMUL_DESC).value<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE));
  if (operation.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    const Descriptor& how = operation.one(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    std::string text = type_name(how.value<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE));
    if (how.value<bool>(CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC)) text += " deterministic";
    return text;
  }
  if (operation.type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return "";
  const Descriptor& how = operation.one(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  std::string text = type_name(how.value<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC));
  for (const int name : {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2})
    if (operation.value<float>(name, 1.0F) != 1.0F) text += " scaled";  // 1: as when it is not said
  if (how.has(CUDNN_ATTR_POINTWISE_AXIS))
    text += " axis " + std::to_string(how.value<Index>(CUDNN_ATTR_POINTWISE_AXIS));
  return text;
}

// A tensor while a graph is computed: dense, of four dimensions.
struct Dense {
  std::vector<Index> dims;
  std::vector<double> data;
  double at(Index b, Index h, Index i, Index j) const {  // dimensions of one element are repeated, heads are shared
    const Index bb = dims[0] == 1 ? 0 : b, ii = dims[2] == 1 ? 0 : i, jj = dims[3] == 1 ? 0 : j;
    return data[static_cast<std::size_t>(((bb * dims[1] + h) * dims[2] + ii) * dims[3] + jj)];
  }
};

double rounded(cudnnDataType_t type, double value) {
  if (type == CUDNN_DATA_BFLOAT16) return static_cast<double>(static_cast<float>(bf16(static_cast<float>(value))));
  return type == CUDNN_DATA_FLOAT ? static_cast<double>(static_cast<float>(value)) : value;
}

template <class F>
void for_each(const std::vector<Index>& dims, const F& f) {
  for (Index b = 0; b < dims[0]; ++b)
    for (Index h = 0; h < dims[1]; ++h)
      for (Index i = 0; i < dims[2]; ++i)
        for (Index j = 0; j < dims[3]; ++j) f(b, h, i, j);
}

class Computation {
 public:
  explicit Computation(const std::map<Index, void*>& memory) : memory_(memory) {}

  Failure run(const Descriptor& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return matmul(operation);
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduce(operation);
      default: return reshape(operation);
    }
  }

 private:
  static Failure shape(const char* what) { return {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, what}; }

  template <class F>
  void elements(const Descriptor& tensor, const F& f) {
    const auto s = tensor.values<Index>(CUDNN_ATTR_TENSOR_STRIDES);
    auto* base = static_cast<std::byte*>(memory_.at(tensor.value<Index>(CUDNN_ATTR_TENSOR_UNIQUE_ID)));
    for_each(dims_of(tensor), [&](Index b, Index h, Index i, Index j) {
      const Index at = b * s[0] + h * s[1] + i * s[2] + j * s[3];
      f(base + at * (type_of(tensor) == CUDNN_DATA_BFLOAT16 ? 2 : 4));
    });
  }

  const Dense* load(const Descriptor& tensor) {
    if (const auto known = values_.find(&tensor); known != values_.end()) return &known->second;
    if (tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) return nullptr;  // nobody has computed it
    Dense value{dims_of(tensor), {}};
    elements(tensor, [&](const std::byte* at) {
      if (type_of(tensor) == CUDNN_DATA_BFLOAT16) {
        bf16 v;
        std::memcpy(&v, at, 2);
        value.data.push_back(static_cast<double>(static_cast<float>(v)));
      } else if (type_of(tensor) == CUDNN_DATA_INT32) {
        std::int32_t v = 0;
        std::memcpy(&v, at, 4);
        value.data.push_back(v);
      } else {
        float v = 0;
        std::memcpy(&v, at, 4);
        value.data.push_back(static_cast<double>(v));
      }
    });
    return &values_.emplace(&tensor, std::move(value)).first->second;
  }

  Failure store(const Descriptor& tensor, Dense value) {
    if (value.dims != dims_of(tensor)) return shape("what an operation gives");
    for (double& v : value.data) v = rounded(type_of(tensor), v);
    if (!tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      std::size_t n = 0;
      elements(tensor, [&](std::byte* at) {
        const auto v = static_cast<float>(value.data[n++]);
        const bf16 small(v);
        if (type_of(tensor) == CUDNN_DATA_BFLOAT16) std::memcpy(at, &small, 2);
        if (type_of(tensor) == CUDNN_DATA_FLOAT) std::memcpy(at, &v, 4);
      });
    }
    if (!values_.emplace(&tensor, std::move(value)).second)
      return {CUDNN_STATUS_BAD_PARAM, "a tensor that two operations give"};
    return {};
  }

  // Heads of `b` are shared by as many of `a`.
  Failure matmul(const Descriptor& operation) {
    const Dense* a = load(operation.one(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const Dense* b = load(operation.one(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    if (a == nullptr || b == nullptr) return shape("an operand that nobody gives");
    if (a->dims[0] != b->dims[0] || a->dims[3] != b->dims[2] || a->dims[1] % b->dims[1] != 0) return shape("a product");
    const Index group = a->dims[1] / b->dims[1];
    Dense c{{a->dims[0], a->dims[1], a->dims[2], b->dims[3]}, {}};
    for_each(c.dims, [&](Index n, Index h, Index i, Index j) {
      double sum = 0;
      for (Index k = 0; k < a->dims[3]; ++k) {
        const double x = a->at(n, h, i, k), y = b->at(n, h / group, k, j);
        sum += x == 0 ? 0 : x * y;
      }
      c.data.push_back(sum);
    });
    return store(operation.one(CUDNN_ATTR_OPERATION_MATMUL_CDESC), std::move(c));
  }

  Failure pointwise(const Descriptor& operation) {
    const Descriptor& how = operation.one(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const int mode = how.value<int>(CUDNN_ATTR_POINTWISE_MODE);
    const auto other = [&](int name) { return operation.has(name) ? load(operation.one(name)) : nullptr; };
    const Dense* x = load(operation.one(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const Dense* b = other(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Dense* t = other(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    const bool unary = mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG || mode == CUDNN_POINTWISE_IDENTITY ||
                       mode == CUDNN_POINTWISE_GEN_INDEX;
    const bool select = mode == CUDNN_POINTWISE_BINARY_SELECT;
    if (x == nullptr || (b == nullptr) != unary || (t == nullptr) == select) return shape("operands of a pointwise");
    const Index axis = how.value<Index>(CUDNN_ATTR_POINTWISE_AXIS);
    Dense y{x->dims, {}};
    const auto head = [](const Dense& of, Index h) { return of.dims[1] == 1 ? 0 : h; };
    for_each(y.dims, [&](Index n, Index h, Index i, Index j) {
      const double u = x->at(n, h, i, j), v = b == nullptr ? 0 : b->at(n, head(*b, h), i, j);
      switch (mode) {
        case CUDNN_POINTWISE_ADD: return y.data.push_back(u + v);
        case CUDNN_POINTWISE_SUB: return y.data.push_back(u - v);
        case CUDNN_POINTWISE_MUL: return y.data.push_back(u * v);
        case CUDNN_POINTWISE_DIV: return y.data.push_back(u / v);
        case CUDNN_POINTWISE_EXP: return y.data.push_back(std::exp(u));
        case CUDNN_POINTWISE_LOG: return y.data.push_back(std::log(u));
        case CUDNN_POINTWISE_IDENTITY: return y.data.push_back(u);
        case CUDNN_POINTWISE_GEN_INDEX: return y.data.push_back(static_cast<double>(axis == 2 ? i : j));
        case CUDNN_POINTWISE_CMP_GE: return y.data.push_back(u >= v ? 1 : 0);
        case CUDNN_POINTWISE_CMP_GT: return y.data.push_back(u > v ? 1 : 0);
        case CUDNN_POINTWISE_BINARY_SELECT: return y.data.push_back(t->at(n, head(*t, h), i, j) != 0 ? u : v);
        default: return y.data.push_back(std::numeric_limits<double>::quiet_NaN());
      }
    });
    return store(operation.one(CUDNN_ATTR_OPERATION_POINTWISE_YDESC), std::move(y));
  }

  // Over the last dimension, or over the heads that share one of `y`.
  Failure reduce(const Descriptor& operation) {
    const bool largest = kind_of(operation) == "max";
    const Descriptor& to = operation.one(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const Dense* x = load(operation.one(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    if (x == nullptr) return shape("what is reduced");
    Dense y{dims_of(to), {}};
    if (y.dims[0] != x->dims[0] || y.dims[2] != x->dims[2] || x->dims[1] % y.dims[1] != 0) return shape("a reduction");
    if (y.dims[3] != x->dims[3] && (y.dims[3] != 1 || y.dims[1] != x->dims[1])) return shape("a reduction");
    const Index group = x->dims[1] / y.dims[1], across = x->dims[3] / y.dims[3];
    for_each(y.dims, [&](Index n, Index h, Index i, Index j) {
      double result = largest ? -std::numeric_limits<double>::infinity() : 0;
      for (Index g = 0; g < group; ++g)
        for (Index k = 0; k < across; ++k) {
          const double v = x->at(n, h * group + g, i, j + k);
          result = largest ? std::max(result, v) : result + v;
        }
      y.data.push_back(result);
    });
    return store(to, std::move(y));
  }

  // Of the two last dimensions, as attention transposes.
  Failure reshape(const Descriptor& operation) {
    const Dense* x = load(operation.one(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    if (x == nullptr) return shape("what is transposed");
    Dense y{{x->dims[0], x->dims[1], x->dims[3], x->dims[2]}, {}};
    for_each(y.dims, [&](Index n, Index h, Index i, Index j) { y.data.push_back(x->at(n, h, j, i)); });
    return store(operation.one(CUDNN_ATTR_OPERATION_RESHAPE_YDESC), std::move(y));
  }

  const std::map<Index, void*>& memory_;
  std::map<const Descriptor*, Dense> values_;
};

}  // namespace

std::vector<const Descriptor*> tensors_of(const Descriptor& graph) {
  std::vector<const Descriptor*> tensors;
  for (const auto& operation : operations(graph))
    for (const int name : tensor_attributes)
      if (operation->has(name) && std::find(tensors.begin(), tensors.end(), &operation->one(name)) == tensors.end())
        tensors.push_back(&operation->one(name));
  return tensors;
}

std::string kinds_of(const Descriptor& graph) {
  std::string text;
  for (const auto& operation : operations(graph)) text += (text.empty() ? "" : " ") + kind_of(*operation);
  return text;
}

std::string text_of(const Descriptor& graph) {
  const std::vector<const Descriptor*> tensors = tensors_of(graph);
  const auto number = [&](const Descriptor& tensor) {
    return "%" + std::to_string(std::find(tensors.begin(), tensors.end(), &tensor) - tensors.begin());
  };
  std::string text;
  for (const auto& operation : operations(graph)) {
    text += kind_of(*operation);
    for (const int name : tensor_attributes)
      if (operation->has(name)) text += " " + number(operation->one(name));
    text += "  " + text_of_setting(*operation) + "\n";
  }
  for (const Descriptor* tensor : tensors) text += number(*tensor) + " " + text_of_tensor(*tensor) + "\n";
  return text;
}

Failure check_pattern(const Descriptor& graph) {
  const std::string kinds = kinds_of(graph);
  const std::string window = " index index add gt select";  // behind a causal mask
  for (const std::string& mask :
       {std::string(), std::string(" index index ge select"), std::string(" index index add sub ge select"),
        " index index ge select" + window, " index index add sub ge select" + window}) {
    if (kinds == "matmul mul" + mask + " max sub exp sum log add div matmul") return {};
    for (const char* groups : {"", " sum"})  // of heads that share one of the keys
      for (const char* last : {"", " identity"})
        if (kinds == "mul sum mul matmul mul sub" + mask + " exp reshape matmul" + groups +
                         " matmul sub mul mul reshape matmul" + groups + " reshape matmul" + last)
          return {};
  }
  return {CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine for " + kinds};
}

bool sums_as_they_come(const Descriptor& graph) {
  return kinds_of(graph).ends_with("identity");
}

// As much as the real one may take at most: a backward pass that does not sum dq as blocks come writes the gradient of
// all scores.
Index workspace_of(const Descriptor& graph) {
  const auto up = [](Index value, Index to) { return (value + to - 1) / to * to; };
  for (const auto& operation : operations(graph)) {
    if (operation->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const auto scores = dims_of(operation->one(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const bool whole = kind_of(*operations(graph).front()) == "mul" && !sums_as_they_come(graph);
    return whole ? scores[0] * scores[1] * up(scores[2], 64) * up(scores[3], 128) * 2 : scores[0] * 256;
  }
  return 0;
}

Failure compute(const Descriptor& graph, const std::map<Index, void*>& memory) {
  Computation computation(memory);
  for (const auto& operation : operations(graph))
    if (const Failure failure = computation.run(*operation); failure.failed()) return failure;
  return {};
}

}  // namespace longhaul::fake_cudnn
