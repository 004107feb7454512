#include "engine/comm/communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text/text.h"
#include "engine/comm/poll_pause.h"
#include "resiliency/beat/heartbeat_page.h"

namespace longhaul {

Request::~Request() {
  if (operation_) operation_->abandon(std::string(to_string(kind_)) + " was dropped before it was done");
}

namespace {

// Messages between two are not counted: members need not have as many of them.
bool is_message(CollectiveKind kind) {
  return kind == CollectiveKind::send || kind == CollectiveKind::recv;
}

// A receive and a send that are one operation.
class ExchangeOperation final : public CommOperation {
 public:
  void add(std::unique_ptr<CommOperation> half) { halves_.push_back(std::move(half)); }

  Result<bool> poll() override {
    for (auto half = halves_.begin(); half != halves_.end();) {
      LH_TRY(const bool done, (*half)->poll());
      half = done ? halves_.erase(half) : std::next(half);
    }
    return halves_.empty();
  }
  std::vector<int> waiting_for() override {
    std::vector<int> ranks;
    for (const auto& half : halves_)
      for (const int rank : half->waiting_for())
        if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
    return ranks;
  }
  bool doze() override { return !halves_.empty() && halves_.front()->doze(); }
  void abandon(const std::string& reason) override {
    for (const auto& half : halves_) half->abandon(reason);
  }

