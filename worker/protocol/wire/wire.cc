#include "worker/protocol/wire/wire.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr std::string_view magic = "LHW1";
constexpr std::size_t refusal_bytes_max = 500;
constexpr const char* led_from_key = "led_from";
constexpr std::uint16_t first_of_this_layout = 2;  // versions before had other places for their nonces

struct Header {
  std::uint16_t version = 0, kind = 0;
  std::uint32_t body_bytes = 0;
  std::int64_t epoch = 0;
  std::uint64_t number = 0;
};

template <class T>
void put_number(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFFU);
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return static_cast<T>(value);
}

std::string header_bytes(const Header& header) {
  std::string out(magic);
  put_number(out, header.version);
  put_number(out, header.kind);
  put_number(out, header.body_bytes);
  put_number(out, std::uint32_t{0});
  put_number(out, header.epoch);
  put_number(out, header.number);
  return out;
}

Header header_of(std::string_view bytes) {
  Header header;
  header.version = number_at<std::uint16_t>(bytes, 4);
  header.kind = number_at<std::uint16_t>(bytes, 6);
  header.body_bytes = number_at<std::uint32_t>(bytes, 8);
  header.epoch = number_at<std::int64_t>(bytes, 16);
  header.number = number_at<std::uint64_t>(bytes, 24);
  return header;
}

std::string versions_text(std::uint16_t other) {
  return format("the other side speaks version {} of the protocol, this one {}", other, wire_version);
}

Mac mac_at(std::string_view bytes, std::size_t at) {
  Mac mac;
  std::memcpy(mac.data(), bytes.data() + at, mac.size());
  return mac;
}

