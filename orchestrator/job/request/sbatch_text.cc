#include "orchestrator/job/request/sbatch_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t word_max = 4000;  // sbatch copies each word into a buffer of BUFSIZ bytes, 8192 on Linux
constexpr std::size_t job_name_max = 100;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// Needs no quotes in any shell-like reader.
bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_./:,@%+=-[]&|*").find(c) != std::string_view::npos;
}

}  // namespace

bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), is_control);
}

std::string one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(out.begin(), out.end(), is_control, '?');
  return out;
}

Result<std::string> sbatch_quoted(std::string_view value) {
  if (!is_one_line(value))
    return make_error(ErrorCode::invalid_input, "'" + one_line(value) + "' holds a newline or a control character",
                      "an #SBATCH line cannot hold one");
  if (value.size() > word_max)
    return make_error(ErrorCode::invalid_input, format("a value of {} bytes is too long", value.size()),
                      format("sbatch takes {} at most", word_max));
  if (std::all_of(value.begin(), value.end(), is_plain)) return std::string(value);
  std::string out = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string sbatch_time(double seconds) {
  const auto all = static_cast<long long>(std::ceil(seconds));
  const long long days = all / 86400, rest = all % 86400;
  const std::string clock = format("{:02d}:{:02d}:{:02d}", rest / 3600, rest / 60 % 60, rest % 60);
  return days > 0 ? format("{}-{}", days, clock) : clock;
}

std::string sbatch_file_pattern(std::string_view path) {
  return replace_all(std::string(path), "%", "%%");
}

std::string sbatch_job_name(std::string_view text) {
  std::string out(text.substr(0, job_name_max));
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  return out;
}

}  // namespace longhaul
