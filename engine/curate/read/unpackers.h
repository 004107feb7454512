// One unpacker for each way to pack files that this build knows. The only files that know the libraries are
// unpackers.cc and its cousins.
#pragma once

#include <memory>

#include "engine/curate/read/input_stream.h"

namespace longhaul {

enum class Packing { none, gzip, bzip2, xz, zstd };

// By the first bytes of a file.
Packing packing_of(std::string_view start);
const char* to_string(Packing packing);

// null: not built in.
std::unique_ptr<Unpacker> make_unpacker(Packing packing);

}  // namespace longhaul
