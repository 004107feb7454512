#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/pointwise/pointwise_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int map_threads = 256;
constexpr float gelu_c = 0.7978845608028654F, gelu_cubic = 0.044715F;  // sqrt(2 / pi)

// f.template at<n>(i) works on elements [i, i + n).
template <int n, class F>
__global__ void __launch_bounds__(map_threads) map_kernel(Index count, F f) {
  const Index i = (static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x) * n;
  if (i < count) f.template at<n>(i);
}

// T: the widest element that the accesses of 16 bytes are counted in.
template <class T, class F>
void map(const char* name, cudaStream_t stream, Index count, std::initializer_list<const void*> starts, const F& f) {
  with_width<T>(count, starts, [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch(name, stream, map_kernel<n, F>, dim3(blocks_for(count, map_threads * n)), dim3(map_threads), 0, count, f);
  });
}

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + __expf(-x));
}

template <class T>
struct Add {
  const T *a, *b;
  T* out;
  template <int n>
  __device__ void at(Index i) const {
    float x[n], y[n];
    load<n>(a + i, x), load<n>(b + i, y);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) x[j] += y[j];
    store<n>(x, out + i);
  }
};
template <class T>
struct AddToRows {
  Index columns;
  const T* x;
  T* y;
  template <int n>
  __device__ void at(Index i) const {
    float a[n], b[n];
    load<n>(y + i, a), load<n>(x + i % columns, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) a[j] += b[j];
    store<n>(a, y + i);
  }
};
struct Axpy {
  float alpha;
  const float* x;
  float* y;
  template <int n>
  __device__ void at(Index i) const {
    float a[n], b[n];
    load<n>(x + i, a), load<n>(y + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) b[j] += alpha * a[j];
    store<n>(b, y + i);
  }
};
struct Scale {
  float alpha;
  float* x;
  template <int n>
  __device__ void at(Index i) const {
    float a[n];
    load<n>(x + i, a);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) a[j] *= alpha;
    store<n>(a, x + i);
  }
};
template <class T>
struct Fill {
  float value;
  T* x;
  template <int n>
  __device__ void at(Index i) const {
    float a[n];
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) a[j] = value;
    store<n>(a, x + i);
  }
};
template <class From, class To>
struct Cast {
  const From* x;
  To* out;
  template <int n>
  __device__ void at(Index i) const {
    float a[n];
    load<n>(x + i, a);
    store<n>(a, out + i);
  }
};
template <class T>
struct SwiGluForward {
  Index ffn, stride;
  const T *gate, *up;
  T* out;
  template <int n>
  __device__ void at(Index i) const {
    const Index from = i / ffn * stride + i % ffn;
    float g[n], u[n];
    load<n>(gate + from, g), load<n>(up + from, u);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) u[j] *= g[j] * sigmoid(g[j]);
    store<n>(u, out + i);
  }
};
template <class T>
struct SwiGluBackward {
  Index ffn, stride;
  const T *dout, *gate, *up;
  T *dgate, *dup;
  template <int n>
  __device__ void at(Index i) const {
    const Index from = i / ffn * stride + i % ffn;
    float d[n], g[n], u[n];
    load<n>(dout + i, d), load<n>(gate + from, g), load<n>(up + from, u);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const float s = sigmoid(g[j]), silu = g[j] * s;
      g[j] = d[j] * u[j] * (s + silu * (1.0F - s));
      u[j] = d[j] * silu;
    }
    store<n>(g, dgate + from), store<n>(u, dup + from);
  }
};
template <class T>
struct GeluForward {
  const T* x;
  T* y;
  template <int n>
  __device__ void at(Index i) const {
    float a[n];
    load<n>(x + i, a);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) a[j] *= sigmoid(2.0F * gelu_c * a[j] * (1.0F + gelu_cubic * a[j] * a[j]));
    store<n>(a, y + i);
  }
};
template <class T>
struct GeluBackward {
  const T *dy, *x;
  T* dx;
  template <int n>
  __device__ void at(Index i) const {
    float d[n], a[n];
    load<n>(dy + i, d), load<n>(x + i, a);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const float square = a[j] * a[j];
      const float s = sigmoid(2.0F * gelu_c * a[j] * (1.0F + gelu_cubic * square));
      d[j] *= s + 2.0F * a[j] * s * (1.0F - s) * gelu_c * (1.0F + 3.0F * gelu_cubic * square);
    }
    store<n>(d, dx + i);
  }
};
struct KeepPositive {
  const float* kept;
  float* x;
  template <int n>
  __device__ void at(Index i) const {
    float a[n], b[n];
    load<n>(kept + i, a), load<n>(x + i, b);
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) b[j] = a[j] > 0.0F ? b[j] : 0.0F;
    store<n>(b, x + i);
  }
};
// Element i counts pairs: (i, i + head_dim / 2) of a head are rotated together.
template <class T>
struct Rotate {
  Rope<T> p;
  template <int n>
  __device__ void at(Index i) const {
    const Index half = p.head_dim / 2, at = i % half, head = i / half % p.heads, token = i / half / p.heads;
    const Index position = p.positions == nullptr ? token % p.seq : p.positions[token];
    T* const x = p.x + token * p.row_stride + head * p.head_dim + at;
    float low[n], high[n], turned[n];
    load<n>(x, low), load<n>(x + half, high);
    const float* cosines = p.cosines + position * half + at;
    const float* sines = p.sines + position * half + at;
    LONGHAUL_UNROLL
    for (int j = 0; j < n; ++j) {
      const float c = cosines[j], s = p.direction * sines[j];
      turned[j] = low[j] * c - high[j] * s;
      high[j] = high[j] * c + low[j] * s;
    }
    store<n>(turned, x), store<n>(high, x + half);
  }
};

