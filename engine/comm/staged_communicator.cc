#include "engine/comm/staged_communicator.h"

#include <utility>
#include <vector>

#include "base/text/text.h"
#include "engine/core/tensor/memory_accounts.h"

namespace longhaul {
namespace {

// An operation on the host, and what is copied to the device once it is done.
class StagedOperation final : public CommOperation {
 public:
  StagedOperation(Device& device, MemoryAccount* memory) : device_(device), memory_(memory) {}

  // The host's copies of spans of the device; other spans as they are. One that is both in and out is copied once.
  void stage(ConstBytes& in, Bytes& out) {
    const bool in_place = in.data() == out.data() && in.size() == out.size();
    if (lies_on_device(in)) {
      in_.resize(in.size());
      device_.copy_out(in.data(), in_.data(), static_cast<std::int64_t>(in.size()));
      in = in_;
    }
    if (lies_on_device(out)) {
      on_device_ = out;
      if (!in_place) out_.resize(out.size());
      out = in_place ? Bytes(in_) : Bytes(out_);
      on_host_ = out;
    }
    memory_.set(bytes_of_vector(in_) + bytes_of_vector(out_));
  }
  void follow(std::unique_ptr<CommOperation> on_host) { operation_ = std::move(on_host); }

  Result<bool> poll() override {
    LH_TRY(const bool done, operation_->poll());
    if (!done) return false;
    if (!on_device_.empty())
      device_.copy_in(on_host_.data(), on_device_.data(), static_cast<std::int64_t>(on_device_.size()));
    return true;
  }
  std::vector<int> waiting_for() override { return operation_->waiting_for(); }
  bool doze() override { return operation_->doze(); }
  // From then on the other communicator does not touch the copies: they go with this.
  void abandon(const std::string& reason) override { operation_->abandon(reason); }

 private:
  bool lies_on_device(ConstBytes bytes) const { return !bytes.empty() && device_.owns(bytes.data()); }

  Device& device_;
  std::vector<std::byte> in_, out_;
  Bytes on_host_, on_device_;
  MemoryCharge memory_;
  std::unique_ptr<CommOperation> operation_;
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Device& device, std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->members(), inner->epoch(), inner->name(), inner->options()),
        device_(device),
        inner_(std::move(inner)) {}

  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    return std::make_unique<StagedCommunicator>(device_, inner_->subgroup(axis, name, ranks));
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& given) override {
    auto operation = std::make_unique<StagedOperation>(device_, options().memory);
    Arguments arguments = given;
    operation->stage(arguments.in, arguments.out);
    LH_TRY(std::unique_ptr<CommOperation> on_host, start_of(*inner_, arguments));
    operation->follow(std::move(on_host));
    return std::unique_ptr<CommOperation>(std::move(operation));
  }

 private:
  Device& device_;
  std::unique_ptr<Communicator> inner_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Device& device, std::unique_ptr<Communicator> inner) {
  return std::make_unique<StagedCommunicator>(device, std::move(inner));
}

}  // namespace longhaul
