#include "base/text/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::string_view blank = "[redacted]";

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}
bool is_token_char(char c) {
  return is_name_char(c) || c == '.' || c == '/' || c == '+' || c == '=' || c == '~';
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isdigit(c) || c == '.' || c == ',' || c == '-' || c == '+' || c == 'e';
  });
}

std::size_t end_of(std::string_view text, std::size_t from, bool (*belongs)(char)) {
  while (from < text.size() && belongs(text[from])) ++from;
  return from;
}

// Where the value behind `name = ` or `name: ` begins; npos if none stands there. Quotes around the name are passed.
std::size_t value_after(std::string_view text, std::size_t at) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) ++at;
  while (at < text.size() && text[at] == ' ') ++at;
  if (at >= text.size() || (text[at] != '=' && text[at] != ':')) return std::string_view::npos;
  ++at;
  while (at < text.size() && text[at] == ' ') ++at;
  return at < text.size() && text[at] != '\n' ? at : std::string_view::npos;
}

std::size_t end_of_value(std::string_view text, std::size_t at) {
  const char quote = text[at] == '"' || text[at] == '\'' ? text[at] : '\0';
  if (quote == '\0') {
    while (at < text.size() && !std::isspace(static_cast<unsigned char>(text[at])) && text[at] != ',' &&
           text[at] != ';' && text[at] != '"' && text[at] != '\'' && text[at] != '&')
      ++at;
    return at;
  }
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at, text.size());
}

// A word that is a secret by its own look.
bool looks_secret(std::string_view word) {
  struct Look {
    std::string_view prefix;
    std::size_t length_min;
  };
  constexpr std::array<Look, 11> looks = {{{"hf_", 20},
                                           {"ghp_", 20},
                                           {"gho_", 20},
                                           {"ghs_", 20},
                                           {"github_pat_", 20},
                                           {"glpat-", 20},
                                           {"sk-", 20},
                                           {"xoxb-", 15},
                                           {"xoxp-", 15},
                                           {"AKIA", 20},
                                           {"eyJhbGciOi", 30}}};
  return std::any_of(looks.begin(), looks.end(), [&](const Look& look) {
    return word.size() >= look.length_min && starts_with(word, look.prefix);
  });
}

// What follows "://" of an address: user:password@ goes, and so does the path of a webhook.
std::string redact_address(std::string_view rest) {
  std::string out;
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::size_t at = rest.substr(0, slash).rfind('@');
  if (at != std::string_view::npos) {
    out += blank;
    rest.remove_prefix(at);
  }
  const std::string host = lower(rest.substr(0, std::min(rest.find('/'), rest.size())));
  const bool hook = host.find("hooks.") != std::string::npos || host.find("webhook") != std::string::npos ||
                    rest.find("/services/") != std::string_view::npos || rest.find("webhook") != std::string_view::npos;
  if (!hook) return out + std::string(rest);
  return out + std::string(rest.substr(0, std::min(rest.find('/'), rest.size()))) + "/" + std::string(blank);
}

}  // namespace

bool names_a_secret(std::string_view name) {
  const std::string text = replace_all(lower(name), "-", "_");
  for (const char* harmless : {"eos_token", "bos_token", "pad_token", "unk_token", "mask_token", "sep_token",
                               "cls_token", "end_token", "per_token", "start_token", "added_token", "next_token",
                               "attempt_key", "public_key", "sort_key", "time_line_key"})
    if (ends_with(text, harmless)) return false;
  if (text == "pwd" || text == "oldpwd") return false;  // where a shell stands
  for (const char* secret : {"token", "secret", "password", "passwd", "passphrase", "api_key", "apikey", "access_key",
                             "_key", "credential", "credentials", "authorization", "jwt", "pwd", "_pat", "cookie"})
    if (ends_with(text, secret)) return true;
  return text == "auth" || ends_with(text, "webhook_url");
}

namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// Where a value of TOML or JSON ends that begins at `at`: a string, a list or table with all that is in it, a word.
std::size_t end_of_any_value(std::string_view text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = end_of_value(text, at);
      if (depth == 0) return std::min(at + 1, text.size());
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || c == '\n' || c == '#')) {
      return at;
    }
  }
  return text.size();
}

// The members of a table whose "{" is before `at`, to its "}" and with it. Returns where that ends.
std::size_t redact_members(std::string_view text, std::size_t at, std::string& out) {
  while (at < text.size() && text[at] != '}') {
    const std::size_t value = text[at] == '"' || text[at] == '\'' || is_name_char(text[at]) ? at : std::string::npos;
    if (value == std::string::npos) {
      out += text[at++];
      continue;
    }
    std::size_t name_end = text[at] == '"' || text[at] == '\'' ? std::min(end_of_value(text, at) + 1, text.size())
                                                               : end_of(text, at, is_name_char);
    while (name_end < text.size() && is_blank(text[name_end])) ++name_end;
    if (name_end >= text.size() || (text[name_end] != '=' && text[name_end] != ':')) {
      out += blank;  // no member: nothing ambiguous is let through
      at = end_of_any_value(text, at);
      continue;
    }
    ++name_end;
    while (name_end < text.size() && is_blank(text[name_end])) ++name_end;
    out += text.substr(at, name_end - at);
    out += format("\"{}\"", blank);
    at = std::max(name_end, end_of_any_value(text, name_end));
  }
  if (at < text.size()) out += text[at++];
  return at;
}

