// A tiny model as a folder, for tests of what reads one, and token ids for it.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "engine/model/store/model_folder.h"
#include "engine/model/store/parameter_store.h"
#include "tests/support/scratch.h"
#include "tests/support/write_model_folder.h"

namespace longhaul::test {

struct InferenceFolder {
  explicit InferenceFolder(const ParameterStore& store, const std::string& dtype = "f32") {
    char name[] = "/tmp/longhaul-model-XXXXXX";
    path = ::mkdtemp(name);
    ModelFolderOptions options;
    options.dtype = dtype;
    options.config.eos_token_ids = {1, 2};
    const Status status = testing::write_model_folder(path, store, options);
    REQUIRE(status.ok());
  }
  ~InferenceFolder() { [[maybe_unused]] const Status removed = remove_tree(path); }
  InferenceFolder(const InferenceFolder&) = delete;
  InferenceFolder& operator=(const InferenceFolder&) = delete;
  std::string path;
};

inline std::vector<std::int32_t> inference_tokens(std::uint64_t seed, std::int64_t count) {
  PhiloxSequence random(seed, 3);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(random.next_below(37)));
  return ids;
}

// Biases and norms too are no longer ones and zeros, and bottlenecks change something.
inline void move_vectors(ParameterStore& store) {
  for (const FlatParameter& p : store.layout().parameters())
    if (p.spec.shape.size() == 1 || is_of_bottleneck(p.spec))
      for (std::int64_t i = p.begin; i < p.end; ++i)
        store.masters()[static_cast<std::size_t>(i)] +=
            0.2F * static_cast<float>(Philox{5, 9}.normal(static_cast<std::uint64_t>(i)));
}

}  // namespace longhaul::test