// Both nonces have one length: the text cannot be read in two ways.
std::string derived(const std::string& secret, std::string_view purpose, std::string_view lead,
                    std::string_view agent) {
  const Mac mac = hmac_sha256(secret, format("{}\n{}{}", purpose, lead, agent));
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

// "" where it is no nonce.
std::string nonce_bytes(const std::string& hex) {
  std::string bytes;
  if (hex.size() != 2 * wire_nonce_bytes) return bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const auto read = std::from_chars(&hex[i], &hex[i] + 2, value, 16);
    if (read.ec != std::errc{} || read.ptr != &hex[i] + 2) return {};
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace

const char* to_string(WireKind kind) {
  switch (kind) {
    case WireKind::challenge: return "challenge";
    case WireKind::hello: return "hello";
    case WireKind::welcome: return "welcome";
    case WireKind::refused: return "refused";
    case WireKind::report: return "report";
    case WireKind::order: return "order";
    case WireKind::store: return "store";
    case WireKind::promise: return "promise";
  }
  return "unknown";
}

WireSession::WireSession(bool is_lead, const std::string& secret, const std::string& nonce, LeadEpoch epoch,
                         Value hello)
    : is_lead_(is_lead),
      secret_(secret),
      nonce_(nonce_bytes(nonce)),
      epoch_(std::move(epoch)),
      hello_(std::move(hello)) {
  LH_ASSERT(!secret_.empty() && !nonce_.empty(), nonce);
}

WireSession WireSession::lead(const std::string& secret, const std::string& nonce, LeadEpoch epoch) {
  WireSession session(true, secret, nonce, std::move(epoch), {});
  session.put(WireKind::challenge, {});
  return session;
}

WireSession WireSession::agent(const std::string& secret, const std::string& nonce, LeadEpoch epoch, Value hello) {
  if (!epoch.host.empty()) hello.set(led_from_key, epoch.host);
  return {false, secret, nonce, std::move(epoch), std::move(hello)};
}

std::string WireSession::outgoing() {
  return std::exchange(out_, {});
}

void WireSession::derive_keys(std::string_view nonce_of_other) {
  const std::string_view own = nonce_;
  const std::string_view lead = is_lead_ ? own : nonce_of_other, agent = is_lead_ ? nonce_of_other : own;
  const std::string to_lead = derived(secret_, "agent to lead", lead, agent);
  const std::string to_agent = derived(secret_, "lead to agent", lead, agent);
  key_out_.emplace(is_lead_ ? to_agent : to_lead);
  key_in_.emplace(is_lead_ ? to_lead : to_agent);
}

void WireSession::put(WireKind kind, const Value& body) {
  const std::string text = kind == WireKind::challenge ? std::string() : to_json(body);
  LH_ASSERT(text.size() <= (open() ? wire_body_max : wire_greeting_max), std::to_string(text.size()));
  std::string frame = header_bytes(
      {wire_version, static_cast<std::uint16_t>(kind), static_cast<std::uint32_t>(text.size()), epoch_.number, sent_});
  if (sent_++ == 0) frame += nonce_;
  frame += text;
  const Mac mac = key_out_ ? key_out_->sign(frame) : Mac{};
  frame.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  out_ += frame;
}

void WireSession::welcome(const Value& body) {
  LH_ASSERT(is_lead_ && stage_ == Stage::greeted, "nobody said hello");
  Value whole = body;
  if (!epoch_.host.empty()) whole.set(led_from_key, epoch_.host);
  put(WireKind::welcome, whole);
  stage_ = Stage::open;
}

void WireSession::refuse(const std::string& why, bool for_good) {
  LH_ASSERT(is_lead_ && stage_ == Stage::greeted, "nobody said hello");
  Value body = Value::make_table();
  body.set("why", why.substr(0, refusal_bytes_max));
  if (for_good) body.set("for_good", true);
  put(WireKind::refused, body);
  stage_ = Stage::ended;
}

void WireSession::send(WireKind kind, const Value& body) {
  LH_ASSERT(open(), to_string(kind));
  put(kind, body);
}

Result<std::vector<WireFrame>> WireSession::take(std::string_view bytes) {
  std::vector<WireFrame> frames;
  if (stage_ == Stage::ended) return make_error(ErrorCode::aborted, "this connection was refused");
  in_ += bytes;
  for (;;) {
    auto frame = next();
    if (!frame.ok()) {
      stage_ = Stage::ended;
      return frame.error();
    }
    if (!frame->has_value()) return frames;
    if (const Status accepted = accept(**frame); !accepted.ok()) {
      stage_ = Stage::ended;
      return accepted.error();
    }
    if ((*frame)->kind != WireKind::challenge) frames.push_back(std::move(**frame));
  }
}

Error WireSession::not_ours(const std::string& what) {
  stranger_ = !verified_;
  return make_error(verified_ ? ErrorCode::aborted : ErrorCode::unavailable, what);
}

Result<std::optional<WireFrame>> WireSession::next() {
  if (in_.substr(0, magic.size()) != magic.substr(0, std::min(in_.size(), magic.size())))
    return not_ours("what came is no message of a lead or an agent");
  if (in_.size() < wire_header_bytes) return std::optional<WireFrame>{};
  const Header header = header_of(in_);
  const auto kind = static_cast<WireKind>(header.kind);
  const bool first = stage_ == Stage::begun;
  if (first && header.version < first_of_this_layout) return not_ours(versions_text(header.version));
  if (first && kind != (is_lead_ ? WireKind::hello : WireKind::challenge))
    return not_ours(format("the conversation begins with a {}", to_string(kind)));
  const std::size_t body_max = kind == WireKind::challenge ? 0 : open() ? wire_body_max : wire_greeting_max;
  if (header.body_bytes > body_max)
    return not_ours(format("a {} of {} bytes; at most {}", to_string(kind), header.body_bytes, body_max));
  const std::size_t body_at = wire_header_bytes + (first ? wire_nonce_bytes : 0);
  const std::size_t signed_bytes = body_at + header.body_bytes, whole = signed_bytes + wire_mac_bytes;
  if (in_.size() < whole) return std::optional<WireFrame>{};
  if (first) derive_keys(std::string_view(in_).substr(wire_header_bytes, wire_nonce_bytes));
  if (is_lead_ || !first) {  // a lead's challenge alone is not signed
    LH_CHECK(check_mac(signed_bytes, kind));
    LH_CHECK(check_version(header.version, kind));
  }
  if (header.number != received_)
    return not_ours(format("message number {} where {} was due", header.number, received_));
  WireFrame frame{kind, header.epoch, {}};
  if (header.body_bytes > 0) {
    LH_TRY(frame.body, parse_json(std::string_view(in_).substr(body_at, header.body_bytes), "message"));
  }
  if (kind == WireKind::hello || kind == WireKind::welcome) frame.epoch.host = frame.body.get_string(led_from_key);
  ++received_;
  in_.erase(0, whole);
  return std::optional<WireFrame>(std::move(frame));
}

// Over the bytes as they came: nothing of them was read but where they end.
Status WireSession::check_mac(std::size_t signed_bytes, WireKind kind) {
  if (!key_in_ || !same_mac(key_in_->sign(std::string_view(in_).substr(0, signed_bytes)), mac_at(in_, signed_bytes)))
    return not_ours(
        format("a {} is not from who it should be: its mac does not fit the attempt's secret", to_string(kind)));
  verified_ = true;
  return {};
}

// Signed: both are of this attempt. The agent of another version hears it in a frame that it can trust as well.
Status WireSession::check_version(std::uint16_t version, WireKind kind) {
  if (version == wire_version) return {};
  const std::string what = versions_text(version);
  if (is_lead_ && kind == WireKind::hello) {
    stage_ = Stage::greeted;
    refuse(what, true);
  }
  return make_error(ErrorCode::unsupported, what, "lead and agents of one job must be of the same release");
}

Status WireSession::accept(const WireFrame& frame) {
  // Of a challenge anybody may say it: that costs another try, and an outdated lead learns nothing by it.
  const bool of_host = !frame.epoch.host.empty();  // who only waits for a majority names none
  if ((of_host ? frame.epoch < epoch_ : frame.epoch.number < epoch_.number) && frame.kind != WireKind::hello)
    return not_ours(
        format("a {} of epoch {}; this is epoch {}", to_string(frame.kind), frame.epoch.text(), epoch_.text()));
  switch (frame.kind) {
    case WireKind::challenge:
      if (is_lead_ || stage_ != Stage::begun) break;
      put(WireKind::hello, hello_);
      stage_ = Stage::greeted;
      return {};
    case WireKind::hello:
      if (!is_lead_ || stage_ != Stage::begun) break;
      stage_ = Stage::greeted;
      return {};
    case WireKind::welcome:
      if (is_lead_ || stage_ != Stage::greeted) break;
      stage_ = Stage::open;
      if (of_host || frame.epoch.number > epoch_.number) epoch_ = frame.epoch;
      return {};
    case WireKind::refused:
      if (is_lead_ || stage_ != Stage::greeted) break;
      return make_error(frame.body.get_bool("for_good", false) ? ErrorCode::conflict : ErrorCode::aborted,
                        "the lead refused: " + frame.body.get_string("why", "no reason given"));
    case WireKind::report:
    case WireKind::promise:
      if (!is_lead_ || stage_ != Stage::open) break;
      return {};
    case WireKind::order:
      if (is_lead_ || stage_ != Stage::open) break;
      return {};
    case WireKind::store:
      if (stage_ != Stage::open) break;
      return {};
  }
  return make_error(ErrorCode::corrupt, format("a {} at the wrong time", to_string(frame.kind)));
}

}  // namespace longhaul
