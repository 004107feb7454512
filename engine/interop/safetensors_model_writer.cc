#include "engine/interop/safetensors_model_writer.h"

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::int64_t bytes_of(const SafetensorInfo& tensor) {
  return tensor.elements() * static_cast<std::int64_t>(element_bytes(tensor.type));
}

}  // namespace

Result<SafetensorsModelWriter> SafetensorsModelWriter::create(const std::string& folder,
                                                              std::vector<SafetensorInfo> tensors,
                                                              std::int64_t shard_bytes_max,
                                                              const std::map<std::string, std::string>& metadata) {
  SafetensorsModelWriter writer;
  writer.folder_ = folder, writer.metadata_ = metadata;
  for (SafetensorInfo& tensor : tensors) {
    const std::int64_t bytes = bytes_of(tensor);
    const bool full = !writer.files_.empty() && shard_bytes_max > 0 && writer.files_.back().bytes > 0 &&
                      writer.files_.back().bytes + bytes > shard_bytes_max;
    if (writer.files_.empty() || full) writer.files_.emplace_back();
    if (!writer.file_of_.emplace(tensor.name, writer.files_.size() - 1).second)
      return make_error(ErrorCode::internal, format("tensor name '{}' comes twice", tensor.name));
    writer.files_.back().bytes += bytes;
    writer.files_.back().tensors.push_back(std::move(tensor));
  }
  const std::size_t count = writer.files_.size();
  for (std::size_t i = 0; i < count; ++i)
    writer.files_[i].name = count == 1 ? single_name : format("model-{:05d}-of-{:05d}.safetensors", i + 1, count);
  return writer;
}

Status SafetensorsModelWriter::write(const std::string& name, std::string_view bytes, std::int64_t offset) {
  const auto found = file_of_.find(name);
  if (found == file_of_.end())
    return make_error(ErrorCode::internal, format("{}: tensor '{}' was not declared", folder_, name));
  File& file = files_[found->second];
  if (!file.writer) {
    LH_TRY(SafetensorsWriter writer,
           SafetensorsWriter::create(join_path(folder_, file.name), std::move(file.tensors), metadata_));
    file.writer.emplace(std::move(writer));
  }
  LH_CHECK(file.writer->write(name, bytes, offset));
  file.written += static_cast<std::int64_t>(bytes.size());
  if (file.written == file.bytes) LH_CHECK(file.writer->finish());
  return {};
}

Status SafetensorsModelWriter::finish() {
  std::int64_t total = 0;
  for (const File& file : files_) {
    if (file.written != file.bytes)
      return make_error(ErrorCode::internal,
                        format("{}: {} of {} bytes of {} were written", folder_, file.written, file.bytes, file.name));
    total += file.bytes;
  }
  // What an earlier writing left would be read instead.
  const std::string index_path = join_path(folder_, index_name);
  if (files_.size() <= 1) return remove_tree(index_path);
  LH_CHECK(remove_tree(join_path(folder_, single_name)));
  Value metadata = Value::make_table(), weights = Value::make_table(), index = Value::make_table();
  metadata.set("total_size", total);
  for (const auto& [name, file] : file_of_) weights.set(name, files_[file].name);
  index.set("metadata", std::move(metadata));
  index.set("weight_map", std::move(weights));
  return write_file_atomic(index_path, to_json_pretty(index));
}

}  // namespace longhaul