 private:
  std::vector<std::unique_ptr<CommOperation>> halves_;  // those that are not done
};

}  // namespace

Communicator::Communicator(int rank, std::vector<int> members, std::uint64_t epoch, std::string name,
                           const CommOptions& options)
    : rank_(rank),
      size_(static_cast<int>(members.size())),
      members_(std::move(members)),
      epoch_(epoch),
      name_(std::move(name)),
      options_(options) {
  LH_ASSERT(options_.clock != nullptr, "a communicator needs a clock");
  LH_ASSERT(rank >= 0 && rank < size_, format("rank {} of {}", rank, size_));
  if (!options_.beat) return;
  const int lowest = *std::min_element(members_.begin(), members_.end());
  shown_as_ = options_.beat->communicator(name_ == "world" ? name_ : format("{}@{}", name_, lowest));
  options_.beat->restart_counters(shown_as_);
}

Request Communicator::begin(CollectiveKind kind, ConstBytes in, Bytes out, int peer, int tag) {
  return begin({kind, 0, in, out, peer, tag});
}

std::uint64_t Communicator::bytes_sent_by(const Arguments& a) const {
  if (a.kind == CollectiveKind::broadcast && a.peer != rank_) return 0;
  const std::size_t own = a.in_bytes.empty() ? 0 : a.in_bytes[static_cast<std::size_t>(rank_)];
  return static_cast<std::uint64_t>(
      bytes_sent(a.kind, size_, rank_, static_cast<std::int64_t>(a.in.size()), static_cast<std::int64_t>(own)));
}

Request Communicator::begin(Arguments arguments) {
  Request request;
  request.kind_ = arguments.kind;
  request.peer_ = arguments.from >= 0 ? arguments.from : arguments.peer;
  request.sequence_ = arguments.sequence = sequence_++;
  counters_.enqueued.fetch_add(1, std::memory_order_relaxed);
  if (options_.beat && !is_message(arguments.kind)) options_.beat->enqueued(shown_as_);
  counters_.given.fetch_add(arguments.in.size(), std::memory_order_relaxed);
  counters_.sent.fetch_add(bytes_sent_by(arguments), std::memory_order_relaxed);
  if (options_.trace) request.begun_ns_ = options_.trace->now();
  if (broken_) {
    request.error_ =
        make_error(ErrorCode::aborted, format("{}: this communicator is broken: {}", text_of(request), broken_->what));
    return request;
  }
  auto operation = arguments.from >= 0 ? start_exchange(arguments) : start(arguments);
  if (operation) {
    request.operation_ = std::move(operation).value();
  } else {
    request.error_ = operation.error();
  }
  return request;
}

Request Communicator::all_reduce_sum(std::span<float> data, ContributionRecord* record) {
  Arguments arguments{CollectiveKind::all_reduce_sum, 0, std::as_bytes(data), std::as_writable_bytes(data)};
  arguments.record = record;
  return begin(arguments);
}
Request Communicator::all_reduce_max(std::span<float> data) {
  return begin(CollectiveKind::all_reduce_max, std::as_bytes(data), std::as_writable_bytes(data), 0, 0);
}
Request Communicator::reduce_scatter_sum(std::span<const float> in, std::span<float> out, ContributionRecord* record) {
  LH_ASSERT(in.size() == out.size() * static_cast<std::size_t>(size_), format("{} -> {}", in.size(), out.size()));
  Arguments arguments{CollectiveKind::reduce_scatter_sum, 0, std::as_bytes(in), std::as_writable_bytes(out)};
  arguments.record = record;
  return begin(arguments);
}
Request Communicator::all_gather(ConstBytes in, Bytes out) {
  LH_ASSERT(out.size() == in.size() * static_cast<std::size_t>(size_), format("{} -> {} bytes", in.size(), out.size()));
  return begin(CollectiveKind::all_gather, in, out, 0, 0);
}
Request Communicator::broadcast(Bytes data, int root) {
  LH_ASSERT(root >= 0 && root < size_, format("root {} of {} ranks", root, size_));
  return begin(CollectiveKind::broadcast, data, data, root, 0);
}
Request Communicator::all_to_all(ConstBytes in, Bytes out) {
  LH_ASSERT(in.size() == out.size() && in.size() % static_cast<std::size_t>(size_) == 0,
            format("{} -> {} bytes over {} ranks", in.size(), out.size(), size_));
  return begin(CollectiveKind::all_to_all, in, out, 0, 0);
}
Request Communicator::all_to_all_v(ConstBytes in, std::span<const std::size_t> in_bytes, Bytes out,
                                   std::span<const std::size_t> out_bytes) {
  const auto sum = [&](std::span<const std::size_t> bytes) {
    LH_ASSERT(bytes.size() == static_cast<std::size_t>(size_), format("{} sizes for {} ranks", bytes.size(), size_));
    return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  };
  LH_ASSERT(sum(in_bytes) == in.size() && sum(out_bytes) == out.size(),
            format("{} of {} -> {} of {} bytes", sum(in_bytes), in.size(), sum(out_bytes), out.size()));
  return begin({CollectiveKind::all_to_all_v, 0, in, out, 0, 0, in_bytes, out_bytes});
}
Request Communicator::barrier() {
  return begin(CollectiveKind::barrier, {}, {}, 0, 0);
}
Request Communicator::send(ConstBytes data, int to, int tag) {
  LH_ASSERT(to >= 0 && to < size_ && to != rank_ && tag >= 0 && tag < 1024, format("to {} tag {}", to, tag));
  return begin(CollectiveKind::send, data, {}, to, tag);
}
Request Communicator::recv(Bytes data, int from, int tag) {
  LH_ASSERT(from >= 0 && from < size_ && from != rank_ && tag >= 0 && tag < 1024, format("from {} tag {}", from, tag));
  return begin(CollectiveKind::recv, {}, data, from, tag);
}

Request Communicator::exchange(ConstBytes give, int to, Bytes take, int from, int tag) {
  const auto is_other = [this](int rank) { return rank >= 0 && rank < size_ && rank != rank_; };
  LH_ASSERT(is_other(to) && is_other(from) && tag >= 0 && tag < 1024, format("to {} from {} tag {}", to, from, tag));
  Arguments arguments{CollectiveKind::send, 0, give, take, to, tag};
  arguments.from = from;
  return begin(arguments);
}

Result<std::unique_ptr<CommOperation>> Communicator::start_exchange(const Arguments& a) {
  auto both = std::make_unique<ExchangeOperation>();
  const auto add = [&](const Arguments& half) -> Status {
    LH_TRY(std::unique_ptr<CommOperation> started, start(half));
    both->add(std::move(started));
    return {};
  };
  Status begun;
  if (!a.out.empty()) begun = add({CollectiveKind::recv, a.sequence, {}, a.out, a.from, a.tag});
  if (begun.ok() && !a.in.empty()) begun = add({CollectiveKind::send, a.sequence, a.in, {}, a.peer, a.tag});
  if (!begun.ok()) {
    both->abandon(begun.error().what);
    return begun.error();
  }
  return std::unique_ptr<CommOperation>(std::move(both));
}

std::atomic<std::uint64_t>* Communicator::completed_word() const {
  return options_.beat ? options_.beat->completed_word(shown_as_) : nullptr;
}

std::string Communicator::text_of(const Request& request) const {
  return format("{} number {} of {} (epoch {}) at rank {} of {}", to_string(request.kind_), request.sequence_, name_,
                epoch_, rank_, size_);
}

Error Communicator::fail(Request& request, Error error) {
  if (request.operation_) request.operation_->abandon(error.what);
  request.operation_.reset();
  if (!broken_) broken_ = error;
  return error;
}

Result<bool> Communicator::test(Request& request) {
  if (request.error_) {
    Error error = *request.error_;
    return fail(request, std::move(error));
  }
  if (!request.operation_) return true;
  Result<bool> done = request.operation_->poll();
  if (!done) return fail(request, done.error().with_context(text_of(request)));
  if (*done) {
    counters_.completed.fetch_add(1, std::memory_order_relaxed);
    if (options_.beat && !counted_on_device_ && !is_message(request.kind_)) options_.beat->completed(shown_as_);
    if (options_.trace) options_.trace->add(name_, to_string(request.kind_), request.begun_ns_, options_.trace->now());
    request.operation_.reset();
    return true;
  }
  if (auto left = asked_to_leave(request)) return fail(request, std::move(*left));
  return false;
}

std::optional<Error> Communicator::asked_to_leave(const Request& request) const {
  if (options_.abort != nullptr && options_.abort->load(std::memory_order_acquire))
    return make_error(ErrorCode::aborted, text_of(request) + ": asked to stop");
  const std::int64_t newest = options_.newest_epoch ? options_.newest_epoch->load(std::memory_order_acquire) : 0;
  if (newest > static_cast<std::int64_t>(epoch_))
    return make_error(ErrorCode::aborted, format("{}: left for epoch {}", text_of(request), newest));
  return std::nullopt;
}

Status Communicator::wait(Request request, std::int64_t timeout_ms) {
  const std::int64_t begun = options_.clock->monotonic_ns();
  Status done = wait_for(std::move(request), timeout_ms);
  if (options_.beat) options_.beat->waits(beat_waits_nowhere);
  counters_.waited_ns.fetch_add(static_cast<std::uint64_t>(options_.clock->monotonic_ns() - begun),
                                std::memory_order_relaxed);
  return done;
}

void Communicator::show_wait(const Request& request) const {
  const bool message = is_message(request.kind_);
  options_.beat->waits(shown_as_, message ? members_[static_cast<std::size_t>(request.peer_)] : -1);
}

Status Communicator::wait_for(Request request, std::int64_t timeout_ms) {
  const Deadline deadline(*options_.clock, timeout_ms);
  PollPause pause;
  for (std::int64_t polls = 0;; ++polls) {
    LH_TRY(const bool done, test(request));
    if (done) return {};
    if (polls == 0 && options_.beat) show_wait(request);
    if (polls % 16 == 15 && deadline.passed()) {
      std::vector<std::string> missing;
      for (int rank : request.operation_->waiting_for()) missing.push_back(std::to_string(rank));
      const std::string who = missing.empty() ? "some rank" : "rank " + join(missing, ", ");
      return fail(request, make_error(ErrorCode::timeout,
                                      format("{}: nothing from {} within {} ms", text_of(request), who, timeout_ms),
                                      "that rank did not come to this operation, or its host is gone"));
    }
    if (!pause.is_busy()) {
      if (options_.beat) options_.beat->polled();
      if (request.operation_->doze()) continue;
    }
    pause.next();
  }
}

}  // namespace longhaul
