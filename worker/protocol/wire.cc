#include "worker/protocol/wire.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "base/text.h"

namespace longhaul {
namespace {

constexpr std::string_view magic = "LHW1";

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

Result<Header> header_of(std::string_view bytes) {
  Header header;
  header.version = number_at<std::uint16_t>(bytes, 4);
  header.kind = number_at<std::uint16_t>(bytes, 6);
  header.body_bytes = number_at<std::uint32_t>(bytes, 8);
  header.epoch = number_at<std::int64_t>(bytes, 16);
  header.number = number_at<std::uint64_t>(bytes, 24);
  if (header.version != wire_version)
    return make_error(
        ErrorCode::unsupported,
        format("the other side speaks version {} of the protocol, this one {}", header.version, wire_version),
        "lead and agents of one job must be of the same release");
  if (header.body_bytes > wire_body_max)
    return make_error(ErrorCode::corrupt,
                      format("a message of {} bytes; at most {}", header.body_bytes, wire_body_max));
  return header;
}

Mac mac_at(std::string_view bytes, std::size_t at) {
  Mac mac;
  std::memcpy(mac.data(), bytes.data() + at, mac.size());
  return mac;
}

std::string derived(const std::string& secret, std::string_view purpose, const std::string& lead,
                    const std::string& agent) {
  // Neither nonce contains a line break: the text cannot be read in two ways.
  const Mac mac = hmac_sha256(secret, format("{}\n{}\n{}", purpose, lead, agent));
  return {reinterpret_cast<const char*>(mac.data()), mac.size()};
}

bool is_nonce(const std::string& text) {
  return text.size() >= 32 && text.size() <= 128 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
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
    case WireKind::words: return "words";
  }
  return "unknown";
}

WireSession::WireSession(bool is_lead, std::string secret, std::string nonce, std::int64_t epoch, Value hello)
    : is_lead_(is_lead), secret_(std::move(secret)), nonce_(std::move(nonce)), epoch_(epoch), hello_(std::move(hello)) {
  LH_ASSERT(!secret_.empty() && is_nonce(nonce_), nonce_);
}

WireSession WireSession::lead(std::string secret, std::string nonce, std::int64_t epoch) {
  WireSession session(true, std::move(secret), std::move(nonce), epoch, {});
  Value body = Value::make_table();
  body.set("nonce", session.nonce_);
  session.put(WireKind::challenge, body);
  return session;
}

WireSession WireSession::agent(std::string secret, std::string nonce, std::int64_t epoch, Value hello) {
  return {false, std::move(secret), std::move(nonce), epoch, std::move(hello)};
}

std::string WireSession::outgoing() {
  return std::exchange(out_, {});
}

void WireSession::derive_keys(const std::string& nonce_of_other) {
  const std::string &lead = is_lead_ ? nonce_ : nonce_of_other, &agent = is_lead_ ? nonce_of_other : nonce_;
  const std::string to_lead = derived(secret_, "agent to lead", lead, agent);
  const std::string to_agent = derived(secret_, "lead to agent", lead, agent);
  key_out_.emplace(is_lead_ ? to_agent : to_lead);
  key_in_.emplace(is_lead_ ? to_lead : to_agent);
}

void WireSession::put(WireKind kind, const Value& body) {
  const std::string text = to_json(body);
  LH_ASSERT(text.size() <= wire_body_max, std::to_string(text.size()));
  std::string frame = header_bytes({wire_version, static_cast<std::uint16_t>(kind),
                                    static_cast<std::uint32_t>(text.size()), epoch_, sent_++}) +
                      text;
  const Mac mac = key_out_ ? key_out_->sign(frame) : Mac{};
  frame.append(reinterpret_cast<const char*>(mac.data()), mac.size());
  out_ += frame;
}

void WireSession::welcome(const Value& body) {
  LH_ASSERT(is_lead_ && stage_ == Stage::greeted, "nobody said hello");
  put(WireKind::welcome, body);
  stage_ = Stage::open;
}

void WireSession::refuse(const std::string& why, bool for_good) {
  LH_ASSERT(is_lead_ && stage_ == Stage::greeted, "nobody said hello");
  Value body = Value::make_table();
  body.set("why", why);
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

Result<std::optional<WireFrame>> WireSession::next() {
  if (in_.substr(0, magic.size()) != magic.substr(0, std::min(in_.size(), magic.size())))
    return make_error(ErrorCode::corrupt, "what came is no message of a lead or an agent");
  if (in_.size() < wire_header_bytes) return std::optional<WireFrame>{};
  LH_TRY(const Header header, header_of(in_));
  const std::size_t signed_bytes = wire_header_bytes + header.body_bytes, whole = signed_bytes + wire_mac_bytes;
  if (in_.size() < whole) return std::optional<WireFrame>{};
  const auto kind = static_cast<WireKind>(header.kind);
  const std::string text = in_.substr(wire_header_bytes, header.body_bytes);
  WireFrame frame{kind, header.epoch, {}};
  // What names the other side's nonce is read before its mac can be looked at; nothing else is done with it until then.
  const bool first_of_lead = !is_lead_ && stage_ == Stage::begun, first_of_agent = is_lead_ && stage_ == Stage::begun;
  LH_TRY(frame.body, parse_json(text, "message"));
  if (first_of_lead || first_of_agent) {
    const std::string nonce = frame.body.get_string("nonce");
    if (kind != (is_lead_ ? WireKind::hello : WireKind::challenge) || !is_nonce(nonce))
      return make_error(ErrorCode::corrupt, format("the conversation begins with a {}", to_string(kind)));
    derive_keys(nonce);
  }
  if (!first_of_lead &&
      (!key_in_ || !same_mac(key_in_->sign(std::string_view(in_).substr(0, signed_bytes)), mac_at(in_, signed_bytes))))
    return make_error(
        ErrorCode::aborted,
        format("a {} is not from who it should be: its mac does not fit the attempt's secret", to_string(kind)));
  if (header.number != received_)
    return make_error(ErrorCode::aborted, format("message number {} where {} was due", header.number, received_));
  ++received_;
  in_.erase(0, whole);
  return std::optional<WireFrame>(std::move(frame));
}

Status WireSession::accept(const WireFrame& frame) {
  if (frame.epoch < epoch_ && frame.kind != WireKind::hello)
    return make_error(ErrorCode::aborted,
                      format("a {} of epoch {}; this is epoch {}", to_string(frame.kind), frame.epoch, epoch_));
  switch (frame.kind) {
    case WireKind::challenge:
      put(WireKind::hello, [&] {
        Value body = hello_;
        body.set("nonce", nonce_);
        return body;
      }());
      stage_ = Stage::greeted;
      return {};
    case WireKind::hello:
      if (!is_lead_ || stage_ != Stage::begun) break;
      stage_ = Stage::greeted;
      return {};
    case WireKind::welcome:
      if (is_lead_ || stage_ != Stage::greeted) break;
      stage_ = Stage::open;
      epoch_ = frame.epoch;
      return {};
    case WireKind::refused:
      if (is_lead_ || stage_ != Stage::greeted) break;
      return make_error(frame.body.get_bool("for_good", false) ? ErrorCode::conflict : ErrorCode::aborted,
                        "the lead refused: " + frame.body.get_string("why", "no reason given"));
    case WireKind::report:
      if (!is_lead_ || stage_ != Stage::open) break;
      return {};
    case WireKind::order:
      if (is_lead_ || stage_ != Stage::open) break;
      return {};
    case WireKind::words:
      if (stage_ != Stage::open) break;
      return {};
  }
  return make_error(ErrorCode::corrupt, format("a {} at the wrong time", to_string(frame.kind)));
}

}  // namespace longhaul