constexpr Index sum_piece = 65536;  // elements of one partial sum

template <FlatSum kind>
__device__ double term(float x) {
  if constexpr (kind == FlatSum::square) return static_cast<double>(x) * static_cast<double>(x);
  if constexpr (kind == FlatSum::not_finite) return fabsf(x) <= 3.402823466e+38F ? 0.0 : 1.0;
  return static_cast<double>(x);
}

// Four elements that follow each other go to one thread wherever the array begins, so the order of the sum depends on
// their number alone. wide: it begins at a multiple of 16 bytes, and the four are one access.
template <FlatSum kind, bool wide>
__global__ void __launch_bounds__(map_threads) flat_sum_kernel(Index count, const float* x, double* parts) {
  double* const shared = reinterpret_cast<double*>(shared_memory());
  const Index begin = blockIdx.x * sum_piece, end = begin + sum_piece < count ? begin + sum_piece : count;
  double sum = 0;
  for (Index i = begin + static_cast<Index>(threadIdx.x) * 4; i < end; i += map_threads * 4) {
    if (wide && i + 4 <= end) {
      float v[4];
      load<4>(x + i, v);
      LONGHAUL_UNROLL
      for (int j = 0; j < 4; ++j) sum += term<kind>(v[j]);
    } else {
      for (int j = 0; j < 4 && i + j < end; ++j) sum += term<kind>(x[i + j]);
    }
  }
  sum = sum_over_block(sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// By one block, whose threads take neighbouring stretches.
__global__ void __launch_bounds__(map_threads) add_sums_kernel(Index count, const double* parts, double* out) {
  double* const shared = reinterpret_cast<double*>(shared_memory());
  const Index stretch = (count + map_threads - 1) / map_threads, begin = threadIdx.x * stretch;
  double sum = 0;
  for (Index i = begin; i < begin + stretch && i < count; ++i) sum += parts[i];
  sum = sum_over_block(sum, shared);
  if (threadIdx.x == 0) out[0] = sum;
}

template <FlatSum kind>
void flat_sum_of(cudaStream_t stream, Index n, const float* x, double* parts) {
  const bool wide = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  launch("flat_sum", stream, wide ? flat_sum_kernel<kind, true> : flat_sum_kernel<kind, false>,
         dim3(blocks_for(n, sum_piece)), dim3(map_threads), map_threads / warp_size * sizeof(double), n, x, parts);
}

}  // namespace

template <class T>
void add(cudaStream_t stream, Index n, const T* a, const T* b, T* out) {
  map<T>("add", stream, n, {a, b, out}, Add<T>{a, b, out});
}
template <class T>
void add_to_rows(cudaStream_t stream, Index rows, Index columns, const T* x, T* y) {
  if (columns % pack_of<T> == 0)
    return map<T>("add_to_rows", stream, rows * columns, {x, y}, AddToRows<T>{columns, x, y});
  const AddToRows<T> f{columns, x, y};
  launch("add_to_rows", stream, map_kernel<1, AddToRows<T>>, dim3(blocks_for(rows * columns, map_threads)),
         dim3(map_threads), 0, rows * columns, f);
}
void axpy(cudaStream_t stream, Index n, float alpha, const float* x, float* y) {
  map<float>("axpy", stream, n, {x, y}, Axpy{alpha, x, y});
}
void scale(cudaStream_t stream, Index n, float alpha, float* x) {
  map<float>("scale", stream, n, {x}, Scale{alpha, x});
}
template <class T>
void fill(cudaStream_t stream, Index n, float value, T* x) {
  map<T>("fill", stream, n, {x}, Fill<T>{value, x});
}
template <class From, class To>
void cast(cudaStream_t stream, Index n, const From* x, To* out) {
  map<std::conditional_t<(sizeof(From) > sizeof(To)), From, To>>("cast", stream, n, {x, out}, Cast<From, To>{x, out});
}

namespace {
// Accesses of 16 bytes need rows of whole ones, in both directions.
template <class T, class F>
void map_rows(const char* name, cudaStream_t stream, Index tokens, Index columns, Index stride,
              std::initializer_list<const void*> starts, const F& f) {
  const bool wide = rows_are_aligned<T>(columns, starts) && stride % pack_of<T> == 0;
  const Index n = tokens * columns;
  if (wide)
    launch(name, stream, map_kernel<pack_of<T>, F>, dim3(blocks_for(n, map_threads * pack_of<T>)), dim3(map_threads), 0,
           n, f);
  else
    launch(name, stream, map_kernel<1, F>, dim3(blocks_for(n, map_threads)), dim3(map_threads), 0, n, f);
}
}  // namespace

template <class T>
void swiglu_forward(cudaStream_t stream, Index tokens, Index ffn, Index row_stride, const T* gate, const T* up,
                    T* out) {
  map_rows<T>("swiglu_forward", stream, tokens, ffn, row_stride, {gate, up, out},
              SwiGluForward<T>{ffn, row_stride, gate, up, out});
}
template <class T>
void swiglu_backward(cudaStream_t stream, Index tokens, Index ffn, Index row_stride, const T* dout, const T* gate,
                     const T* up, T* dgate, T* dup) {
  map_rows<T>("swiglu_backward", stream, tokens, ffn, row_stride, {dout, gate, up, dgate, dup},
              SwiGluBackward<T>{ffn, row_stride, dout, gate, up, dgate, dup});
}
template <class T>
void gelu_forward(cudaStream_t stream, Index n, const T* x, T* y) {
  map<T>("gelu_forward", stream, n, {x, y}, GeluForward<T>{x, y});
}
template <class T>
void gelu_backward(cudaStream_t stream, Index n, const T* dy, const T* x, T* dx) {
  map<T>("gelu_backward", stream, n, {dy, x, dx}, GeluBackward<T>{dy, x, dx});
}
void keep_positive(cudaStream_t stream, Index n, const float* kept, float* x) {
  map<float>("keep_positive", stream, n, {kept, x}, KeepPositive{kept, x});
}
template <class T>
void rope(cudaStream_t stream, const Rope<T>& p) {
  map_rows<T>("rope", stream, p.tokens * p.heads, p.head_dim / 2, p.row_stride, {p.x}, Rotate<T>{p});
}

Index flat_sum_parts(Index n) {
  return (n + sum_piece - 1) / sum_piece;
}
void flat_sum(cudaStream_t stream, FlatSum kind, Index n, const float* x, double* parts, double* out) {
  if (kind == FlatSum::value) flat_sum_of<FlatSum::value>(stream, n, x, parts);
  if (kind == FlatSum::square) flat_sum_of<FlatSum::square>(stream, n, x, parts);
  if (kind == FlatSum::not_finite) flat_sum_of<FlatSum::not_finite>(stream, n, x, parts);
  launch("add_sums", stream, add_sums_kernel, dim3(1), dim3(map_threads), map_threads / warp_size * sizeof(double),
         flat_sum_parts(n), static_cast<const double*>(parts), out);
}

#define LONGHAUL_POINTWISE(T)                                                                             \
  template void add(cudaStream_t, Index, const T*, const T*, T*);                                         \
  template void add_to_rows(cudaStream_t, Index, Index, const T*, T*);                                    \
  template void fill(cudaStream_t, Index, float, T*);                                                     \
  template void swiglu_forward(cudaStream_t, Index, Index, Index, const T*, const T*, T*);                \
  template void swiglu_backward(cudaStream_t, Index, Index, Index, const T*, const T*, const T*, T*, T*); \
  template void gelu_forward(cudaStream_t, Index, const T*, T*);                                          \
  template void gelu_backward(cudaStream_t, Index, const T*, const T*, T*);                               \
  template void rope(cudaStream_t, const Rope<T>&);
LONGHAUL_POINTWISE(float)
LONGHAUL_POINTWISE(bf16)
template void cast(cudaStream_t, Index, const float*, float*);
template void cast(cudaStream_t, Index, const float*, bf16*);
template void cast(cudaStream_t, Index, const bf16*, float*);
template void cast(cudaStream_t, Index, const bf16*, bf16*);

}  // namespace longhaul::cuda