// Behind the header of a table: its lines, to the next header.
std::size_t redact_lines(std::string_view text, std::size_t at, std::string& out) {
  while (at < text.size()) {
    while (at < text.size() && (is_blank(text[at]) || text[at] == '\n')) out += text[at++];
    if (at >= text.size() || text[at] == '[') return at;
    const std::size_t line_end = std::min(text.find('\n', at), text.size());
    const std::size_t equals = text.substr(at, line_end - at).find('=');
    if (text[at] == '#' || equals == std::string_view::npos) {
      out += text.substr(at, line_end - at);
      at = line_end;
      continue;
    }
    std::size_t value = at + equals + 1;
    while (value < line_end && is_blank(text[value])) ++value;
    out += text.substr(at, value - at);
    out += format("\"{}\"", blank);
    // Strings of several lines begin and end with three quotes.
    const bool long_text = text.substr(value, 3) == "\"\"\"" || text.substr(value, 3) == "\'\'\'";
    const std::size_t closed = long_text ? text.find(text.substr(value, 3), value + 3) : 0;
    at = !long_text                         ? std::max(value, end_of_any_value(text, value))
         : closed == std::string_view::npos ? text.size()
                                            : closed + 3;
    at = std::min(text.find('\n', at), text.size());
  }
  return at;
}

}  // namespace

std::string redact_environments(std::string_view text) {
  constexpr std::string_view name = "environment";
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(name); found != std::string_view::npos; found = text.find(name, at)) {
    std::size_t end = found + name.size();
    const bool whole =
        (found == 0 || !is_name_char(text[found - 1])) && (end == text.size() || !is_name_char(text[end]));
    out += text.substr(at, end - at);
    at = end;
    if (!whole) continue;
    if (end < text.size() && text[end] == '"') ++end;
    const std::size_t line = text.rfind('\n', found) + 1;  // npos + 1 is 0
    std::size_t first = line;
    while (first < found && is_blank(text[first])) ++first;
    if (text[first] == '[' && end < text.size() && text[end] == ']' && first < found) {
      const std::size_t header_end = std::min(text.find('\n', end), text.size());
      out += text.substr(at, header_end - at);
      at = redact_lines(text, header_end, out);
      continue;
    }
    const std::size_t value = value_after(text, found + name.size());
    if (value == std::string_view::npos || text[value] != '{') continue;
    out += text.substr(at, value + 1 - at);
    at = redact_members(text, value + 1, out);
  }
  return out + std::string(text.substr(at));
}

std::string redact_secrets(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (starts_with(rest, "-----BEGIN ") && rest.substr(0, 60).find("PRIVATE KEY") != std::string_view::npos) {
      const std::size_t end = rest.find("-----END ");
      const std::size_t line_end = end == std::string_view::npos ? end : rest.find('\n', end);
      out += blank;
      at = line_end == std::string_view::npos ? text.size() : at + line_end;
      continue;
    }
    if (starts_with(rest, "://")) {
      std::size_t end = 3;
      while (end < rest.size() && !std::isspace(static_cast<unsigned char>(rest[end])) && rest[end] != '"' &&
             rest[end] != '\'' && rest[end] != '>')
        ++end;
      out += "://" + redact_address(rest.substr(3, end - 3));
      at += end;
      continue;
    }
    if (!is_name_char(text[at])) {
      out += text[at++];
      continue;
    }
    const std::size_t name_end = end_of(text, at, is_name_char);
    const std::string_view name = text.substr(at, name_end - at);
    if (const std::size_t word_end = end_of(text, at, is_token_char); looks_secret(text.substr(at, word_end - at))) {
      out += blank;
      at = word_end;
      continue;
    }
    out += name;
    at = name_end;
    std::size_t value = std::string_view::npos;
    if (lower(name) == "bearer" && at < text.size() && text[at] == ' ')
      value = at + 1;
    else if (names_a_secret(name))
      value = value_after(text, at);
    if (value == std::string_view::npos || value >= text.size()) continue;
    std::size_t end = end_of_value(text, value);
    const bool quoted = text[value] == '"' || text[value] == '\'';
    const std::string_view found = text.substr(value + (quoted ? 1 : 0), end - value - (quoted ? 1 : 0));
    if (found.empty() || is_number(found) || found == "true" || found == "false" || found == "null") continue;
    if (lower(found) == "bearer" || lower(found) == "basic")  // "Authorization: Bearer x"
      while (end < text.size() && text[end] != '\n' && text[end] != '"' && text[end] != '\'') ++end;
    out += text.substr(at, value - at + (quoted ? 1 : 0));
    out += blank;
    at = end;
  }
  return out;
}

}  // namespace longhaul
