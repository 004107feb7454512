// One operation of a communicator over NCCL, as the host sees it: begun, looked at, concluded. What the device does in
// it is nccl_step_builder.h.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/nccl/nccl_step_builder.h"

namespace longhaul {

class NcclOperation final : public CommOperation {
 public:
  NcclOperation(std::shared_ptr<NcclState> state, std::shared_ptr<NcclGroup> group, NcclRequest request);
  // Takes staging memory and gives the group its steps; asks the device for nothing.
  Status begin();

  Result<bool> poll() override;
  std::vector<int> waiting_for() override;
  void abandon(const std::string& reason) override;

 private:
  Status check_sizes();
  void deliver();
  void note_digests() const;

  std::shared_ptr<NcclState> state_;
  std::shared_ptr<NcclGroup> group_;
  std::shared_ptr<NcclWork> work_;
  bool sizes_checked_ = false;
};

}  // namespace longhaul
