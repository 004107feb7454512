// Room engine/core/tensor
// Memory with a shape and a type, and what an operation is given beside it.
// Read tensor.h (Buffer, Tensor, View), then compute_context.h (threads, scratch memory, device of one rank).
// parallel_for.h keeps results independent of threads; memory_accounts.h counts bytes; trace.h records a step.
// It may not include engine/core/cuda: memory of a GPU is reached through engine/core/device/device.h alone.
//
// Memory and what lies in it. Buffer owns aligned bytes; Tensor owns a Buffer with a shape and a type; View and
// ConstView borrow. Everything is row-major and contiguous: the last dim is the fastest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error/result.h"
#include "engine/core/tensor/dtype.h"

namespace longhaul {

class Device;  // engine/core/device/device.h

// Counts bytes of the buffers that were given this account, and says where they lie. Not thread-safe: one per rank.
struct MemoryAccount {
  std::int64_t bytes_now = 0;
  std::int64_t bytes_peak = 0;
  MemoryAccount* whole = nullptr;  // which counts them as well
  Device* device = nullptr;        // whose memory the buffers are of; null: the host's. Outlives them
  void add(std::int64_t bytes) {
    bytes_now += bytes;
    if (bytes_now > bytes_peak) bytes_peak = bytes_now;
    if (whole) whole->add(bytes);
  }
};

inline constexpr std::size_t kTensorAlignment = 64;

// Owns `bytes` bytes, aligned to 64, zeroed, where the account says. Moves, never copies. An account that is given must
// outlive the buffer.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes, MemoryAccount* account = nullptr);
  ~Buffer() { release(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      release();
      swap(other);
    }
    return *this;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  Device* device() const { return account_ ? account_->device : nullptr; }

 private:
  void release();
  void swap(Buffer& other) noexcept;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  MemoryAccount* account_ = nullptr;
};

// Up to six dims, by value.
class Shape {
 public:
  static constexpr int kDimsMax = 6;
  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<std::int64_t> dims) {
    LH_ASSERT(dims.size() <= kDimsMax, "a shape has at most 6 dims");
    for (std::int64_t dim : dims) dims_[static_cast<std::size_t>(rank_++)] = dim;
  }
  explicit Shape(std::span<const std::int64_t> dims) {
    LH_ASSERT(dims.size() <= kDimsMax, "a shape has at most 6 dims");
    for (std::int64_t dim : dims) dims_[static_cast<std::size_t>(rank_++)] = dim;
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i < 0 ? i + rank_ : i)]; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<std::size_t>(i)];
    return n;
  }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  bool operator==(const Shape& other) const = default;
  std::string text() const;  // "[4, 256, 64]"

 private:
  std::array<std::int64_t, kDimsMax> dims_{};
  int rank_ = 0;
};

// Borrowed tensor. BasicView<false> (View) may be written, BasicView<true> (ConstView) may not. Cheap to copy. A
// default view is empty: data() == nullptr; operations say where an empty view means "leave this out".
template <bool is_const>
class BasicView {
 public:
  using Raw = std::conditional_t<is_const, const void, void>;
  template <class T>
  using Element = std::conditional_t<is_const, const T, T>;

  BasicView() = default;
  BasicView(Raw* data, DType dtype, Shape shape) : data_(data), dtype_(dtype), shape_(shape) {}
  template <class T>
    requires(is_const || !std::is_const_v<T>)
  BasicView(T* data, Shape shape) : data_(data), dtype_(DTypeOf<std::remove_const_t<T>>::value), shape_(shape) {}
  template <class T>
    requires(is_const || !std::is_const_v<T>)
  BasicView(std::span<T> s)  // NOLINT: implicit on purpose
      : BasicView(s.data(), Shape{static_cast<std::int64_t>(s.size())}) {}
  template <class T>
  BasicView(std::vector<T>& v)  // NOLINT: implicit on purpose
      : BasicView(v.data(), Shape{static_cast<std::int64_t>(v.size())}) {}
  template <class T>
    requires is_const
  BasicView(const std::vector<T>& v)  // NOLINT: implicit on purpose
      : BasicView(v.data(), Shape{static_cast<std::int64_t>(v.size())}) {}
  template <bool other_is_const>
    requires(is_const && !other_is_const)
  BasicView(const BasicView<other_is_const>& other)  // NOLINT: implicit on purpose; View -> ConstView
      : data_(other.data()), dtype_(other.dtype()), shape_(other.shape()) {}

