// Where the ranks of a launch leave words for each other before they can send: each word is put once under a name of
// its own, and anyone may look for it. Small words (NCCL's id of a communicator), seldom.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"

namespace longhaul {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual Status put(const std::string& name, const std::string& word) = 0;
  // Empty: nobody has put it yet. Does not wait.
  virtual Result<std::optional<std::string>> look(const std::string& name) = 0;
};

// In a folder that all hosts see, a file for each word; the folder is of one launch and is made by the first word.
class FileRendezvous final : public Rendezvous {
 public:
  explicit FileRendezvous(std::string folder) : folder_(std::move(folder)) {}
  Status put(const std::string& name, const std::string& word) override;
  Result<std::optional<std::string>> look(const std::string& name) override;

 private:
  std::string folder_;
};

// For ranks that are threads of one process. Any thread.
class ThreadsRendezvous final : public Rendezvous {
 public:
  Status put(const std::string& name, const std::string& word) override;
  Result<std::optional<std::string>> look(const std::string& name) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> words_;
};

}  // namespace longhaul
