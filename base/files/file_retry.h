// Questions to a file system that sometimes answers with an error: a server is replaced, a client is evicted, a handle
// is stale. ENOENT alone (ErrorCode::not_found) says that something is not there; what the operating system refuses
// otherwise (ErrorCode::io) says nothing about it, is asked again, and is an error in the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

struct FileRetry {
  int tries = 61;  // a minute
  std::int64_t pause_ms = 1000;
};

// The outcome of `question`, a Status or a Result. ErrorCode::io only after all tries.
template <class Question>
auto retried(const FileRetry& retry, const Question& question) {
  for (int asked = 1;; ++asked) {
    auto answer = question();
    if (answer.ok() || answer.error().code != ErrorCode::io || asked >= retry.tries) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(retry.pause_ms));
  }
}

// Names in a folder, sorted; none where there is no such folder.
Result<std::vector<std::string>> names_if_there(const std::string& folder);
// The text of a file; empty where there is none.
Result<std::string> text_if_there(const std::string& path);

}  // namespace longhaul