  Raw* data() const { return data_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return data_ == nullptr ? 0 : shape_.size(); }
  std::int64_t bytes() const { return size() * dtype_bytes(dtype_); }
  bool empty() const { return data_ == nullptr; }

  // The elements as T; the type must be the tensor's.
  template <class T>
  Element<T>* as() const {
    LH_ASSERT(DTypeOf<T>::value == dtype_, std::string("tensor is ") + dtype_name(dtype_));
    return static_cast<Element<T>*>(data_);
  }
  template <class T>
  std::span<Element<T>> span() const {
    return {as<T>(), static_cast<std::size_t>(size())};
  }
  // Same memory, other shape of as many elements.
  BasicView reshaped(Shape shape) const {
    LH_ASSERT(shape.size() == size(), shape_.text() + " -> " + shape.text());
    return BasicView(data_, dtype_, shape);
  }
  // Rows [begin, end) of the first dim.
  BasicView rows(std::int64_t begin, std::int64_t end) const {
    LH_ASSERT(shape_.rank() > 0 && begin >= 0 && begin <= end && end <= shape_[0], shape_.text());
    std::array<std::int64_t, Shape::kDimsMax> dims{};
    std::int64_t row = 1;
    dims[0] = end - begin;
    for (int i = 1; i < shape_.rank(); ++i) row *= dims[static_cast<std::size_t>(i)] = shape_[i];
    using Byte = std::conditional_t<is_const, const std::byte, std::byte>;
    return BasicView(static_cast<Byte*>(data_) + begin * row * dtype_bytes(dtype_), dtype_,
                     Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(shape_.rank()))));
  }

 private:
  Raw* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_{0};
};
using View = BasicView<false>;
using ConstView = BasicView<true>;

// Owns its elements, zeroed at construction.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape, MemoryAccount* account = nullptr)
      : buffer_(shape.size() * dtype_bytes(dtype), account), dtype_(dtype), shape_(shape) {}

  View view() { return View(buffer_.data(), dtype_, shape_); }
  ConstView view() const { return ConstView(buffer_.data(), dtype_, shape_); }
  operator View() { return view(); }             // NOLINT: implicit on purpose
  operator ConstView() const { return view(); }  // NOLINT: implicit on purpose
  template <class T>
  std::span<T> span() {
    return view().template span<T>();
  }
  template <class T>
  std::span<const T> span() const {
    return view().template span<T>();
  }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return buffer_.data() == nullptr ? 0 : shape_.size(); }
  std::int64_t bytes() const { return buffer_.bytes(); }
  Device* device() const { return buffer_.device(); }  // null: of the host

 private:
  Buffer buffer_;
  DType dtype_ = DType::f32;
  Shape shape_{0};
};

// Bump allocator of fixed capacity: one per activation slot, or one for scratch. Allocations are rounded up to 64 bytes
// and counted exactly; rewind() gives back everything since a mark. Memory is not zeroed again. Running out is a bug of
// the memory plan: the process ends and says how much was asked for.
class Arena {
 public:
  explicit Arena(std::int64_t capacity_bytes, MemoryAccount* account = nullptr) : buffer_(capacity_bytes, account) {}
  View allocate(DType dtype, Shape shape);
  std::int64_t mark() const { return used_bytes_; }
  void rewind(std::int64_t mark) {
    LH_ASSERT(mark >= 0 && mark <= used_bytes_, std::to_string(mark));
    used_bytes_ = mark;
  }
  void reset() { used_bytes_ = 0; }
  std::int64_t used_bytes() const { return used_bytes_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::int64_t capacity_bytes() const { return buffer_.bytes(); }
  // What allocate(dtype, shape) takes.
  static std::int64_t bytes_for(DType dtype, const Shape& shape) {
    const auto unit = static_cast<std::int64_t>(kTensorAlignment);
    return (shape.size() * dtype_bytes(dtype) + unit - 1) / unit * unit;
  }

 private:
  Buffer buffer_;
  std::int64_t used_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace longhaul
