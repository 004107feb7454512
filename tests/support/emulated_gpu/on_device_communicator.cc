#include "tests/support/emulated_gpu/on_device_communicator.h"

#include <utility>
#include <vector>

namespace longhaul::testing {
namespace {

class OnDeviceOperation final : public CommOperation {
 public:
  explicit OnDeviceOperation(Device& device) : device_(device) {}
  void place(ConstBytes& in, Bytes& out) {
    const bool in_place = in.data() == out.data() && in.size() == out.size();
    on_host_ = out;
    if (!in.empty()) {
      in_ = DeviceMemory(device_, size_of(in));
      device_.copy_in(in.data(), in_.data(), size_of(in));
      in = {in_.data(), in.size()};
    }
    if (out.empty()) return;
    if (!in_place) out_ = DeviceMemory(device_, size_of(out));
    out = {in_place ? in_.data() : out_.data(), out.size()};
    on_device_ = out;
  }
  void follow(std::unique_ptr<CommOperation> operation) { operation_ = std::move(operation); }

  Result<bool> poll() override {
    LH_TRY(const bool done, operation_->poll());
    if (done && !on_host_.empty()) device_.copy_out(on_device_.data(), on_host_.data(), size_of(on_host_));
    return done;
  }
  std::vector<int> waiting_for() override { return operation_->waiting_for(); }
  bool doze() override { return operation_->doze(); }
  // The memory is written over and goes with this: whoever still touches it is found by the sums of others, or by a
  // sanitizer.
  void abandon(const std::string& reason) override {
    operation_->abandon(reason);
    for (const DeviceMemory* memory : {&in_, &out_}) {
      const std::vector<unsigned char> nonsense(static_cast<std::size_t>(memory->bytes()), 0xAA);
      if (!nonsense.empty()) device_.copy_in(nonsense.data(), memory->data(), memory->bytes());
    }
  }

 private:
  static std::int64_t size_of(ConstBytes bytes) { return static_cast<std::int64_t>(bytes.size()); }
  Device& device_;
  DeviceMemory in_, out_;
  Bytes on_host_, on_device_;
  std::unique_ptr<CommOperation> operation_;
};

class OnDeviceCommunicator final : public Communicator {
 public:
  OnDeviceCommunicator(Device& device, std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->members(), inner->epoch(), inner->name(), inner->options()),
        device_(device),
        inner_(std::move(inner)) {
    // Who counts on the page is the one that is checked.
    if (counts_on_device(*inner_)) count_on_device();
  }

  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    return std::make_unique<OnDeviceCommunicator>(device_, inner_->subgroup(axis, name, ranks));
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& given) override {
    auto operation = std::make_unique<OnDeviceOperation>(device_);
    Arguments arguments = given;
    operation->place(arguments.in, arguments.out);
    LH_TRY(std::unique_ptr<CommOperation> inner, start_of(*inner_, arguments));
    operation->follow(std::move(inner));
    return std::unique_ptr<CommOperation>(std::move(operation));
  }
  Result<std::unique_ptr<CommOperation>> start_exchange(const Arguments& given) override { return start(given); }

 private:
  Device& device_;
  std::unique_ptr<Communicator> inner_;
};

}  // namespace

std::unique_ptr<Communicator> make_on_device_communicator(Device& device, std::unique_ptr<Communicator> inner) {
  return std::make_unique<OnDeviceCommunicator>(device, std::move(inner));
}

}  // namespace longhaul::testing
