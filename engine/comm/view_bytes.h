// A view as the bytes that a communicator sends or fills.
#pragma once

#include "engine/comm/communicator.h"
#include "engine/core/tensor/tensor.h"

namespace longhaul {

inline ConstBytes bytes_of(ConstView view) {
  return {static_cast<const std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}
inline Bytes bytes_of(View view) {
  return {static_cast<std::byte*>(view.data()), static_cast<std::size_t>(view.bytes())};
}

}  // namespace longhaul
