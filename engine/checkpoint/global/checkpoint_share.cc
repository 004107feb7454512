#include "engine/checkpoint/global/checkpoint_share.h"

#include <algorithm>
#include <cstring>

#include "base/digest/hash.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/core/tensor/parallel_for.h"

namespace longhaul {

const std::vector<const char*>& state_suffixes() {
  static const std::vector<const char*> suffixes = {"", "#exp_avg", "#exp_avg_sq"};
  return suffixes;
}

std::vector<StateArray> arrays_of(const TrainingState& state) {
  return {state.masters, state.exp_avg, state.exp_avg_sq};
}

const char* stored_dtype(DType dtype) {
  LH_ASSERT(dtype == DType::f32 || dtype == DType::bf16, dtype_name(dtype));
  return dtype == DType::f32 ? "F32" : "BF16";
}

Result<DType> dtype_of_stored(const std::string& stored) {
  if (stored == "F32") return DType::f32;
  if (stored == "BF16") return DType::bf16;
  return make_error(ErrorCode::corrupt, format("\"{}\" is no type of a training's state", stored));
}

StateTypes stored_types(const CheckpointManifest& manifest) {
  StateTypes types = all_f32;
  for (const CheckpointEntry& entry : manifest.entries)
    for (std::size_t array = 1; array < types.size(); ++array)
      if (entry.dtype == "BF16" && ends_with(entry.tensor, state_suffixes()[array])) types[array] = DType::bf16;
  return types;
}

namespace {

// Elements `here` of a parameter, `packed` in the array.
SharePiece piece_of(const FlatParameter& p, int array, DType dtype, FlatRange here, FlatRange packed,
                    const std::string& file) {
  const bool whole = p.is_whole() && here.begin == p.begin && here.end == p.end;
  SharePiece piece;
  piece.array = array;
  piece.packed = packed;
  piece.shape = whole ? p.spec.shape : std::vector<std::int64_t>{here.size()};
  CheckpointEntry& entry = piece.entry;
  entry.tensor = p.spec.name + state_suffixes()[static_cast<std::size_t>(array)];
  entry.box = p.box;
  entry.flat_begin = here.begin - p.begin, entry.flat_end = here.end - p.begin;
  entry.file = file;
  entry.key = whole ? entry.tensor : format("{}@{}", entry.tensor, entry.flat_begin);  // one box of it in a file
  entry.dtype = stored_dtype(dtype);
  return piece;
}

}  // namespace

std::vector<SharePiece> pieces_of_share(const ParameterLayout& layout, const std::string& file,
                                        const StateTypes& types) {
  std::vector<SharePiece> pieces;
  const PackedRanges written(layout.written());
  const auto add = [&](int array, DType dtype) {
    for (const FlatParameter& p : layout.parameters()) {
      if (!layout.is_counted(p)) continue;
      written.for_each_in({p.begin, p.end}, [&](FlatRange mine, FlatRange) {
        layout.owned().for_each_in(mine, [&](FlatRange here, FlatRange packed) {
          pieces.push_back(piece_of(p, array, dtype, here, packed, file));
        });
      });
    }
  };
  for (const DType dtype : {DType::f32, DType::bf16})
    for (std::size_t array = 0; array < types.size(); ++array)
      if (types[array] == dtype) add(static_cast<int>(array), dtype);
  return pieces;
}

std::int64_t bytes_of_share(std::span<const SharePiece> pieces) {
  std::int64_t bytes = 0;
  for (const SharePiece& piece : pieces) bytes += piece.bytes();
  return bytes;
}

std::vector<ShardTensor> shard_header(std::span<const SharePiece> pieces) {
  std::vector<ShardTensor> header;
  for (const SharePiece& piece : pieces) header.push_back({piece.entry.key, piece.entry.dtype, piece.shape, {}});
  return header;
}

Status stage_pieces(const TrainingState& state, std::span<const SharePiece> pieces, const ComputeContext* compute,
                    std::byte* to, DeviceQueue* queue) {
  const std::vector<StateArray> arrays = arrays_of(state);
  struct Place {
    std::int64_t begin, end;
    const std::byte* from;
  };
  std::vector<Place> places;
  std::int64_t bytes = 0;
  for (const SharePiece& piece : pieces) {
    const StateArray& array = arrays[static_cast<std::size_t>(piece.array)];
    const std::byte* from = nullptr;  // not in memory
    if (array.in_memory())
      from = static_cast<const std::byte*>(array.memory().rows(piece.packed.begin, piece.packed.end).data());
    places.push_back({bytes, bytes + piece.bytes(), from});
    bytes += piece.bytes();
  }
  const auto copy = [&](std::int64_t begin, std::int64_t end) {
    auto place = std::partition_point(places.begin(), places.end(), [&](const Place& p) { return p.end <= begin; });
    for (; place != places.end() && place->begin < end; ++place) {
      const std::int64_t first = std::max(begin, place->begin), last = std::min(end, place->end);
      if (place->from)
        std::memcpy(to + first, place->from + (first - place->begin), static_cast<std::size_t>(last - first));
    }
  };
  if (compute)
    parallel_for(*compute, bytes, std::int64_t{1} << 20, copy);
  else
    copy(0, bytes);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const SharePiece& piece = pieces[i];
    const StateArray& array = arrays[static_cast<std::size_t>(piece.array)];
    if (places[i].from || piece.bytes() == 0) continue;
    std::byte* const here = to + places[i].begin;
    if (queue && array.device())
      queue->copy(array.address(piece.packed), here, piece.bytes());
    else
      LH_CHECK(array.read(piece.packed, {here, static_cast<std::size_t>(piece.bytes())}));
  }
  return {};
}

