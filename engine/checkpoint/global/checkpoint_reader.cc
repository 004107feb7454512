#include "engine/checkpoint/global/checkpoint_reader.h"

#include <algorithm>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/checkpoint/global/retention.h"

namespace longhaul {

Result<std::unique_ptr<CheckpointReader>> CheckpointReader::open(const std::string& folder) {
  std::unique_ptr<CheckpointReader> reader(new CheckpointReader());
  reader->folder_ = folder;
  LH_TRY(reader->manifest_, read_checkpoint_manifest(folder));
  const CheckpointManifest& manifest = reader->manifest_;
  LH_CHECK(check_coverage(manifest).with_context(join_path(folder, checkpoint_manifest_name)));
  for (const auto& [name, shape] : manifest.tensors) reader->shapes_.emplace(name, shape);
  for (std::size_t i = 0; i < manifest.entries.size(); ++i) reader->entries_[manifest.entries[i].tensor].push_back(i);
  reader->verified_ = std::make_unique<std::atomic<bool>[]>(manifest.entries.size());
  return reader;
}

bool box_fits(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.extent.size() != shape.size()) return false;
  for (std::size_t dim = 0; dim < shape.size(); ++dim)
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || box.offset[dim] + box.extent[dim] > shape[dim]) return false;
  return true;
}

bool may_overlap(const CheckpointEntry& entry, const BoxRange& to) {
  const Box &a = entry.box, &b = to.box;
  if (a.extent.size() != b.extent.size()) return true;  // refused when it is read
  if (a.offset == b.offset && a.extent == b.extent) return entry.flat_begin < to.end && to.begin < entry.flat_end;
  for (std::size_t dim = 0; dim < a.extent.size(); ++dim)
    if (a.offset[dim] >= b.offset[dim] + b.extent[dim] || b.offset[dim] >= a.offset[dim] + a.extent[dim]) return false;
  return true;
}

std::vector<std::size_t> CheckpointReader::entries_of(const std::string& tensor, const BoxRange& to) const {
  std::vector<std::size_t> found;
  const auto all = entries_.find(tensor);
  if (all == entries_.end()) return found;
  for (const std::size_t index : all->second)
    if (may_overlap(manifest_.entries[index], to)) found.push_back(index);
  return found;
}

Result<const ShardReader*> CheckpointReader::shard(const std::string& file) {
  const std::lock_guard lock(mutex_);
  auto found = shards_.find(file);
  if (found == shards_.end()) {
    LH_TRY(ShardReader reader, ShardReader::open(join_path(folder_, file)));
    found = shards_.emplace(file, std::move(reader)).first;
  }
  return &found->second;
}

Result<ConstView> verified_entry(const ShardReader& shard, const std::string& file, const CheckpointEntry& entry,
                                 bool check_digest) {
  const ShardTensor* tensor = shard.find(entry.key);
  if (!tensor) return make_error(ErrorCode::corrupt, file + " has no tensor " + entry.key);
  const Result<DType> dtype = dtype_of_stored(entry.dtype);
  if (!dtype.ok() || tensor->dtype != entry.dtype || tensor->bytes.size() != static_cast<std::size_t>(entry.bytes()) ||
      reinterpret_cast<std::uintptr_t>(tensor->bytes.data()) % static_cast<std::uintptr_t>(dtype_bytes(*dtype)) != 0)
    return make_error(ErrorCode::corrupt, format("{}: {} is not what the manifest says", file, entry.key));
  if (!check_digest) return ConstView(tensor->bytes.data(), *dtype, Shape{entry.flat_end - entry.flat_begin});
  LH_CHECK(read_in(tensor->bytes, file));
  if (xxh3_64(tensor->bytes) != entry.xxh3)
    return make_error(ErrorCode::corrupt,
                      format("{}: the bytes of {} do not have the digest that the manifest says", file, entry.key));
  return ConstView(tensor->bytes.data(), *dtype, Shape{entry.flat_end - entry.flat_begin});
}

Result<ConstView> CheckpointReader::entry(std::size_t index) {
  const CheckpointEntry& entry = manifest_.entries[index];
  const std::string file = join_path(folder_, entry.file);
  LH_TRY(const ShardReader* const reader, shard(entry.file));
  const auto shape = shapes_.find(entry.tensor);
  if (shape == shapes_.end() || !box_fits(entry.box, shape->second))
    return make_error(ErrorCode::corrupt, format("{}: {} lies outside of its tensor",
                                                 join_path(folder_, checkpoint_manifest_name), entry.key));
  const bool known = verified_[index].load(std::memory_order_relaxed);
  LH_TRY(const ConstView values, verified_entry(*reader, file, entry, !known));
  if (!known) verified_[index].store(true, std::memory_order_relaxed);
  return values;
}

Result<std::int64_t> CheckpointReader::copy_entry(std::size_t index, const BoxRange& to, View out) {
  const CheckpointEntry& entry = manifest_.entries[index];
  LH_TRY(const ConstView piece, this->entry(index));
  if (entry.box.extent.size() != to.box.extent.size())
    return make_error(ErrorCode::corrupt, format("{}: {} has another number of dimensions", folder_, entry.tensor));
  return copy_between_boxes(piece, {entry.box, entry.flat_begin, entry.flat_end}, to, out);
}

Status CheckpointReader::read(const std::string& tensor, const BoxRange& to, View out) {
  std::int64_t filled = 0;
  for (const std::size_t index : entries_of(tensor, to)) {
    LH_TRY(const std::int64_t copied, copy_entry(index, to, out));
    filled += copied;
  }
  if (filled != to.end - to.begin)
    return make_error(ErrorCode::corrupt, format("{} does not hold {}", folder_, tensor));
  return {};
}

}  // namespace longhaul
