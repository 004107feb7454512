// Where the ranks of a launch leave entries for each other before they can send: each is put once under a name of
// its own, and anyone may look for it. Small values (NCCL's id of a communicator), seldom. Names and sizes:
// contracts/control/rendezvous_folder.h.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/error/result.h"
#include "contracts/records/launch.h"

namespace longhaul {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // invalid_input: no name, or too long a value; conflict: there is one already.
  virtual Status put(const std::string& name, const std::string& value) = 0;
  // Empty: nobody has put it yet, or it is still on its way here. Does not wait.
  virtual Result<std::optional<std::string>> look(const std::string& name) = 0;
  // How long an entry that was put elsewhere may stay unseen after it was first looked for; 0: it is seen at once.
  virtual std::int64_t travel_ms() const { return 0; }
};

// In a folder, a file for each entry; the folder is of one launch and is made by the first entry. All hosts see it, or
// each has one of its own between which the agents carry what is looked for. A look fails where the entry cannot be had
// any more: two ranks have left different ones (conflict), or there are too many.
class FileRendezvous final : public Rendezvous {
 public:
  explicit FileRendezvous(std::string folder) : folder_(std::move(folder)) {}
  Status put(const std::string& name, const std::string& value) override;
  Result<std::optional<std::string>> look(const std::string& name) override;
  std::int64_t travel_ms() const override { return 500; }

 private:
  std::string folder_;
  std::set<std::string> asked_;
};

// That of a launch.
std::unique_ptr<Rendezvous> rendezvous_of(const Launch& launch);

// For ranks that are threads of one process. Any thread.
class ThreadsRendezvous final : public Rendezvous {
 public:
  Status put(const std::string& name, const std::string& value) override;
  Result<std::optional<std::string>> look(const std::string& name) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> entries_;
};

}  // namespace longhaul