CheckpointManifest manifest_of(const TrainingState& state) {
  CheckpointManifest manifest;
  manifest.step = state.progress.step;
  manifest.consumed_samples = state.progress.consumed_samples;
  manifest.adam_step = state.progress.adam_step;
  manifest.seed = state.seed;
  manifest.shape = state.shape;
  manifest.written_by = state.layout->place().dims;
  manifest.extra = state.extra;
  for (const char* suffix : state_suffixes())
    for (const ParameterSpec& spec : parameter_list(state.shape))
      manifest.tensors.emplace_back(spec.name + suffix, spec.shape);
  return manifest;
}

namespace {

Result<ShardWriter> begin_shard(const std::string& path, std::span<const SharePiece> pieces,
                                const ShardWriteOptions& options) {
  if (auto fault = fault_here(FaultPoint::checkpoint_before_shard)) return *fault;
  return ShardWriter::create(path, shard_header(pieces), options);
}

Status end_shard(ShardWriter& writer, WrittenShare& written) {
  LH_CHECK(writer.finish());
  written.direct = writer.is_direct();
  if (auto fault = fault_here(FaultPoint::checkpoint_after_shard)) return *fault;
  return {};
}

void add_entry(WrittenShare& written, const SharePiece& piece, std::string_view bytes) {
  written.entries.push_back(piece.entry);
  written.entries.back().xxh3 = xxh3_64(bytes);
  written.bytes += piece.bytes();
}

}  // namespace

Result<WrittenShare> write_pieces(const std::string& path, std::span<const SharePiece> pieces,
                                  const ShardWriteOptions& options,
                                  const std::function<Result<std::string_view>(const SharePiece&)>& next) {
  LH_TRY(ShardWriter writer, begin_shard(path, pieces, options));
  WrittenShare written;
  for (const SharePiece& piece : pieces) {
    LH_TRY(const std::string_view bytes, next(piece));
    add_entry(written, piece, bytes);
    LH_CHECK(writer.append(bytes));
  }
  LH_CHECK(end_shard(writer, written));
  return written;
}

Result<WrittenShare> write_staged(const std::string& path, std::span<const SharePiece> pieces,
                                  const ShardWriteOptions& options, std::string_view staged) {
  constexpr std::size_t page = static_cast<std::size_t>(checkpoint_page_bytes);
  constexpr std::size_t enough = std::size_t{8} << 20;  // what was just hashed is written while the caches have it
  LH_TRY(ShardWriter writer, begin_shard(path, pieces, options));
  WrittenShare written;
  std::size_t hashed = 0, out = 0;
  for (const SharePiece& piece : pieces) {
    add_entry(written, piece, staged.substr(hashed, static_cast<std::size_t>(piece.bytes())));
    hashed += static_cast<std::size_t>(piece.bytes());
    if (hashed - out < enough) continue;
    const std::size_t end = hashed / page * page;
    LH_CHECK(writer.append(staged.substr(out, end - out)));
    out = end;
  }
  LH_CHECK(writer.append(staged.substr(out, hashed - out)));
  LH_CHECK(end_shard(writer, written));
  return written;
}

std::string entries_to_text(std::span<const CheckpointEntry> entries) {
  CheckpointManifest part;
  part.entries.assign(entries.begin(), entries.end());
  return to_json(checkpoint_to_value(part));
}

Result<std::vector<CheckpointEntry>> entries_from_text(const std::string& text) {
  LH_TRY(const Value value, parse_json(text, "entries of a rank"));
  LH_TRY(CheckpointManifest part, checkpoint_from_value(value));
  return std::move(part.entries);
}

}  // namespace longhaul
